"""Where the level of a series changes, for many series at once. Pure; rows are series, columns commits.

Three steps, each small: a cheap look at every place (vectorised, linear in commits) proposes, ruptures'
PELT on the neighbourhood places, and a test with the spread between sessions decides; the false
discovery rate is held over all places of all series of a run (Benjamini and Hochberg, 1995). Single spikes
are taken out first: they are what makes detectors cry wolf. PELT alone is not asked to look at the whole
series, because without changes it is quadratic in their length.

The test is of medians under a heavy tail (Student's t with four degrees of freedom): three values that a
normal spread calls impossible are, in GPU time, a bad quarter of an hour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from scripts.tracker.policy import DetectionPolicy
from scripts.tracker.series import FloatArray, IntArray, middle
from scripts.tracker.spread import FEW, despike, row_medians, spread

# Commits that the cheap look puts on the newer and the older side: few find a large step soon, many a small.
_LOOKS = ((3, 30), (8, 8), (8, 30), (30, 30))
_PROPOSE_Z, _PROPOSE_P = 4.0, 1e-3  # easier than what the test accepts over many series: nothing is lost
_MEDIAN_ERROR = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean, for a normal spread
_SIGMA_OF_T4 = 1.0982  # what spread.MAD_TO_SIGMA makes of Student's t with four degrees of freedom
_LONGEST_PIECE = 300  # of what PELT sees at once


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of level: ``before`` is the last column of the old level, ``at`` the first of the new.

    ``size`` and ``error`` (standard) are of the logarithm. ``points_after``: how many columns support it.
    """

    before: int
    at: int
    size: float
    error: float
    p: float
    points_after: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in each row. ``sigma``: spread of one value. ``accept_p``: what the run's false
    discovery rate asked of a shift. ``suspects``: the last one or two values left the level."""

    shifts: list[list[Shift]]
    suspects: list[Shift | None]
    sigma: FloatArray
    accept_p: float
    places: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """``values`` without gaps: row ``r`` has ``counts[r]`` values, then NaN; ``columns`` tells whence."""

    values: FloatArray
    counts: IntArray
    columns: IntArray


def scan(series: FloatArray, relevant: FloatArray, policy: DetectionPolicy) -> Scan:
    """Find the changes of level of every row. ``relevant``: of each row, the smallest change worth a look."""
    rows = _without_gaps(series)
    sigma = spread(rows.values, policy.session_spread)
    calm = despike(rows.values, policy.spike_z * sigma)
    sigma = spread(calm, policy.session_spread)
    calm = np.where(np.isfinite(calm), calm - row_medians(calm)[:, None], np.nan)
    places = int(np.maximum(rows.counts - 1, 0).sum())
    proposed = _propose(calm, rows.counts, sigma, relevant)
    found = {
        r: _prune(calm[r, : rows.counts[r]], cuts, sigma[r], _PROPOSE_P, policy.window_commits)
        for r, cuts in _place(calm, rows.counts, sigma, proposed, policy).items()
    }
    accept_p = _accepted(
        [s.p for of_row in found.values() for s in of_row], places, policy.false_discovery_rate
    )
    shifts: list[list[Shift]] = [[] for _ in range(len(series))]
    for r, of_row in found.items():
        cuts = [s.at for s in of_row]
        shifts[r] = _prune(calm[r, : rows.counts[r]], cuts, sigma[r], accept_p, policy.window_commits)
    suspects = _suspects(calm, rows.counts, sigma, relevant, shifts, policy)
    return Scan(
        [[_in_columns(s, rows.columns[r]) for s in of_row] for r, of_row in enumerate(shifts)],
        [s and _in_columns(s, rows.columns[r]) for r, s in enumerate(suspects)],
        sigma,
        accept_p,
        places,
    )


def standard_error(sigma: float, before: int, after: int) -> float:
    """Of the difference of two medians, for a normal spread."""
    return _MEDIAN_ERROR * sigma * math.sqrt(1 / before + 1 / after)


def chance(size: float, sigma: float, fewer: int, more: int) -> float:
    """How often more than half of ``fewer`` values leave, to one side, the median of ``more`` by ``size``."""
    x = abs(size) / sigma / math.sqrt(1 + _MEDIAN_ERROR**2 / more) * _SIGMA_OF_T4
    above = max(0.5 - 0.375 * x / math.sqrt(1 + x * x / 4) * (1 - x * x / (12 + 3 * x * x)), 0.0)
    most = fewer // 2 + 1
    tail = (math.comb(fewer, k) * above**k * (1 - above) ** (fewer - k) for k in range(most, fewer + 1))
    return min(2 * math.fsum(tail), 1.0)


@cache
def least_size(p: float, fewer: int, more: int) -> float:
    """The smallest change that ``chance`` gives at most ``p``, in standard deviations of a value."""
    low, high = 0.0, 1e6
    while high - low > 1e-3:
        half = (low + high) / 2
        low, high = (half, high) if chance(half, 1.0, fewer, more) > p else (low, half)
    return high


def _without_gaps(series: FloatArray) -> _Rows:
    valid = np.isfinite(series)
    if valid.all():
        columns = np.broadcast_to(np.arange(series.shape[1]), series.shape)
        return _Rows(series, np.full(len(series), series.shape[1]), columns)
    columns = np.argsort(~valid, axis=1, kind="stable")
    values = np.take_along_axis(np.where(valid, series, np.nan), columns, 1)
    return _Rows(values, valid.sum(axis=1), columns)


def _propose(calm: FloatArray, counts: IntArray, sigma: FloatArray, relevant: FloatArray) -> FloatArray:
    """Where a shift may be: True at the first value of a new level, or near it."""
    n = calm.shape[1]
    flagged = np.zeros(calm.shape, dtype=bool)
    total = np.zeros((len(calm), n + 1))
    np.cumsum(np.where(np.isfinite(calm), calm, 0.0), axis=1, out=total[:, 1:])
    at = np.arange(n)
    for newer, older in _LOOKS:
        ahead, behind = np.minimum(at + newer, n), np.maximum(at - older, 0)
        after = np.clip(counts[:, None] - at, 0, ahead - at)
        before = at - behind
        enough = (after >= FEW) & (before >= FEW) & (at < counts[:, None])
        size = (total[:, ahead] - total[:, :-1]) / np.maximum(after, 1)
        size -= (total[:, :-1] - total[:, behind]) / np.maximum(before, 1)
        error = sigma[:, None] * np.sqrt(1 / np.maximum(after, 1) + 1 / np.maximum(before, 1))
        np.abs(size, out=size)
        flagged |= enough & (size > _PROPOSE_Z * error) & (size > relevant[:, None] / 2)
    return flagged


def _place(
    calm: FloatArray, counts: IntArray, sigma: FloatArray, flagged: FloatArray, policy: DetectionPolicy
) -> dict[int, list[int]]:
    """{row: first values of new levels}, by PELT around every proposal."""
    cuts: dict[int, set[int]] = {}
    window = policy.window_commits
    for r in np.flatnonzero(flagged.any(axis=1)):
        places = np.flatnonzero(flagged[r])
        for group in np.split(places, np.flatnonzero(np.diff(places) > window) + 1):
            # A piece at a time, so that the cost stays linear whatever the data.
            for start in range(int(group[0]), int(group[-1]) + 1, _LONGEST_PIECE):
                stop = min(start + _LONGEST_PIECE, int(group[-1]) + 1)
                low, high = max(start - window, 0), min(stop + window, int(counts[r]))
                found = _pelt(calm[r, low:high] / sigma[r], policy)
                cuts.setdefault(int(r), set()).update(low + c for c in found)
    return {r: sorted(found) for r, found in cuts.items()}


def _pelt(values: FloatArray, policy: DetectionPolicy) -> list[int]:
    # Here, because it brings scipy: over a second that a history of few releases never needs.
    from ruptures import KernelCPD

    if len(values) < 2 * FEW:
        return []
    ends = KernelCPD(kernel="linear", min_size=FEW).fit(values[:, None]).predict(pen=policy.penalty)
    bounds = [0, *map(int, ends)]
    return [_settle(values, *of) for of in zip(bounds, bounds[1:], bounds[2:], strict=False)]


def _settle(values: FloatArray, start: int, cut: int, stop: int) -> int:
    """The cut, moved off values that PELT put on the wrong side because a level must have three."""
    old, new = middle(values[start:cut]), middle(values[cut:stop])
    while stop - cut > 1 and abs(values[cut] - old) < abs(values[cut] - new) and stop - cut <= FEW:
        cut += 1
    while cut - start > 1 and abs(values[cut - 1] - new) < abs(values[cut - 1] - old) and cut - start <= FEW:
        cut -= 1
    return cut


def _prune(values: FloatArray, cuts: list[int], sigma: float, most_p: float, window: int) -> list[Shift]:
    """Shifts at ``cuts``, the likeliest chance dropped until none is likelier than ``most_p``."""
    while True:
        bounds = [0, *cuts, len(values)]
        found = [
            _shift(values, start, cut, stop, sigma, window)
            for (start, cut), (_, stop) in pairwise(pairwise(bounds))
        ]
        weak = [i for i, s in enumerate(found) if s.p > most_p or s.points_after < FEW]
        if not weak:
            return found
        del cuts[max(weak, key=lambda i: found[i].p)]


def _shift(values: FloatArray, start: int, cut: int, stop: int, sigma: float, window: int) -> Shift:
    old, new = values[max(start, cut - window) : cut], values[cut : min(stop, cut + window)]
    levels = middle(old), middle(new)
    size = levels[1] - levels[0]
    fewer, more = (old, new) if len(old) <= len(new) else (new, old)
    level, sign = (levels[1], -1) if fewer is old else (levels[0], 1)
    # Of the shorter side, the least that more than half of it reaches: one spike of three says nothing.
    away = np.sort((fewer - level) * math.copysign(1.0, sign * size))
    p = chance(max(float(away[(len(fewer) - 1) // 2]), 0.0), sigma, len(fewer), len(more))
    return Shift(cut - 1, cut, size, standard_error(sigma, len(old), len(new)), p, len(new))


def _accepted(p_values: list[float], tests: int, rate: float) -> float:
    """The largest p that the false discovery rate lets through, out of ``tests`` (Benjamini-Hochberg).

    What was not proposed counts as a test without a discovery.
    """
    cutoff = rate / max(tests, 1)
    for rank, p in enumerate(sorted(p_values), start=1):
        if p <= rate * rank / max(tests, 1):
            cutoff = rate * rank / max(tests, 1)
    return cutoff


def _suspects(
    calm: FloatArray,
    counts: IntArray,
    sigma: FloatArray,
    relevant: FloatArray,
    shifts: list[list[Shift]],
    policy: DetectionPolicy,
) -> list[Shift | None]:
    """The last one or two values, where they left the level: too few to tell, enough to look again."""
    found: dict[int, Shift] = {}
    for r in range(len(calm)):
        n = int(counts[r])
        start = shifts[r][-1].at if shifts[r] else 0
        for tail in (2, 1):
            cut = n - tail
            if cut - start < FEW:
                continue
            old = calm[r, max(start, cut - policy.window_commits) : cut]
            away = calm[r, cut:n] - middle(old)
            least = float(np.abs(away).min())
            same_side = bool((away > 0).all() or (away < 0).all())
            if same_side and least > max(policy.suspect_z * sigma[r], relevant[r]):
                p = chance(least, sigma[r], tail, len(old))
                found[r] = Shift(
                    cut - 1, cut, middle(away), standard_error(sigma[r], len(old), tail), p, tail
                )
                break
    limit = _accepted([s.p for s in found.values()], len(calm), policy.suspect_rate)
    return [s if (s := found.get(r)) is not None and s.p <= limit else None for r in range(len(calm))]


def _in_columns(shift: Shift, columns: IntArray) -> Shift:
    before, at = int(columns[shift.before]), int(columns[shift.at])
    return Shift(before, at, shift.size, shift.error, shift.p, shift.points_after)
