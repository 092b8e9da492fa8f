"""When release branches were cut from main, as far as it is known. Reads release_branches.toml."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from scripts.tracker.errors import TrackerError

BRANCHES_FILE = Path(__file__).resolve().parent.parent / "release_branches.toml"


class Branch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The days between which the branch of a minor release was cut, both included. ``source``: of them."""

    minor: str
    first: datetime.date
    last: datetime.date
    source: str


def read_branches(path: Path = BRANCHES_FILE) -> dict[str, Branch]:
    """{minor release: its branch}. Raises TrackerError naming the file."""
    try:
        branches = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[Branch]])["branch"]
        wrong = [branch.minor for branch in branches if branch.first > branch.last]
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: first is after last")
        return {branch.minor: branch for branch in branches}
    except (OSError, KeyError, ValueError, msgspec.MsgspecError) as error:
        raise TrackerError(f"{path}: not a list of branches ({error}); restore it from git") from error


def minor_of(label: str) -> str | None:
    """ "3.3" of "3.3.1"; None if the label is no release."""
    try:
        version = Version(label)
    except InvalidVersion:
        return None
    return f"{version.major}.{version.minor}" if len(version.release) == 3 else None
