"""GPU time as lines of a plot: ratios and TFLOP/s over commits, with intervals, an epoch at a time. Pure.

A point is one session of one commit; lines never join two epochs. Its interval holds 95 % of the spread of
blocks, and for a ratio what a fresh process adds (`session_spread` of policy.toml).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scripts.tracker.model import Case, Commit, Role, TimingMeasurement, VariantFacts
from scripts.tracker.policy import TimingPolicy
from scripts.tracker.series import FloatArray, IntArray, hodges_lehmann
from scripts.tracker.steps import pairs

_Z95 = 1.96
_MEDIAN_OVER_MEAN = math.sqrt(math.pi / 2)  # standard error of a median against that of a mean, normal noise
# As many points as a wide screen can tell apart; of more, what stands out in each bin is kept.
MOST_POINTS = 600
_KEPT_A_BIN = 4  # first, last, lowest, highest


@dataclass(frozen=True, slots=True)
class Line:
    """``name``: a reference (of ratios) or a variant. ``at``: places in the history, rising; several sessions
    of a commit stand at one. ``gap``: True where the epoch has points before it that have no valid data.
    ``taken``: how many points there are, before any were left out."""

    name: str
    candidate: str | None
    epoch: str
    at: IntArray
    value: FloatArray
    low: FloatArray
    high: FloatArray
    gap: NDArray[np.bool_]
    taken: int


@dataclass(frozen=True, slots=True)
class _Points:
    """One epoch of one case: logarithms of seconds, [point, block], NaN-padded, and how many are valid."""

    at: IntArray
    logs: dict[str, FloatArray]
    blocks: dict[str, IntArray]


def ratio_lines(
    case: Case,
    timings: list[TimingMeasurement],
    commits: list[Commit],
    facts: dict[str, VariantFacts],
    policy: TimingPolicy,
) -> list[Line]:
    """Each candidate over each reference, block by block, so that the drift of the machine cancels."""
    roles: dict[str, Role] = {name: fact.role for name, fact in facts.items()}
    lines = []
    for epoch, points in _epochs(case, timings, commits).items():
        for candidate, reference in pairs(roles):
            if candidate in points.logs and reference in points.logs:
                logs = points.logs[candidate] - points.logs[reference]
                blocks = points.blocks[candidate]
                both = (blocks == points.blocks[reference]) & (blocks >= 2)
                centre, error = _centres(logs[both], blocks[both], policy.session_spread)
                ends = (np.exp(centre), np.exp(centre - error), np.exp(centre + error))
                lines.append(_line((reference, candidate, epoch), points.at, both, ends))
    return lines


def tflops_lines(
    case: Case, timings: list[TimingMeasurement], commits: list[Commit], flops: float
) -> list[Line]:
    """TFLOP/s by the median of each session's samples; the interval is of its blocks alone."""
    lines = []
    for epoch, points in _epochs(case, timings, commits).items():
        for variant, logs in points.logs.items():
            blocks = points.blocks[variant]
            enough = blocks >= 2
            if not enough.any():
                continue
            kept, count = logs[enough], blocks[enough]
            centre = np.nanmedian(kept, axis=-1)
            error = _Z95 * _MEDIAN_OVER_MEAN * np.nanstd(kept, axis=-1, ddof=1) / np.sqrt(count)
            speed = [flops / np.exp(centre + sign * error) / 1e12 for sign in (0, 1, -1)]
            lines.append(_line((variant, None, epoch), points.at, enough, (speed[0], speed[1], speed[2])))
    return lines


def epochs_of(timings: Iterable[TimingMeasurement], commits: list[Commit]) -> list[tuple[str, int, int]]:
    """(epoch, first and last place in the history), in order."""
    place = {c.commit: i for i, c in enumerate(commits)}
    spans: dict[str, tuple[int, int]] = {}
    for t in timings:
        if t.commit in place:
            low, high = spans.get(t.epoch_key, (place[t.commit], place[t.commit]))
            spans[t.epoch_key] = min(low, place[t.commit]), max(high, place[t.commit])
    return sorted(((name, *span) for name, span in spans.items()), key=lambda epoch: epoch[1:])


def _epochs(case: Case, timings: list[TimingMeasurement], commits: list[Commit]) -> dict[str, _Points]:
    place = {c.commit: i for i, c in enumerate(commits)}
    found: dict[str, dict[tuple[int, str], dict[str, tuple[float, ...]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for t in timings:
        if t.case == case and t.commit in place and t.samples_s:
            found[t.epoch_key][place[t.commit], t.session][t.variant] = t.samples_s
    epochs = {}
    for epoch, points in found.items():
        keys = sorted(points)
        variants = list(dict.fromkeys(v for key in keys for v in points[key]))
        rows = {v: [points[key].get(v, ()) for key in keys] for v in variants}
        epochs[epoch] = _Points(
            at=np.array([at for at, _ in keys], dtype=np.int64),
            logs={v: _padded(rows[v], max(len(s) for r in rows.values() for s in r)) for v in variants},
            blocks={v: np.array([len(s) for s in rows[v]], dtype=np.int64) for v in variants},
        )
    return epochs


def _padded(rows: list[tuple[float, ...]], width: int) -> FloatArray:
    table = np.full((len(rows), width), np.nan)
    for row, samples in zip(table, rows, strict=True):
        row[: len(samples)] = samples
    return np.asarray(np.log(table), dtype=np.float64)


def _centres(logs: FloatArray, blocks: IntArray, session_spread: float) -> tuple[FloatArray, FloatArray]:
    """The Hodges-Lehmann centre of each row and half its interval; rows of as many blocks at once."""
    centre, error = np.full(len(logs), np.nan), np.full(len(logs), np.nan)
    for count in np.unique(blocks):
        rows = np.flatnonzero(blocks == count)
        values = logs[rows, :count]
        centre[rows] = hodges_lehmann(values)
        block_error = values.std(axis=-1, ddof=1) / math.sqrt(count)
        error[rows] = _Z95 * np.hypot(block_error, session_spread)
    return centre, error


def _line(
    key: tuple[str, str | None, str],
    at: IntArray,
    valid: NDArray[np.bool_],
    ends: tuple[FloatArray, FloatArray, FloatArray],
) -> Line:
    """``at``: of all points of the epoch; ``ends``: of the valid ones."""
    kept = thinned(ends[0])
    value, low, high = (end[kept] for end in ends)
    missed = np.cumsum(~valid)[valid][kept]
    gap = np.diff(missed, prepend=missed[:1]) > 0
    return Line(*key, at[valid][kept], value, low, high, gap, int(valid.sum()))


def thinned(values: FloatArray, most: int = MOST_POINTS) -> IntArray:
    """Places of what is drawn: all, or of each bin the first, last, lowest and highest (M4: Jugel et al.,
    2014, VLDB 7), so that no spike and no step is lost."""
    if len(values) <= most:
        return np.arange(len(values), dtype=np.int64)
    kept: set[int] = set()
    for bin_ in np.array_split(np.arange(len(values)), most // _KEPT_A_BIN):
        part = values[bin_]
        kept |= {int(bin_[0]), int(bin_[-1]), int(bin_[part.argmin()]), int(bin_[part.argmax()])}
    return np.array(sorted(kept), dtype=np.int64)
