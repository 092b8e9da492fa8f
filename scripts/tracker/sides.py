"""The two Tritons of a comparison: a release, a wheel, or a folder with a build."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from scripts.tracker.errors import TrackerError, printable
from scripts.tracker.model import Commit
from scripts.tracker.throwaway import ROOT, install_release, install_wheel, uninstall_triton
from scripts.tracker.workspace import Workspace

# Where a checkout has its package: older ones, and those of the package itself, at the top.
_PACKAGE_FOLDERS = ("python", ".")
_LABEL_WIDTH = 20
_OTHER_PYTHON = "was it built for another Python? --python names that one"


@dataclass(frozen=True, slots=True)
class Side:
    """``commit``: its name in the evidence store, a word of ours. Given is one of ``version``, ``wheel`` and
    ``folder`` (the one that holds the package `triton`, built)."""

    commit: Commit
    version: str | None = None
    wheel: Path | None = None
    folder: Path | None = None

    def install(self, python: Path) -> None:
        """Put it there in place of another. A folder is only looked into: nothing is written to it.

        Raises TrackerError.
        """
        if self.version is not None:
            install_release(python, self.version)
        elif self.wheel is not None:
            try:
                install_wheel(python, self.wheel)
            except TrackerError as error:
                raise TrackerError(f"{self.wheel}: {error}; {_OTHER_PYTHON}") from error
        else:
            uninstall_triton(python)

    def compile(self, python: Path, workspace: Workspace, target: str, head_dims: list[int]) -> None:
        """Compile all variants into the evidence store. Raises TrackerError if this Triton compiles nothing:
        what it refuses, crashes on or lacks is a record."""
        environment = dict(os.environ)
        environment.pop("PYTHONPATH", None)  # another Triton may be in there
        if self.folder is not None:
            environment |= {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        for head_dim in head_dims:
            command = [str(python), "-m", "kernels.record", "--commit", self.commit.commit,
                       "--target", target, "--head-dim", str(head_dim),
                       "--out", str(workspace.evidence.root)]  # fmt: skip
            done = subprocess.run(  # noqa: S603 - our own module
                command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace",
                check=False,
            )  # fmt: skip
            if done.returncode != 0:
                raise TrackerError(f"{self.commit.label}: {self._explain(done.stderr)}")

    def _explain(self, stderr: str) -> str:
        last = printable((stderr.strip().splitlines() or ["no message"])[-1])[:300]
        if "ImportError" in stderr or "ModuleNotFoundError" in stderr:
            return f"cannot be imported: {last}; {_OTHER_PYTHON}"
        return f"nothing could be compiled: {last}"


def parse_sides(base: str, head: str) -> tuple[Side, Side]:
    """What the user named. Raises TrackerError for what is none of the three."""
    labels = [_label(word) for word in (base, head)]
    if labels[0] == labels[1]:
        labels = [f"{labels[0][: _LABEL_WIDTH - 7]} ({side})" for side in ("base", "head")]
    return _parse("base", base, labels[0]), _parse("head", head, labels[1])


def _parse(name: str, word: str, label: str) -> Side:
    commit = Commit(name, label)
    path = Path(word).expanduser()
    if path.suffix == ".whl":
        if not path.is_file():
            raise TrackerError(f"{path}: no such wheel")
        return Side(commit, wheel=path.resolve())
    if path.is_dir():
        return Side(commit, folder=_package_folder(path))
    if "/" in word:
        raise TrackerError(f"{word}: no such folder or wheel")
    try:
        return Side(commit, version=str(Version(word)))
    except InvalidVersion as error:
        raise TrackerError(
            f"{word!r} is no release (like 3.2.0), no wheel (*.whl) and no folder with a Triton"
        ) from error


def _package_folder(path: Path) -> Path:
    """The folder to import from: of a checkout in development mode, or one with an installed package."""
    for inside in _PACKAGE_FOLDERS:
        if list((path / inside / "triton" / "_C").glob("libtriton*.so")):
            return (path / inside).resolve()
    raise TrackerError(
        f"{path}: no built Triton in it (python/triton/_C/libtriton.so, or triton/_C/libtriton.so): in a "
        "checkout, pip install -e . builds it (before 2025: pip install -e python)"
    )


def _label(word: str) -> str:
    """What people call it: a version, or a checkout's commit, marked if files differ from it."""
    path = Path(word).expanduser()
    if path.suffix == ".whl":
        return printable(path.name.split("-")[1] if path.name.count("-") > 1 else path.stem)[:_LABEL_WIDTH]
    if not path.is_dir():
        return word[:_LABEL_WIDTH]
    found = _described(path.resolve()) or path.resolve().name
    return printable(found)[:_LABEL_WIDTH]


def _described(folder: Path) -> str | None:
    """By git, where the folder is a checkout or its `python`: another project's repository around it says
    nothing of the Triton inside."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None or Path(top) not in (folder, folder.parent):
        return None
    return _git(folder, "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*")


def _git(folder: Path, *words: str) -> str | None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
