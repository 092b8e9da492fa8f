"""Series that take one of two values at random: no change of level means anything there. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scripts.tracker.series import FloatArray

_WINDOW_COMMITS = 40
# The two values must be so much farther apart than what belongs to either spreads. A normal spread cut in
# halves has 2.6.
_APART = 6.0
_LEAST_SHARE = 0.15  # of the values, at the rarer one: less are spikes
# Four turns are two steps with their recoveries; at random there are more, about 2 p (1 - p) of the values.
_LEAST_TURNS = 4
_TURNS_SHARE = 0.5


def unstable_windows(rows: FloatArray, relevant: FloatArray) -> list[list[tuple[int, int]]]:
    """For each row, the windows (first column, end) in which it jumps between two values.

    Windows end with the newest commit and do not overlap, so the cost is linear.
    """
    n = rows.shape[1]
    found: list[list[tuple[int, int]]] = [[] for _ in range(len(rows))]
    for stop in range(n, 0, -_WINDOW_COMMITS):
        start = max(stop - _WINDOW_COMMITS, 0)
        if stop - start >= 2 * _LEAST_TURNS:
            for r in np.flatnonzero(_jumps(rows[:, start:stop], relevant)):
                found[r].insert(0, (start, stop))
    return found


def turns(row: FloatArray) -> NDArray[np.int64]:
    """Columns at which the series goes over from one of its two values to the other."""
    columns = np.flatnonzero(np.isfinite(row))
    high = _is_high(row[None, columns])[0]
    return np.asarray(columns[1:][high[1:] != high[:-1]], dtype=np.int64)


def _is_high(values: FloatArray) -> NDArray[np.bool_]:
    """Above the middle between the tenth and the ninetieth hundredth; False without data."""
    ordered = np.sort(values, axis=1)  # NaN comes last
    count = np.isfinite(values).sum(axis=1, keepdims=True)
    ends = [
        np.take_along_axis(ordered, np.maximum((share * (count - 1)).astype(int), 0), 1)
        for share in (0.1, 0.9)
    ]
    return np.asarray(values > (ends[0] + ends[1]) / 2, dtype=np.bool_)


def _jumps(values: FloatArray, relevant: FloatArray) -> NDArray[np.bool_]:
    valid = np.isfinite(values)
    high = _is_high(values)
    low = valid & ~high
    n_high, n_low = high.sum(axis=1), low.sum(axis=1)
    filled = np.where(valid, values, 0.0)
    centre_high = np.where(high, filled, 0.0).sum(axis=1) / np.maximum(n_high, 1)
    centre_low = np.where(low, filled, 0.0).sum(axis=1) / np.maximum(n_low, 1)
    rest = np.where(valid, filled - np.where(high, centre_high[:, None], centre_low[:, None]), 0.0)
    total = n_high + n_low
    within = np.sqrt((rest**2).sum(axis=1) / np.maximum(total, 1))
    gap = centre_high - centre_low
    n_turns = ((high[:, 1:] != high[:, :-1]) & valid[:, 1:] & valid[:, :-1]).sum(axis=1)
    expected = 2 * n_high * n_low / np.maximum(total, 1)
    return np.asarray(
        (gap > np.maximum(relevant, _APART * within))
        & (np.minimum(n_high, n_low) >= np.maximum(_LEAST_SHARE * total, 2))
        & (n_turns >= np.maximum(_LEAST_TURNS, _TURNS_SHARE * expected)),
        dtype=np.bool_,
    )
