"""What a comparison takes as a Triton: a release, a wheel of any name, a folder; and what it refuses."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from scripts.tracker import sides, throwaway
from scripts.tracker.errors import TrackerError
from scripts.tracker.sides import parse_sides
from scripts.tracker.workspace import Workspace


def checkout(root: Path, package: str = "python") -> Path:
    built = root / package / "triton" / "_C"
    built.mkdir(parents=True)
    (built / "libtriton.so").touch()
    return root


@pytest.mark.parametrize("package", ["python", "."])
def test_a_checkout_in_development_mode(package: str, tmp_path: Path) -> None:
    base, head = parse_sides("3.8.0", str(checkout(tmp_path / "triton", package)))
    assert (base.version, base.commit.label) == ("3.8.0", "3.8.0")
    assert head.folder == (tmp_path / "triton" / package).resolve()


def test_a_checkout_is_called_by_its_commit_and_marked_if_it_was_edited(tmp_path: Path) -> None:
    root = checkout(tmp_path / "triton")

    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(
            ["git", "-C", str(root), *identity, *words], check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q")
    (root / "setup.py").write_text("1")
    git("add", "setup.py")
    git("commit", "-qm", "one")
    sha = git("rev-parse", "--short=10", "HEAD")
    assert parse_sides("3.8.0", str(root))[1].commit.label == sha
    (root / "setup.py").write_text("2")
    assert parse_sides("3.8.0", str(root))[1].commit.label == f"{sha}+"


def test_a_package_inside_another_project_is_not_called_by_that_ones_commit(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    root = checkout(tmp_path / "lib" / "site-packages", ".")
    assert parse_sides("3.8.0", str(root))[1].commit.label == "site-packages"


def test_two_sides_of_one_name_are_told_apart() -> None:
    base, head = parse_sides("3.8.0", "3.8.0")
    assert [base.commit.label, head.commit.label] == ["3.8.0 (base)", "3.8.0 (head)"]


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("main", "no release (like 3.2.0), no wheel (*.whl) and no folder"),
        ("./nowhere", "no such folder or wheel"),
        ("nothing.whl", "no such wheel"),
        (".", "no built Triton in it"),
    ],
)
def test_what_is_no_triton_is_one_error(
    word: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrackerError) as caught:
        parse_sides("3.8.0", word)
    assert words in str(caught.value)


def python_that(root: Path, script: str) -> Path:
    path = root / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_folder_is_imported_from_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/another/triton")
    side = parse_sides("3.8.0", str(checkout(tmp_path / "triton")))[1]
    python = python_that(tmp_path, f'echo "$PYTHONPATH" "$PYTHONDONTWRITEBYTECODE" "$@" >> {tmp_path}/asked')
    side.compile(python, Workspace(tmp_path), "cuda:90", [64, 128])
    asked = (tmp_path / "asked").read_text().splitlines()
    # It is the user's checkout: not even compiled modules are left in it.
    assert [line.split()[:2] for line in asked] == [[str(side.folder), "1"]] * 2
    assert "--commit head --target cuda:90 --head-dim 64" in asked[0]


def test_another_python_is_told(tmp_path: Path) -> None:
    side = parse_sides("3.8.0", str(checkout(tmp_path / "triton")))[1]
    python = python_that(tmp_path, 'echo "ImportError: undefined symbol: _Py" >&2; exit 1')
    with pytest.raises(TrackerError, match=r"cannot be imported.*--python names that one"):
        side.compile(python, Workspace(tmp_path), "cuda:90", [64])


def wheel_file(path: Path, *tags: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("triton/__init__.py", "")
        archive.writestr("triton-3.9.0+git1.dist-info/WHEEL", "".join(f"Tag: {tag}\n" for tag in tags))
    return path


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        (["cp311-cp311-linux_x86_64"], "triton-3.9.0+git1-cp311-cp311-linux_x86_64.whl"),
        (
            ["cp312-cp312-manylinux_2_27_x86_64", "cp312-cp312-manylinux_2_28_x86_64"],
            "triton-3.9.0+git1-cp312-cp312-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
        ),
    ],
)
def test_a_wheel_may_be_called_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tags: list[str], name: str
) -> None:
    asked = []
    monkeypatch.setattr(throwaway, "_run", lambda command: asked.append(command))
    wheel = wheel_file(tmp_path / "main.whl", *tags)
    throwaway.install_wheel(tmp_path / "python", wheel)
    assert Path(asked[-1][-1]).name == name


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip"])
def test_what_is_no_wheel_names_itself(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "main.whl").write_bytes(content)
    with pytest.raises(TrackerError, match=r"main\.whl: no wheel that can be read"):
        throwaway.wheel_name(tmp_path / "main.whl")


def test_a_wheel_without_its_names_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="no wheel that can be read"):
        throwaway.wheel_name(wheel_file(tmp_path / "main.whl"))


def test_a_wheel_that_does_not_fit_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "triton-3.9.0+gitabc-cp99-cp99-linux_x86_64.whl"
    wheel.touch()

    def refuses(python: Path, path: Path) -> None:
        raise TrackerError("not a supported wheel on this platform")

    monkeypatch.setattr(sides, "install_wheel", refuses)
    side = parse_sides("3.8.0", str(wheel))[1]
    assert side.commit.label == "3.9.0+gitabc"
    with pytest.raises(TrackerError, match=r"cp99.*not a supported wheel.*--python"):
        side.install(tmp_path)
