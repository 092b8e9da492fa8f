"""Series that take one of two values at random: no change of level means anything there. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scripts.tracker.series import FloatArray

_WINDOW_COMMITS = 40
_STRIDE = _WINDOW_COMMITS // 2
# Of the values, how many may lie in the middle third between the two: a normal spread has a third there.
_MIDDLE_SHARE = 0.05
_LEAST_SHARE = 0.2  # of the values, at the rarer one: less are spikes
# Six turns are three steps with their recoveries; at random there are more, about 2 p (1 - p) of the values.
_LEAST_TURNS = 6
_TURNS_SHARE = 0.65


def unstable_windows(rows: FloatArray, relevant: FloatArray) -> list[list[tuple[int, int]]]:
    """For each row, the windows (first column, end) in which it jumps between two values.

    Windows overlap by half, and one that jumps is told with half a window before it, where the jumps may
    have begun.
    """
    n = rows.shape[1]
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(rows))]
    for stop in range(n, 0, -_STRIDE):
        start = max(stop - _WINDOW_COMMITS, 0)
        # A rest of a window is in the one before it.
        if stop - start >= min(_STRIDE, n) and n >= 2 * _LEAST_TURNS:
            for r in np.flatnonzero(_jumps(rows[:, start:stop], relevant)):
                found[r].insert(0, (max(start - _STRIDE, 0), stop))
    return found


def turns(row: FloatArray) -> NDArray[np.int64]:
    """Columns at which the series goes over from one of its two values to the other."""
    columns = np.flatnonzero(np.isfinite(row))
    high = _is_high(row[None, columns])[0]
    return np.asarray(columns[1:][high[1:] != high[:-1]], dtype=np.int64)


def _ends(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The tenth and the ninetieth hundredth of every row: near its two values, if it has two."""
    ordered = np.sort(values, axis=1)  # NaN comes last
    last = np.isfinite(values).sum(axis=1, keepdims=True) - 1
    low, high = (
        np.take_along_axis(ordered, np.maximum(np.rint(share * last).astype(int), 0), 1)
        for share in (0.1, 0.9)
    )
    return low, high


def _is_high(values: FloatArray) -> NDArray[np.bool_]:
    low, high = _ends(values)
    return np.asarray(values > (low + high) / 2, dtype=np.bool_)


def _jumps(values: FloatArray, relevant: FloatArray) -> NDArray[np.bool_]:
    valid = np.isfinite(values)
    high = _is_high(values)
    low = valid & ~high
    n_high, n_low = high.sum(axis=1), low.sum(axis=1)
    lowest, highest = _ends(values)
    gap = highest - lowest
    between = ((values > lowest + gap / 3) & (values < highest - gap / 3)).sum(axis=1)
    total = n_high + n_low
    n_turns = ((high[:, 1:] != high[:, :-1]) & valid[:, 1:] & valid[:, :-1]).sum(axis=1)
    expected = 2 * n_high * n_low / np.maximum(total, 1)
    return np.asarray(
        (gap[:, 0] > relevant)
        & (between <= _MIDDLE_SHARE * total)
        & (np.minimum(n_high, n_low) >= np.maximum(_LEAST_SHARE * total, 2))
        & (n_turns >= np.maximum(_LEAST_TURNS, _TURNS_SHARE * expected)),
        dtype=np.bool_,
    )
