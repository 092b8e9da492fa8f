"""The evidence store, reading side. No Triton needed; records of other machines are untrusted input."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Case, Evidence

SCHEMA = 1
# The largest object seen is 0.5 MB; a bomb of compressed zeros must not fill the memory.
_MAX_OBJECT_BYTES = 64 * 2**20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all. Raises OSError, leaving nothing behind.

    `kernels.evidence` has the same few lines: the two halves share files, never code.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is in its place: see `sweep`
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Delete what killed writers left under ``folder``; a file whose writer lives is locked, and stays."""
    for path in folder.rglob(".tmp-*"):
        with contextlib.suppress(OSError), path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def read_regular(path: Path, limit_bytes: int = 256 * 2**20) -> bytes:
    """A file's content. Raises OSError for what is none (a pipe would be waited for, for ever), ValueError
    for one that is larger than anything we write."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if status.st_size > limit_bytes:
            raise ValueError(f"{status.st_size} bytes, more than any such file has")
        return file.read()


@dataclass(frozen=True, slots=True)
class Problem:
    """A file of the store that is not what it claims to be."""

    path: Path
    reason: str


class EvidenceStore:
    """Reads records and objects under ``root``. A store that does not exist is an empty one."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def load(self, target: str, commit: str, case: Case, variant: str) -> Evidence | None:
        """The record of one measurement; None if there is none. Raises TrackerError if it is damaged."""
        path = self.record_path(target, commit, case, variant)
        try:
            content = read_regular(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise TrackerError(f"{path}: {error}; delete it and run make track again") from error
        return read_record(path, content)

    def has_objects(self, evidence: Evidence) -> bool:
        """Whether every text and cubin of a record is there (not whether it is whole: see `verify`)."""
        digests = (d for kernel in evidence.kernels for d in kernel.objects.values())
        return all(self.object_path(digest).exists() for digest in digests)

    def count_records(self, target: str, commit: str) -> int:
        """How many records a commit has: the progress of a compilation that is going on."""
        return sum(1 for _ in self._target_folder(target).glob(f"{_safe(commit)}/*/*.json"))

    def text(self, digest: str) -> str:
        """A stage's text. Raises TrackerError if it is missing or not what its name says."""
        path = self.object_path(digest)
        try:
            return read_object(path, digest).decode()
        except (OSError, ValueError, zstandard.ZstdError) as error:
            raise TrackerError(f"{path}: {error}; delete it and run make track again") from error

    def verify(self) -> Iterator[Problem]:
        """Every damaged, missing or unreadable file, one by one."""
        for path in sorted(self.root.rglob(".tmp-*")):
            yield Problem(path, "left by an interrupted write: delete it")
        for path in sorted(self.root.glob("objects/*/[!.]*")):
            try:
                read_object(path, path.name.removesuffix(".zst"))
            except (OSError, ValueError, zstandard.ZstdError) as error:
                yield Problem(path, str(error))
        for path in sorted(self.root.glob("records/*/*/*/*.json")):
            try:
                evidence = read_record(path, read_regular(path))
                missing = [
                    f"its {stage} is missing: {self.object_path(digest)}"
                    for kernel in evidence.kernels
                    for stage, digest in kernel.objects.items()
                    if not self.object_path(digest).exists()
                ]
            except (OSError, ValueError) as error:
                missing = [str(error)]
            except TrackerError as error:
                missing = [str(error).removeprefix(f"{path}: ")]
            yield from (Problem(path, reason) for reason in missing)

    def _target_folder(self, target: str) -> Path:
        return self.root / "records" / _safe(target.replace(":", "-"))

    def record_path(self, target: str, commit: str, case: Case, variant: str) -> Path:
        """Raises TrackerError for a name that cannot be part of a path."""
        folder = self._target_folder(target) / _safe(commit) / _safe(case.slug)
        return folder / f"{_safe(variant)}.json"

    def object_path(self, digest: str) -> Path:
        """Raises TrackerError for what is no sha256."""
        if not _SHA256.fullmatch(digest):
            raise TrackerError(f"{self.root}: {digest!r} is not the name of an object")
        return self.root / "objects" / digest[:2] / f"{digest}.zst"


def _safe(name: str) -> str:
    """A word that may stand in a path. Names come from files of other machines."""
    if not _SAFE_NAME.fullmatch(name):
        raise TrackerError(f"{name!r} cannot be the name of a commit, case, variant or target")
    return name


def read_object(path: Path, digest: str) -> bytes:
    """Raises ValueError if the content's sha256 is not the file's name."""
    compressed = read_regular(path)
    size = zstandard.frame_content_size(compressed)
    if not 0 <= size <= _MAX_OBJECT_BYTES:
        raise ValueError(f"says that it holds {size} bytes, more than any stage has")
    content = zstandard.ZstdDecompressor().decompress(compressed, max_output_size=_MAX_OBJECT_BYTES)
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError("its content is not what its name says")
    return content


def read_record(path: Path, content: bytes) -> Evidence:
    """A record, checked against its own checksum and its place. Raises TrackerError."""
    try:
        document: dict[str, Any] = json.loads(content)
        record = document["record"]
        canonical = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
        if hashlib.sha256(canonical).hexdigest() != document["sha256"]:
            raise ValueError("its checksum does not fit its content")
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']}, this program reads {SCHEMA}: update it")
        says = (record["target"].replace(":", "-"), record["commit"], record["variant"])
        if says != (path.parents[2].name, path.parents[1].name, path.stem):
            raise ValueError(f"it is the record of {' '.join(says)}, not of its place")
        return msgspec.convert(record, Evidence)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TrackerError(
            f"{path}: not a record of the evidence store ({error}); delete it and run make track again"
        ) from error
