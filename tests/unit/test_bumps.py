"""What a moved pin pulls in, from the pin's own text, or from the subject, or unknown."""

import pytest
from history_builders import landed

from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.bumps import pulled_in
from scripts.tracker.history import LandedCommit

LLVM = ("cmake/llvm-hash.txt",)
TOOLCHAIN = ("python/setup.py", "cmake/nvidia-toolchain-version.json")


class Pins:
    """A history that knows two texts of the pin, or none."""

    def __init__(self, texts: tuple[str, str] | None) -> None:
        self.texts = texts

    def pins(self, commit: LandedCommit, path: str) -> tuple[str, str] | None:
        assert path in (LLVM[0], TOOLCHAIN[1])
        return self.texts

    def between(self, before, after):
        raise NotImplementedError


def words(subject: str, files: tuple[str, ...], texts: tuple[str, str] | None) -> str:
    area = next(a for f in files[::-1] if (a := read_rules().area_of(f)) and a.bump)
    return pulled_in(area, landed(1, subject, files), Pins(texts))


@pytest.mark.parametrize(
    ("subject", "files", "texts", "said"),
    [
        ("Update LLVM (#1)", LLVM, ("a" * 40 + "\n", "b" * 40 + "\n"), "LLVM aaaaaaaaaaaa .. bbbbbbbbbbbb"),
        (
            "Update ptxas (#1)", TOOLCHAIN,
            ('{"ptxas": "12.4.99", "cupti": "12"}', '{"ptxas": "12.8.93", "cupti": "12"}'),
            "NVIDIA toolchain ptxas 12.4.99 .. 12.8.93",
        ),
        (
            "Blackwell (#1)", TOOLCHAIN,
            ('{"ptxas": "12.4.99"}', '{"ptxas": "12.4.99", "ptxas-blackwell": "12.8.61"}'),
            "NVIDIA toolchain ptxas-blackwell none .. 12.8.61",
        ),
        (
            "Update to llvm/llvm-project@bd9145c8c213 (#5180)", LLVM, None,
            "LLVM to bd9145c8c213, says its subject; from what is not known here",
        ),
        (
            "Update LLVM version to https://github.com/llvm/llvm-project/commit/765206e05045 (#4059)",
            LLVM, None, "LLVM to 765206e05045, says its subject; from what is not known here",
        ),
        (
            "Update ptxas to version 12.8.93 (#6149)", TOOLCHAIN, None,
            "NVIDIA toolchain to 12.8.93, says its subject; from what is not known here",
        ),
        ("Update LLVM hash (#5040)", LLVM, None, "LLVM, from what to what is not known here"),
    ],
)  # fmt: skip
def test_what_is_known(
    subject: str, files: tuple[str, ...], texts: tuple[str, str] | None, said: str
) -> None:
    assert words(subject, files, texts) == said


@pytest.mark.parametrize(
    "text",
    ["<script>", '{"ptxas": "@everyone <b>"}', '{"<b>": "1"}', '{"ptxas": 3}', "", "[" * 10_000],
)  # fmt: skip
def test_a_hostile_pin_is_not_repeated(text: str) -> None:
    assert words("Bump (#1)", TOOLCHAIN, ('{"ptxas": "12.4.99"}', text)) == (
        "NVIDIA toolchain, from what to what is not known here"
    )
