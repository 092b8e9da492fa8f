"""Pinned launch configurations. No autotuning anywhere: a tuner that changes its mind is a fake regression.

All variants of a case share one configuration (two_pass's second kernel is another kernel and has its
own), because a ratio of two variants means something only when all else is equal.
"""

from __future__ import annotations

from dataclasses import dataclass

# Every tile size below divides it; `reference.pad_rows` pads a sequence to a multiple of it.
ROW_ALIGNMENT = 128


@dataclass(frozen=True)
class LaunchConfig:
    """Tile sizes in rows, warps a program and software pipeline stages of one kernel.

    ``block_m`` counts rows of Q (and dO, dQ), ``block_n`` rows of K (and V, dK, dV).
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


# Keyed by head_dim. Tuned once, on one H200 with cubins of Triton 3.9.0 (atomic_add_relaxed, descriptor_add
# and inline_asm_v2 over 48 configurations, n_ctx 2048, 8192 and 32768, causal fp16): the fastest with 128
# rows of K a program (64 rows double the traffic to dQ, and scalar atomics then hide everything else) and
# without register spills. A spill is the register allocator's whim, and would hide what is watched here:
# configurations with spills were up to 13 % faster at head_dim 64 and 30 % at 128.
BACKWARD = {
    64: LaunchConfig(block_m=64, block_n=128, num_warps=8, num_stages=3),
    128: LaunchConfig(block_m=32, block_n=128, num_warps=8, num_stages=3),
}
# two_pass's second kernel and the forward, not tuned: two_pass could be faster than its figures.
BACKWARD_DQ = {
    64: LaunchConfig(block_m=128, block_n=64, num_warps=8, num_stages=2),
    128: LaunchConfig(block_m=128, block_n=64, num_warps=8, num_stages=2),
}
FORWARD = {
    64: LaunchConfig(block_m=128, block_n=64, num_warps=4, num_stages=3),
    128: LaunchConfig(block_m=128, block_n=64, num_warps=8, num_stages=3),
}
# Preprocess and dQ's conversion walk rows only; block_n is unused there and repeats block_m.
ROWWISE = LaunchConfig(block_m=128, block_n=128, num_warps=4, num_stages=1)

HEAD_DIMS = tuple(BACKWARD)
