"""Wheels that were built here, by commit: written whole or not at all, the longest unused removed first."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

# Nightly and downstream builds bring the same package `triton` under other names.
_NAMES = {"triton", "pytorch_triton", "triton_nightly"}
_CPYTHON = re.compile(r"cp3(\d+)")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_LEFT_OVER_AFTER_S = 86400


def fits(name: str) -> bool:
    """Whether a wheel's file name is of Triton, this Python and this machine."""
    fields = name.removesuffix(".whl").split("-")
    if not name.endswith(".whl") or len(fields) not in (5, 6) or fields[0].lower() not in _NAMES:
        return False
    python, abi, machine = fields[-3:]
    minor = sys.version_info.minor
    versions = [int(found[1]) for tag in python.split(".") if (found := _CPYTHON.fullmatch(tag))]
    ours = minor in versions or (abi == "abi3" and any(v <= minor for v in versions)) or "py3" in python
    here = machine == "any" or machine.endswith(platform.machine())
    return ours and here


def is_whole(wheel: Path) -> bool:
    """Whether every file in it has the checksum that the wheel says."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.testzip() is None
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError):
        return False


class Wheelhouse:
    """``root``: a folder for each commit, with a wheel for each Python and `built.json`: how it was made."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def find(self, commit: str) -> Path | None:
        """The wheel of a commit for this Python. A damaged one is removed, and counts as not there."""
        if not _COMMIT.fullmatch(commit):
            return None
        for wheel in sorted((self.root / commit).glob("*.whl")):
            if not fits(wheel.name):
                continue
            if is_whole(wheel):
                os.utime(wheel)  # what is used is kept longest
                return wheel
            wheel.unlink(missing_ok=True)
        return None

    def put(self, commit: str, wheel: Path, facts: Mapping[str, object]) -> Path:
        """Keep a wheel, by rename on one disk, so that nobody ever finds half of it. Raises OSError."""
        folder = self.root / commit
        folder.mkdir(parents=True, exist_ok=True)
        final = folder / wheel.name
        self._write(folder / "built.json", json.dumps(facts, indent=1).encode())
        handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=self.root)
        try:
            with os.fdopen(handle, "wb") as target, wheel.open("rb") as source:
                shutil.copyfileobj(source, target, 2**20)
                target.flush()
                os.fsync(target.fileno())
            Path(temporary).replace(final)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        self._prune(final)
        return final

    def _write(self, path: Path, content: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=self.root)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)

    def _prune(self, keep: Path) -> None:
        """Remove the longest unused wheels until the rest fits, and what killed builds left behind."""
        for left in self.root.glob(".tmp-*"):
            if left.stat().st_mtime < time.time() - _LEFT_OVER_AFTER_S:
                left.unlink(missing_ok=True)
        wheels = sorted(self.root.glob("*/*.whl"), key=lambda w: (w.stat().st_mtime_ns, w.name), reverse=True)
        kept_bytes = keep.stat().st_size
        for wheel in wheels:
            if wheel == keep:
                continue
            kept_bytes += wheel.stat().st_size
            if kept_bytes > self.limit_bytes:
                kept_bytes -= wheel.stat().st_size
                wheel.unlink(missing_ok=True)
                if not list(wheel.parent.glob("*.whl")):
                    shutil.rmtree(wheel.parent, ignore_errors=True)
