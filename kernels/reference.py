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


def attention_gradients_blocked(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, do: np.ndarray, causal: bool, block: int = 1024
) -> Gradients:
    """The same for one head at any length: float32 products of blocks of rows, float64 sums over blocks.

    All inputs [N, HEAD_DIM]; results [N, HEAD_DIM] (lse [N]). Memory: block * N * 4 bytes, a few times.
    The products' own error is 1e-6 of the largest value, far below the tolerances.
    """
    q, k, v, do = (x.astype(np.float32) for x in (q, k, v, do))
    n, scale = len(q), np.float32(softmax_scale(q.shape[-1]))
    dk, dv = np.zeros(k.shape), np.zeros(v.shape)
    dq, o, lse = np.empty(q.shape), np.empty(q.shape), np.empty(n)
    for lo in range(0, n, block):
        rows = slice(lo, min(lo + block, n))
        seen = rows.stop if causal else n
        p = (q[rows] * scale) @ k[:seen].T
        if causal:
            p[:, lo:][np.triu(np.ones((rows.stop - lo, seen - lo), dtype=bool), 1)] = -np.inf
        largest = p.max(1, keepdims=True)
        p = np.exp(p - largest)
        total = p.sum(1, keepdims=True)
        p /= total
        lse[rows] = (largest + np.log(total))[:, 0]
        o[rows] = p @ v[:seen]
        dv[:seen] += p.T @ do[rows]
        ds = do[rows] @ v[:seen].T
        ds -= (o[rows] * do[rows]).sum(1, keepdims=True).astype(np.float32)
        ds *= p
        dq[rows] = scale * (ds @ k[:seen])
        dk[:seen] += scale * (ds.T @ q[rows])
    return Gradients(dq, dk, dv, o, lse)


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
