"""Wheels by commit: whole or not there, the longest unused pruned, other Pythons' left alone."""

import json
import os
import sys
from pathlib import Path

import pytest
from triton_stand_in import NAME, PLATFORM, TAG, write_wheel

from scripts.builder.wheelhouse import Wheelhouse, fits, is_whole

A, B, C = ("a" * 40, "b" * 40, "c" * 40)
HERE = f"{TAG}-{TAG}-{PLATFORM}"


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    return Wheelhouse(tmp_path / "house", 10**9)


def put(house: Wheelhouse, commit: str, tmp_path: Path, content: str = "x", age_s: int = 0) -> Path:
    kept = house.put(commit, write_wheel(tmp_path / "new" / NAME, content), {"commit": commit})
    if age_s:
        then_s = kept.stat().st_mtime - age_s
        os.utime(kept, (then_s, then_s))
    return kept


def test_what_is_put_is_found(house: Wheelhouse, tmp_path: Path) -> None:
    assert house.find(A) is None
    kept = put(house, A, tmp_path)
    assert house.find(A) == kept
    assert house.find(B) is None
    assert json.loads((house.root / A / "built.json").read_text()) == {"commit": A}
    assert not list(house.root.glob(".tmp-*"))


@pytest.mark.parametrize("commit", ["", "..", "../x", "main", "a" * 39, "A" * 40])
def test_what_is_no_commit_has_no_wheel(house: Wheelhouse, tmp_path: Path, commit: str) -> None:
    write_wheel(house.root / NAME)
    write_wheel(house.root.parent / NAME)
    assert house.find(commit) is None


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", None])
def test_a_damaged_wheel_is_no_wheel(house: Wheelhouse, tmp_path: Path, damage: bytes | None) -> None:
    kept = put(house, A, tmp_path, content="machine code " * 99)
    content = bytearray(kept.read_bytes())
    content[120] ^= 1  # inside of the file that it holds
    kept.write_bytes(content if damage is None else damage)
    assert not is_whole(kept)
    assert house.find(A) is None
    assert not kept.exists()


def test_the_longest_unused_goes_first_and_the_new_one_never(tmp_path: Path) -> None:
    size = write_wheel(tmp_path / NAME, "x" * 1000).stat().st_size
    house = Wheelhouse(tmp_path / "house", int(2.5 * size))
    put(house, A, tmp_path, "x" * 1000, age_s=300)
    put(house, B, tmp_path, "x" * 1000, age_s=200)
    assert house.find(A)  # used just now
    put(house, C, tmp_path, "x" * 1000)
    assert [bool(house.find(c)) for c in (A, B, C)] == [True, False, True]
    assert not (house.root / B).exists()
    tiny = Wheelhouse(tmp_path / "house", 1)
    put(tiny, B, tmp_path, "x" * 1000)
    assert [bool(house.find(c)) for c in (A, B, C)] == [False, True, False]


def test_what_a_killed_build_left_goes_after_a_day(house: Wheelhouse, tmp_path: Path) -> None:
    house.root.mkdir()
    old, new = house.root / ".tmp-old", house.root / ".tmp-new"
    for path in (old, new):
        path.write_text("half a wheel")
    os.utime(old, (1, 1))
    put(house, A, tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_full_disk_leaves_nothing(
    house: Wheelhouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scripts.builder.wheelhouse.shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        put(house, A, tmp_path)
    assert not list(house.root.rglob("*.whl"))
    assert not list(house.root.glob(".tmp-*"))


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (f"triton-3.5.0+git1a2b3c4d-{HERE}.whl", True),
        (f"pytorch_triton-3.5.0+git1a2b3c4d-{HERE}.whl", True),
        (f"triton-3.5.0-{TAG}-{TAG}-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        (f"triton-3.5.0-cp310.{TAG}-none-any.whl", True),
        (f"triton-3.5.0-1-{HERE}.whl", True),
        ("triton-3.5.0-cp39-abi3-linux_x86_64.whl", True),
        (f"triton-3.5.0-cp3{sys.version_info.minor + 1}-abi3-linux_x86_64.whl", False),
        ("triton-3.5.0-cp39-cp39-linux_x86_64.whl", False),
        (f"triton-3.5.0-{TAG}-{TAG}-manylinux_2_28_aarch64.whl", False),
        (f"triton-3.5.0-{TAG}-{TAG}-win_amd64.whl", False),
        (f"triton_kernels-3.5.0-{HERE}.whl", False),
        ("triton-3.5.0.tar.gz", False),
        ("triton.whl", False),
    ],
)
def test_which_wheels_fit(name: str, ours: bool) -> None:
    assert fits(name) is ours
