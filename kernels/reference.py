"""What the kernels' numbers are held against: the float64 gradients, tolerances, padding, the one FLOP count.

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


def attention_flops(
    batch: int, heads: int, n_ctx: int, head_dim: int, causal: bool, backward: bool = True
) -> float:
    """Floating-point operations of attention, by the convention of Triton's tutorial and of issue 4717.

    The forward has two matrix products of 2 * n_ctx * n_ctx * head_dim operations each per head. The
    backward has five (S again, dP, dV, dK, dQ), 2.5 times the forward. A causal mask halves both.
    """
    forward = 2 * (2.0 * n_ctx * n_ctx * head_dim) * batch * heads
    return forward * (2.5 if backward else 1.0) * (0.5 if causal else 1.0)
