"""Which commits of main are measured, and in which order. Pure; the rules are data, in selection.toml.

The line is main's first-parent line, oldest first, as ancestry gives it: dates play no part. What was
measured and is not on the line any more (pushed away, rewritten) is an orphan: kept, outside of every order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from scripts.tracker.attribution_rules import AttributionRules
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import LandedCommit

_SHORT_HASH = 7  # digits, as git asks for
SELECTION_FILE = Path(__file__).resolve().parent.parent / "selection.toml"


class Skip(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An area of attribution.toml that cannot change generated code."""

    area: str
    reason: str


class _SelectionFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    skip: Annotated[tuple[Skip, ...], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class SelectionRules:
    """``areas``: those whose commits are not applicable. ``attribution``: which files are in an area."""

    areas: frozenset[str]
    attribution: AttributionRules

    def harmless_areas(self, commit: LandedCommit, target: str) -> tuple[str, ...] | None:
        """The areas that a commit touches, if none of them can change code for the target; else None."""
        found = dict.fromkeys(self._harmless_area(path, target) for path in commit.files)
        names = tuple(name for name in found if name is not None)
        return names if len(names) == len(found) else None

    def _harmless_area(self, path: str, target: str) -> str | None:
        parts = PurePosixPath(path).parts
        # `docs/../lib/x.cpp` fits the pattern of documents. git writes no such path, a history file may.
        if not parts or path.startswith("/") or "\\" in path or not {".", ".."}.isdisjoint(path.split("/")):
            return None
        area = self.attribution.area_of(path)
        if area is None or area.name not in self.areas:
            return None
        ours = area.backend is not None and area.backend == target.partition(":")[0]
        return None if ours else area.name


def read_selection_rules(attribution: AttributionRules, path: Path = SELECTION_FILE) -> SelectionRules:
    """Raises TrackerError naming the file, also for an area that attribution.toml does not have."""
    try:
        skips = msgspec.toml.decode(path.read_bytes(), type=_SelectionFile).skip
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TrackerError(f"{path}: {error}; restore it from git or mend the entry") from error
    known = {area.name for area in attribution.area}
    if unknown := [skip.area for skip in skips if skip.area not in known]:
        raise TrackerError(
            f"{path}: attribution.toml has no area {', '.join(map(repr, unknown))}: name one of its areas"
        )
    return SelectionRules(frozenset(skip.area for skip in skips), attribution)


def since(line: Sequence[LandedCommit], oldest: str | None) -> list[LandedCommit]:
    """The line from a commit on, which is named by its hash or the beginning of it; None: all of it."""
    if oldest is None:
        return list(line)
    at = [i for i, commit in enumerate(line) if commit.sha.startswith(oldest)]
    if len(oldest) < _SHORT_HASH or len(at) != 1:
        found = f"{len(at)} commits of main begin with it" if at else "it is not on main's line"
        raise TrackerError(f"--since {oldest!r}: {found}; name a commit of main by its hash")
    return list(line[at[0] :])


class Why(StrEnum):
    """Why a commit is measured now and not later."""

    NEW = "new"  # nothing newer is measured
    GAP = "gap"  # between two neighbours whose code differs
    HISTORY = "history"  # the rest


@dataclass(frozen=True, slots=True)
class Chosen:
    """A commit to measure."""

    commit: LandedCommit
    why: Why


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """A commit that shares the measurement of ``shares``, its nearest applicable ancestor on main."""

    commit: str
    shares: str
    areas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """``applicable``: the line without those that are not, oldest first. ``chosen``: what to measure, in
    order. ``orphans``: measured, and not on the line any more."""

    applicable: tuple[LandedCommit, ...]
    not_applicable: tuple[NotApplicable, ...]
    chosen: tuple[Chosen, ...]
    orphans: tuple[str, ...]


def select(
    line: Sequence[LandedCommit],
    rules: SelectionRules,
    target: str,
    measured: Mapping[str, str],
    given_up: Collection[str] = (),
) -> Selection:
    """``line``: oldest first. ``measured``: {commit: digest of its code}, two with the same digest have the
    same kernels. ``given_up``: commits that are not tried again."""
    applicable: list[LandedCommit] = []
    skipped: list[NotApplicable] = []
    for commit in line:
        areas = rules.harmless_areas(commit, target)
        # The first commit of a line has no ancestor whose measurement it could share.
        if areas is None or not applicable:
            applicable.append(commit)
        else:
            skipped.append(NotApplicable(commit.sha, applicable[-1].sha, areas))
    on_line = {commit.sha for commit in line}
    orphans = tuple(sorted(set(measured) - on_line))
    open_ = {c.sha for c in applicable if c.sha not in measured and c.sha not in given_up}
    chosen = tuple(c for c in _in_order(applicable, measured) if c.commit.sha in open_)
    return Selection(tuple(applicable), tuple(skipped), chosen, orphans)


def _in_order(applicable: list[LandedCommit], measured: Mapping[str, str]) -> Iterator[Chosen]:
    """Every commit without a measurement once: new ones, newest first, then gaps with a change, then the
    rest, newest first too, because old history matters least."""
    at = [i for i, commit in enumerate(applicable) if commit.sha in measured]
    newest = at[-1] if at else -1
    for commit in reversed(applicable[newest + 1 :]):
        # With nothing measured there is no "since": only the newest is news.
        why = Why.NEW if at or commit is applicable[-1] else Why.HISTORY
        yield Chosen(commit, why)
    digest = {i: measured[applicable[i].sha] for i in at}
    gaps = [(low, high) for low, high in pairwise(at) if digest[low] != digest[high]]
    in_gaps = list(_middles_first(gaps[::-1]))
    for i in in_gaps:
        yield Chosen(applicable[i], Why.GAP)
    for i in sorted(set(range(newest)) - set(at) - set(in_gaps), reverse=True):
        yield Chosen(applicable[i], Why.HISTORY)


def _middles_first(gaps: list[tuple[int, int]]) -> Iterator[int]:
    """Positions inside the gaps, all middles before all quarters: each answer halves a gap."""
    queue = deque(gaps)
    while queue:
        low, high = queue.popleft()
        if high - low < 2:
            continue
        middle = (low + high) // 2
        yield middle
        queue += [(middle, high), (low, middle)]


def shards(chosen: Sequence[Chosen], line: Sequence[LandedCommit], count: int) -> list[list[str]]:
    """Divide what was chosen among machines: neighbours on main stay together, because a build after its
    neighbour's takes a fraction of the time. Newest first within a shard; sizes differ by one at most."""
    position = {commit.sha: i for i, commit in enumerate(line)}
    ordered = sorted((c.commit.sha for c in chosen), key=lambda sha: -position[sha])
    size, more = divmod(len(ordered), count)
    ends = [i * size + min(i, more) for i in range(count + 1)]
    return [ordered[start:end] for start, end in pairwise(ends)]
