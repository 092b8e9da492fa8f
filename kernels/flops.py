"""The one FLOP count. Standard library only, so that the judging half can ask for it by a subprocess."""

from __future__ import annotations


def attention_flops(
    batch: int, heads: int, n_ctx: int, head_dim: int, causal: bool, backward: bool = True
) -> float:
    """Floating-point operations of attention, by the convention of Triton's tutorial and of issue 4717.

    The forward has two matrix products of 2 * n_ctx * n_ctx * head_dim operations each per head. The
    backward has five (S again, dP, dV, dK, dQ), 2.5 times the forward. A causal mask halves both.
    """
    forward = 2 * (2.0 * n_ctx * n_ctx * head_dim) * batch * heads
    return forward * (2.5 if backward else 1.0) * (0.5 if causal else 1.0)
