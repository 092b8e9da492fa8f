"""An environment for one Triton at a time, made for one use and deleted after it."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

import json5

from scripts.builder.failure import BuildError
from scripts.builder.index import download_release
from scripts.tracker.errors import TrackerError

ROOT = Path(__file__).resolve().parent.parent.parent
_ASV_CONFIG = ROOT / "asv.conf.json"
# What the measuring half needs beside Triton; the versions are those of every measurement.
_NEEDED = ("numpy", "filelock", "setuptools", "zstandard", "nvidia-cuda-nvdisasm")


@contextlib.contextmanager
def throwaway_environment(folder: Path, base: Path | None = None) -> Iterator[Path]:
    """The Python of a new environment without a Triton; the folder is deleted at the end. ``base``: the
    Python to make it of; None: the one that runs this.

    Raises TrackerError if it cannot be made.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise TrackerError(f"{folder} is there: another run uses it, or one was killed; delete it") from error
    try:
        of = ["--python", str(base)] if base else []
        _run([sys.executable, "-m", "virtualenv", "--quiet", *of, str(folder)])
        python = folder / "bin" / "python"
        _pip(python, "install", *_requirements())
        yield python
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install_release(python: Path, version: str) -> None:
    """Put this release there in place of another: one wheel at a time is on the disk. Raises TrackerError."""
    scratch = python.parent.parent / "wheel"
    scratch.mkdir(exist_ok=True)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints pip's log, for asv's
            wheel = download_release(version, scratch, python)
    except BuildError as error:
        raise TrackerError(f"{error}; a release comes from the package index") from error
    install_wheel(python, wheel)
    wheel.unlink()


def install_wheel(python: Path, wheel: Path) -> None:
    """Put this Triton there in place of another, whatever its file is called. Raises TrackerError."""
    uninstall_triton(python)
    with tempfile.TemporaryDirectory() as scratch:
        named = Path(scratch) / wheel_name(wheel)  # pip takes no other name
        named.symlink_to(wheel.resolve())
        _pip(python, "install", "--no-deps", str(named))


def wheel_name(wheel: Path) -> str:
    """The name that a wheel's own metadata give it (PEP 427). Raises TrackerError."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            [path] = [n for n in archive.namelist() if n.count("/") == 1 and n.endswith(".dist-info/WHEEL")]
            tags = Parser().parsestr(archive.read(path).decode()).get_all("Tag", [])
        parts = [dict.fromkeys(words) for words in zip(*(tag.split("-") for tag in tags), strict=True)]
        python, abi, platform = (".".join(words) for words in parts)
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise TrackerError(f"{wheel}: no wheel that can be read ({error}); build it again") from error
    return f"{path.split('/')[0].removesuffix('.dist-info')}-{python}-{abi}-{platform}.whl"


def uninstall_triton(python: Path) -> None:
    """Raises TrackerError."""
    _pip(python, "uninstall", "--yes", "triton")


def _requirements() -> list[str]:
    try:
        pins = json5.loads(_ASV_CONFIG.read_text())["matrix"]["req"]
        return [f"{name}=={pins[name][0]}" for name in _NEEDED]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise TrackerError(f"{_ASV_CONFIG}: no pin of {', '.join(_NEEDED)} ({error}); restore it") from error


def _pip(python: Path, *words: str) -> None:
    _run([str(python), "-m", "pip", words[0], "--quiet", "--disable-pip-version-check", *words[1:]])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TrackerError(f"{' '.join(command[1:5])} … failed: {last}; check the network and the disk")
