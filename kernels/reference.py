"""What the kernels' numbers are held against: the float64 gradients, tolerances, padding.

numpy only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernels.launch_configs import ROW_ALIGNMENT

# Largest allowed |gradient - reference| / max |reference|. Inputs, P and dS are rounded to the input
# dtype (10 or 7 mantissa bits), a matrix product averages those roundings: a few units in the last place.
RELATIVE_TOLERANCE = {"fp16": 4e-3, "bf16": 3e-2}


@dataclass(frozen=True)
class Gradients:
    """dq, dk, dv: float64 arrays [Z, H, N, HEAD_DIM]; o like them; lse: [Z, H, N], natural logarithm."""

    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray
    o: np.ndarray
    lse: np.ndarray


def attention_gradients(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, do: np.ndarray, causal: bool
) -> Gradients:
    """Attention's gradients in float64, by the equations in `attention_backward`.

    All inputs [Z, H, N, HEAD_DIM], any float dtype; the softmax scale is 1 / sqrt(HEAD_DIM).
    """
    q, k, v, do = (x.astype(np.float64) for x in (q, k, v, do))
    scale = softmax_scale(q.shape[-1])
    s = scale * q @ k.swapaxes(-1, -2)
    if causal:
        n = q.shape[-2]
        s = np.where(np.tril(np.ones((n, n), dtype=bool)), s, -np.inf)
    s_max = s.max(-1, keepdims=True)
    lse = s_max + np.log(np.exp(s - s_max).sum(-1, keepdims=True))
    p = np.exp(s - lse)
    o = p @ v
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (o * do).sum(-1, keepdims=True))
    return Gradients(
        dq=scale * ds @ k,
        dk=scale * ds.swapaxes(-1, -2) @ q,
        dv=p.swapaxes(-1, -2) @ do,
        o=o,
        lse=lse[..., 0],
    )


@dataclass(frozen=True)
class SampledGradients:
    """The same for some rows of one long head: ``rows`` of Q (dq, o, lse, delta) and of K (dk, dv)."""

    dq: np.ndarray
    o: np.ndarray
    lse: np.ndarray
    delta: np.ndarray
    dk: np.ndarray
    dv: np.ndarray


def attention_gradients_at(
    rows: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    do: np.ndarray,
    lse: np.ndarray,
    delta: np.ndarray,
    causal: bool,
) -> SampledGradients:
    """Gradients of some rows in float64 at a cost linear in the length: a full head of 32,768 would take
    0.7 * 10^12 operations, this 10^10.

    q, k, v, do: [N, HEAD_DIM]. A row of dQ follows from the inputs alone. A row of dK and dV needs the
    log-sum-exp (natural, [N]) and rowsum(O * dO) ([N]) of every row: those that the kernel itself reads.
    The caller compares the ``lse`` and ``delta`` that come back with them, so they are checked too.
    """
    q, k, v, do, lse, delta = (x.astype(np.float64) for x in (q, k, v, do, lse, delta))
    scale, every = softmax_scale(q.shape[-1]), np.arange(len(q))
    s = scale * q[rows] @ k.T
    if causal:
        s[every[None, :] > rows[:, None]] = -np.inf
    largest = s.max(1, keepdims=True)
    p = np.exp(s - largest)
    lse_at = (largest + np.log(p.sum(1, keepdims=True)))[:, 0]
    p /= p.sum(1, keepdims=True)
    o_at = p @ v
    delta_at = (o_at * do[rows]).sum(1)
    dq_at = scale * (p * (do[rows] @ v.T - delta_at[:, None])) @ k

    s = scale * q @ k[rows].T
    if causal:
        s[every[:, None] < rows[None, :]] = -np.inf
    p = np.exp(s - lse[:, None])
    ds = p * (do @ v[rows].T - delta[:, None])
    return SampledGradients(dq_at, o_at, lse_at, delta_at, dk=scale * ds.T @ q, dv=p.T @ do)


def softmax_scale(head_dim: int) -> float:
    return 1.0 / math.sqrt(head_dim)


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Largest absolute error over the largest absolute expected value; inf if any actual is not finite."""
    if not np.isfinite(actual).all():
        return math.inf
    return float(np.abs(actual - expected).max() / np.abs(expected).max())


def pad_rows(x: np.ndarray) -> np.ndarray:
    """Rows (axis 2) padded with zeros to a whole number of tiles. [Z, H, N, ...] -> [Z, H, N', ...].

    Zero rows of K, V and dO add nothing to any gradient, and the forward kernel gives padded rows of Q
    an infinite log-sum-exp, so that their P is zero.
    """
    missing = -x.shape[2] % ROW_ALIGNMENT
    widths = [(0, 0)] * x.ndim
    widths[2] = (0, missing)
    return np.pad(x, widths)
