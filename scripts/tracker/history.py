"""The commits of Triton between two measured ones: values, and a history file as a source of them.

A history file is made of a clone (`python -m scripts.attribute --write-history`): one JSON object a line,
compressed by gzip. It needs no git and no network, but it has main's first-parent line only, so releases
are placed in it by the days between which their branches were cut.
"""

from __future__ import annotations

import datetime
import gzip
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from scripts.tracker.branches import Branch, minor_of, read_branches
from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Commit

# 2,100 commits take 0.9 MB; a bomb of compressed zeros must not fill the memory.
_MAX_HISTORY_BYTES = 256 * 2**20
Sha = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]


class LandedCommit(msgspec.Struct, frozen=True):
    """A commit of Triton as its history tells it; its text is of other people. ``files``: all that it
    touched, against its first parent."""

    sha: Sha
    parents: tuple[Sha, ...]
    date: datetime.datetime
    subject: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The commits after one measured commit up to another, oldest first.

    ``chances``: of each, that it is in the range at all; below 1 where a release's fork is not known to
    the commit. ``exact``: the ends are commits of this very line, so that one commit alone is the culprit.
    ``notes``: what the range may lack or have too much.
    """

    commits: tuple[LandedCommit, ...]
    chances: tuple[float, ...]
    exact: bool
    notes: tuple[str, ...] = ()


class CommitHistory(Protocol):
    """A source of Triton's commits."""

    def between(self, before: Commit, after: Commit) -> CommitRange:
        """What landed between the two. Raises TrackerError if this history cannot tell."""

    def pins(self, commit: LandedCommit, path: str) -> tuple[str, str] | None:
        """A file's text before and after a commit; None where this history cannot tell."""

    def main_line(self) -> list[LandedCommit]:
        """Everything that landed on main, as far as this history goes, oldest first."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a measured commit stands on main's line: between two positions, -1 is before the first."""

    low: int
    high: int
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return self.low == self.high and not self.notes

    def chance_before(self, position: int) -> float:
        """That it stands before this position, each place of the window being as likely."""
        return min(1.0, max(0.0, (position - self.low) / (self.high - self.low + 1)))


class FileHistory:
    """main's first-parent line from a history file. Order is by parents, never by date."""

    def __init__(self, commits: Iterable[LandedCommit], branches: dict[str, Branch], name: str) -> None:
        self._name = name
        self._branches = branches
        self.commits = _main_line(list(commits), name)
        self._position = {commit.sha: i for i, commit in enumerate(self.commits)}
        try:
            self._days = sorted(commit.date.astimezone(datetime.UTC).date() for commit in self.commits)
        except OverflowError as error:
            raise TrackerError(
                f"{name}: a date that no calendar has ({error}); make the file anew"
            ) from error

    def between(self, before: Commit, after: Commit) -> CommitRange:
        minor = minor_of(before.label)
        if minor is not None and minor == minor_of(after.label) and before.commit not in self._position:
            raise TrackerError(
                f"{before.label} and {after.label} are of one release branch, whose commits are not in "
                f"{self._name}: a full clone with tags has them"
            )
        old, new = self._place(before), self._place(after)
        if new.high <= old.low:
            raise TrackerError(f"{before.label} does not stand before {after.label} in {self._name}")
        inside = range(old.low + 1, new.high + 1)
        # Each place of the window is as likely, so the chance falls evenly towards its far end.
        chances = [old.chance_before(i) * (1 - new.chance_before(i)) for i in inside]
        return CommitRange(
            tuple(self.commits[i] for i in inside),
            tuple(chances),
            exact=old.exact and new.exact,
            notes=(*old.notes, *new.notes),
        )

    def pins(self, commit: LandedCommit, path: str) -> tuple[str, str] | None:
        return None  # a history file has the names of files, not their texts

    def main_line(self) -> list[LandedCommit]:
        return list(self.commits)

    def _place(self, commit: Commit) -> _Place:
        position = self._position.get(commit.commit)
        if position is not None:
            return _Place(position, position)
        branch = self._branches.get(minor_of(commit.label) or "")
        if branch is None:
            raise TrackerError(
                f"{commit.label} ({commit.commit[:10]}) is not on main's line in {self._name}: pushed away, "
                "or newer than the file; make the file anew from a fresh clone"
            )
        return self._place_of_branch(commit.label, branch)

    def _place_of_branch(self, label: str, branch: Branch) -> _Place:
        """A fork lies between two days. Days are counted, not searched, so that one commit with a wrong
        clock moves the place by one and no more."""
        first_day, last_day = self._days[0], self._days[-1]
        if branch.first > last_day:
            raise TrackerError(
                f"{self._name} ends on {last_day}, before the branch of {label} was cut "
                f"({branch.first} to {branch.last}): make it anew from a fresh clone"
            )
        low = sum(day < branch.first for day in self._days) - 1
        high = sum(day <= branch.last for day in self._days) - 1
        notes = [
            f"{label} forked from main between {branch.first} and {branch.last}, and what was cherry-picked "
            "to its branch is not known"
        ]
        if branch.first < first_day:
            notes.append(f"the history begins on {first_day}, maybe after that fork")
        if branch.last > last_day:
            notes.append(f"the history ends on {last_day}, maybe before that fork")
        return _Place(low, max(low, high), tuple(notes))


def _main_line(commits: list[LandedCommit], name: str) -> list[LandedCommit]:
    """The longest first-parent line, oldest first: a file may hold merged side branches too."""
    by_sha = {commit.sha: commit for commit in commits}
    if len(by_sha) < len(commits):
        raise TrackerError(f"{name}: a commit is listed twice; make it anew")
    first_parents = {commit.parents[0] for commit in commits if commit.parents}
    best: list[LandedCommit] = []
    for tip in (commit for commit in commits if commit.sha not in first_parents):
        line = _line_of(tip, by_sha)
        best = max(best, line, key=len)
    if not best:
        raise TrackerError(f"{name}: no line of commits in it; make it anew")
    return best[::-1]


def _line_of(tip: LandedCommit, by_sha: dict[str, LandedCommit]) -> list[LandedCommit]:
    """From a tip back along first parents. It ends: a commit that is its own ancestor is no one's tip,
    and no line from a tip can enter such a ring twice."""
    line, seen = [tip], {tip.sha}
    while line[-1].parents and (parent := by_sha.get(line[-1].parents[0])) and parent.sha not in seen:
        line.append(parent)
        seen.add(parent.sha)
    return line


def read_history_file(path: Path) -> FileHistory:
    """Raises TrackerError naming the file if it is not whole or not a history."""
    remedy = "restore it, or make it anew: python -m scripts.attribute --write-history"
    try:
        with gzip.open(path) as file:
            content = file.read(_MAX_HISTORY_BYTES + 1)
        if len(content) > _MAX_HISTORY_BYTES:
            raise ValueError(f"it unpacks to more than {_MAX_HISTORY_BYTES // 2**20} MiB")
        commits = msgspec.json.Decoder(LandedCommit).decode_lines(content)
        if any(commit.date.tzinfo is None for commit in commits):
            raise ValueError("a date has no time zone")
    except (OSError, EOFError, zlib.error, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise TrackerError(f"{path}: not a history of commits ({error}); {remedy}") from error
    return FileHistory(commits, read_branches(), path.name)


def history_file_bytes(commits: Iterable[LandedCommit]) -> bytes:
    """A history file. The same commits give the same bytes."""
    return gzip.compress(msgspec.json.Encoder().encode_lines(commits), mtime=0)
