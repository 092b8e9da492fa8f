"""How far the values of a series spread where nothing changed, and its spikes. Pure; rows are series."""

from __future__ import annotations

import math

import numpy as np

from scripts.tracker.series import FloatArray

FEW = 3  # values that are a level
_JUMP_Z = 6.0  # a heavy-tailed spread has one such difference in hundreds
_LAGS = (1, 8)  # differences over eight commits see a slow wander that neighbours hide
MAD_TO_SIGMA = 1.4826


def spread(rows: FloatArray, floor: float) -> FloatArray:
    """Standard deviation of one value of each row, from differences, and never below ``floor``.

    Neither a step nor many of them count: what jumps from one commit to the next and stays is taken out
    before commits farther apart are compared.
    """
    sigma = np.full(len(rows), floor)
    for lag in _LAGS:
        if rows.shape[1] > lag + FEW:
            size = np.abs(rows[:, lag:] - rows[:, :-lag])
            sigma = np.fmax(sigma, MAD_TO_SIGMA * row_medians(size) / math.sqrt(2))
            rows = _without_jumps(rows, _JUMP_Z * sigma)
    return sigma


def _without_jumps(rows: FloatArray, limit: FloatArray) -> FloatArray:
    """``rows`` with each jump taken back that leaves three values on either side ``limit`` apart."""
    n = rows.shape[1]
    if n < 2 * FEW:
        return rows
    three = [rows[:, i : n - 2 + i] for i in range(FEW)]
    low, high = np.minimum(three[0], three[1]), np.maximum(three[0], three[1])
    medians = np.maximum(low, np.minimum(high, three[2]))  # NaN stays NaN, and is no jump
    size = medians[:, FEW:] - medians[:, :-FEW]
    first = rows[:, FEW : n - 2] - rows[:, 2 : n - FEW]
    is_jump = np.minimum(first * np.sign(size), np.abs(size)) > limit[:, None]
    jumps = np.zeros(rows.shape)
    jumps[:, FEW : n - 2] = np.where(is_jump, size, 0.0)
    return np.asarray(rows - jumps.cumsum(axis=1))


def despike(rows: FloatArray, limit: FloatArray) -> FloatArray:
    """Replace a value by the mean of its neighbours where it leaves both, to the same side, by ``limit``."""
    calm = rows.copy()
    if rows.shape[1] < FEW:
        return calm
    left, right = rows[:, 1:-1] - rows[:, :-2], rows[:, 1:-1] - rows[:, 2:]
    is_spike = (left * right > 0) & (np.minimum(np.abs(left), np.abs(right)) > limit[:, None])
    calm[:, 1:-1][is_spike] = ((rows[:, :-2] + rows[:, 2:]) / 2)[is_spike]
    return calm


def row_medians(rows: FloatArray) -> FloatArray:
    """Median of each row's valid values; 0 for a row without any."""
    whole = np.isfinite(rows).all(axis=1)
    medians = np.zeros(len(rows))
    if whole.any() and rows.shape[1]:
        medians[whole] = np.median(rows[whole], axis=1)
    for r in np.flatnonzero(~whole):
        valid = rows[r][np.isfinite(rows[r])]
        medians[r] = np.median(valid) if len(valid) else 0.0
    return medians
