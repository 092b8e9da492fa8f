"""What was said where: a file a thread, committed with the results.

It is written before anything is posted, so that a run that dies, a list that lags and a second worker all
find that somebody was here. One file a thread, so that two branches of results never conflict in it.
"""

from __future__ import annotations

import datetime
import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Commit
from scripts.tracker.store import atomic_write

# 1: first version.
SCHEMA = 1
_MAX_ENTRY_BYTES = 1_000_000
Moment = Annotated[datetime.datetime, msgspec.Meta(tz=True)]


class Kind(StrEnum):
    """Where something is said: under somebody's pull request, or in an issue of our own."""

    COMMENT = "comment"
    ISSUE = "issue"


class Progress(StrEnum):
    """CLAIMED: about to be posted, or posted with an unknown outcome. REFUSED: GitHub said no, so nothing is
    there. SILENCED: somebody deleted it, and it stays so."""

    CLAIMED = "claimed"
    REFUSED = "refused"
    SAID = "said"
    SILENCED = "silenced"


class Told(msgspec.Struct, frozen=True):
    """A group of findings that a thread is about: enough to take it back when it is gone."""

    key: str
    candidate: str
    target: str
    before: Commit
    after: Commit
    verdict: str


class Entry(msgspec.Struct, frozen=True):
    """``number``: of the pull request, 0 for an issue. ``id``: of the comment, or the issue's number; 0 as
    long as it is not known. ``digest``: of the text said last. ``etag``: GitHub's, so that asking again costs
    nothing."""

    schema: int
    kind: Kind
    repository: str
    number: int
    key: str
    progress: Progress
    claimed_at: Moment
    id: int = 0
    digest: str = ""
    etag: str = ""
    changed_at: Moment | None = None
    closed: bool = False
    told: tuple[Told, ...] = ()
    note: str = ""


def thread_key(kind: Kind, repository: str, name: str) -> str:
    """``name``: the pull request's number, or the key of the issue's group."""
    return hashlib.sha256(f"{kind}|{repository.lower()}|{name}".encode()).hexdigest()[:16]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Ledger:
    """Entries under a folder; one that does not exist is an empty ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process of this machine posts; a second one waits, then finds what the first said."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def get(self, key: str) -> Entry | None:
        """Raises TrackerError for a damaged file: to post without it might say something twice."""
        path = self.folder / f"{key}.json"
        return _read(path) if path.exists() else None

    def put(self, entry: Entry) -> None:
        content = msgspec.json.format(msgspec.json.encode(entry)) + b"\n"
        atomic_write(self.folder / f"{entry.key}.json", content)

    def drop(self, key: str) -> None:
        """Forget a thread that was never said."""
        (self.folder / f"{key}.json").unlink(missing_ok=True)

    def entries(self) -> list[Entry]:
        return [_read(path) for path in sorted(self.folder.glob("*.json"))]


def _read(path: Path) -> Entry:
    try:
        if path.stat().st_size > _MAX_ENTRY_BYTES:
            raise ValueError("larger than any entry")
        entry = msgspec.json.decode(path.read_bytes(), type=Entry)
        if entry.schema != SCHEMA:
            raise ValueError(f"schema {entry.schema}, this program reads {SCHEMA}")
        if entry.key != path.stem:
            raise ValueError(f"it is the entry of {entry.key}, not of its place")
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise TrackerError(
            f"{path}: not an entry of the ledger ({error}); restore it from the branch `results`, "
            "nothing is posted without it"
        ) from error
    return entry
