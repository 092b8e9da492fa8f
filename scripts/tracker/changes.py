"""Of everything that was found in the series of a case, what is a change of one pair. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from scripts.tracker.changepoints import Shift
from scripts.tracker.detected import Seen
from scripts.tracker.legs import Change, Legs, Source, is_the_machine, legs_of
from scripts.tracker.search import Search, Track
from scripts.tracker.series import UNKNOWN_CODE, FloatArray, middle

SMALL = "changes of level beyond the noise that are smaller than policy.toml calls relevant"
CREPT = "changes of level that have no place: the series crept there, and only its ends are compared"
# Places nearer than this are one change, seen in two series with their own noise.
_SAME_PLACE = 5
_LEAST_FITTED = 10  # values on either side: of fewer a line fits anything
_SNAP = (1, -1, 2, -2)  # how far noise may carry a change from the commit that changed the code


def changes_of(search: Search, track: Track) -> list[Seen]:
    """Changes of the ratio; of the candidate's own time where the ratio stood still; of the machine. Then
    what the newest values make suspicious."""
    sources = {
        Source.RATIO: track,
        Source.OWN: Track(track.case, track.candidate, ""),
        Source.ALONE: Track(track.case, track.candidate, "", alone=True),
        Source.MACHINE: Track(track.case, "", ""),
    }
    rows = {source: search.tracks[row] for source, row in sources.items() if row in search.tracks}
    found: list[Seen] = []
    for source, row in rows.items():
        fresh = _relevant(search, track, source, row)
        found += [s for s in fresh if _is_new(s, found) and _is_its_place(search, s)]
    for source, row in rows.items():
        suspect = search.scan.suspects[row]
        if suspect is not None and source is not Source.MACHINE:
            seen = _seen(search, track, source, [*search.scan.shifts[row], suspect], -1)
            is_new = _is_new(seen, found) and _is_its_place(search, seen)
            found += [replace(seen, is_suspicion=True)] if is_new else []
    return found


def _is_its_place(search: Search, seen: Seen) -> bool:
    """Where the canaries stand on both sides, they are asked, and a time alone is not."""
    return seen.change.source is not Source.ALONE or _legs(search, seen.change).canaries is None


def _is_new(seen: Seen, found: list[Seen]) -> bool:
    return all(abs(seen.change.at - s.change.at) > _SAME_PLACE for s in found)


def _relevant(search: Search, track: Track, source: Source, row: int) -> list[Seen]:
    """The changes in ``row`` that are big enough to matter, alone or as steps of a way that is (1.5 % and
    1.5 % are 3 %)."""
    policy, shifts = search.policy, search.scan.shifts[row]
    by_session = source in (Source.RATIO, Source.OWN)
    least = policy.relevant_change if by_session else policy.environment_change
    found: list[Seen] = []
    way: list[Seen] = []
    for i, shift in enumerate(shifts):
        seen = _seen(search, track, source, shifts, i)
        if _crept(search.rows[row], seen.change):
            search.counts[CREPT] += 1
            continue
        if abs(math.expm1(shift.size)) >= least:
            search.counts[SMALL] += len(way)
            way = []
            found.append(seen)
            continue
        if source is Source.MACHINE or is_the_machine(_legs(search, seen.change), shift.size):
            search.counts[SMALL] += 1
            continue
        way.append(seen)
        whole = math.fsum(s.shift.size for s in way)
        if abs(math.expm1(whole)) >= least:
            steps = [s for s in way if s.shift.size * whole > 0]
            found += [replace(s, whole=whole, steps=len(steps)) for s in steps]
            search.counts[SMALL] += len(way) - len(steps)
            way = []
    search.counts[SMALL] += len(way)
    return found


def _crept(row: FloatArray, change: Change) -> bool:
    """Whether a straight line fits old and new level together better than a step: then the commit at the
    cut is no more to blame than those around it."""
    columns = np.arange(change.old[0], change.new[1])
    values = row[columns]
    at, values = columns[np.isfinite(values)], values[np.isfinite(values)]
    line = values - np.polyval(np.polyfit(at - at[0], values, 1), at - at[0])
    is_new = at >= change.at
    step = values - np.where(is_new, values[is_new].mean(), values[~is_new].mean())
    fewest = min(is_new.sum(), (~is_new).sum())
    return bool(fewest >= _LEAST_FITTED and (line**2).sum() < (step**2).sum())


def _legs(search: Search, change: Change) -> Legs:
    return legs_of(search.panel, search.level, change, search.roles)


def _seen(search: Search, track: Track, source: Source, shifts: list[Shift], i: int) -> Seen:
    """The shift at ``i`` as a change of the pair of ``track``."""
    i %= len(shifts)
    shift, n, window = shifts[i], search.rows.shape[1], search.policy.window_commits
    start = shifts[i - 1].at if i else 0
    stop = shifts[i + 1].at if i + 1 < len(shifts) else n
    old = (max(start, shift.before + 1 - window), shift.before + 1)
    new = (shift.at, min(stop, shift.at + window))
    change = Change(track.case, track.candidate, track.reference, shift.before, shift.at, old, new, source)
    return Seen(_snapped(search, change), shift, shifts[:i])


def _snapped(search: Search, change: Change) -> Change:
    """The change moved to the commit beside it that changed the code, if the values allow it.

    A commit that did not change the code cannot have changed the time, and noise can carry a change by one
    or two commits.
    """
    rows = [search.panel.variant(v) for v in (change.candidate, change.reference)]
    codes = search.panel.codes[change.case, rows]
    if (codes[:, [change.before, change.at]] == UNKNOWN_CODE).any():
        return change
    row = search.rows[search.tracks[Track(change.case, change.candidate, change.reference)]]
    if (codes[:, change.before] != codes[:, change.at]).any() or change.source is not Source.RATIO:
        return change
    levels = [middle(row[slice(*span)]) for span in (change.old, change.new)]
    for away in _SNAP:
        at = change.at + away
        if not change.old[0] < at < change.new[1] or (codes[:, at - 1] == codes[:, at]).all():
            continue
        between = row[min(at, change.at) : max(at, change.at)]
        should, other = levels if away > 0 else levels[::-1]
        if (np.abs(between - should) <= np.abs(between - other)).all():
            return replace(change, before=at - 1, at=at, old=(change.old[0], at), new=(at, change.new[1]))
    return change
