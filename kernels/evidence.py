"""The evidence store, writing side: every stage's text, cubin and launch metadata, by content.

    objects/ab/abcdef….zst                        one text or cubin, named by the sha256 of what it holds
    records/<target>/<commit>/<case>/<variant>.json   one record; its objects, metrics and status

Everything is written to a temporary file and renamed, so a reader or a second writer never sees half of
a file, and an interrupt leaves at most a temporary file. `scripts.tracker.store` reads it without Triton.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import zstandard

# 1: first version.
SCHEMA = 1
_MAX_OBJECT_BYTES = 64 * 2**20


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all. Raises OSError (disk full, read-only), leaving nothing behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def canonical_json(value: Any) -> bytes:
    """The bytes that a record's checksum covers: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


class EvidenceWriter:
    """Adds objects and records to the store at ``root`` (made if missing)."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put_object(self, content: bytes) -> str:
        """Store bytes, compressed; returns their sha256. Content that is there already is not written."""
        digest = hashlib.sha256(content).hexdigest()
        path = self.root / "objects" / digest[:2] / f"{digest}.zst"
        if not path.exists():
            atomic_write(path, zstandard.ZstdCompressor(level=10, write_checksum=True).compress(content))
        return digest

    def _is_whole(self, digest: str) -> bool:
        try:
            read_object(self.root, digest)
        except (OSError, ValueError):
            # A damaged object would never be written again: its name is taken.
            (self.root / "objects" / digest[:2] / f"{digest}.zst").unlink(missing_ok=True)
            return False
        return True

    def record_path(self, target: str, commit: str, case_slug: str, variant: str) -> Path:
        return self.root / "records" / target.replace(":", "-") / commit / case_slug / f"{variant}.json"

    def put_record(self, path: Path, record: dict[str, Any]) -> None:
        """Write a record with its checksum. Its objects must be stored before."""
        checksum = hashlib.sha256(canonical_json(record)).hexdigest()
        document = {"sha256": checksum, "record": record}
        atomic_write(path, json.dumps(document, indent=1, sort_keys=True, allow_nan=False).encode())

    def load_current(self, path: Path, fingerprint: str) -> dict[str, Any] | None:
        """A record made by the same sources, whole and with all its objects; None if it must be made anew."""
        try:
            document = json.loads(path.read_bytes())
            record = document["record"]
            intact = document["sha256"] == hashlib.sha256(canonical_json(record)).hexdigest()
            objects = [digest for kernel in record["kernels"] for digest in kernel["objects"].values()]
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None
        stored = all(self._is_whole(digest) for digest in objects)
        current = record.get("fingerprint") == fingerprint and record.get("schema") == SCHEMA
        return record if intact and stored and current else None


def read_record(path: Path) -> dict[str, Any]:
    """A record, checked. Raises OSError, or ValueError naming the file if it is not whole."""
    try:
        document = json.loads(path.read_bytes())
        record: dict[str, Any] = document["record"]
        if document["sha256"] != hashlib.sha256(canonical_json(record)).hexdigest():
            raise ValueError("its checksum does not fit its content")
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a record of the evidence store ({error}); delete it") from error
    return record


def read_object(root: Path, digest: str) -> bytes:
    """An object's content, checked. Raises OSError, or ValueError naming the file if it is not whole."""
    path = root / "objects" / digest[:2] / f"{digest}.zst"
    try:
        content = zstandard.ZstdDecompressor().decompress(
            path.read_bytes(), max_output_size=_MAX_OBJECT_BYTES
        )
    except zstandard.ZstdError as error:
        raise ValueError(f"{path}: not readable ({error}); delete it and compile again") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{path}: its content is not what its name says; delete it and compile again")
    return content
