"""What Triton's own launcher costs the host: `kernel[grid](…)` of a compiled kernel that does nothing.

Host time, so a clock of the host is the right one. Needs a GPU, and torch for Triton's driver. Launches go in
bursts short enough for the GPU's queue, or the host would wait for the GPU instead.
"""

from __future__ import annotations

import time
from typing import Any

import triton

_BURST = 100  # launches a sample; the queue holds about 1,000
_SAMPLES = 50


@triton.jit
def _probe_2(A, n):
    pass


@triton.jit
def _probe_14(A, B, C, D, E, F, G, H, I, J, K, L, M, n):  # noqa: E741
    pass


def measure(arguments: int) -> list[float]:
    """Host seconds a launch of a kernel with 2 or 14 arguments, `_SAMPLES` samples. Raises RuntimeError or
    ImportError without a GPU or torch."""
    import torch

    tensors = [torch.empty(16, device="cuda") for _ in range(arguments - 1)]
    kernel: Any = {2: _probe_2, 14: _probe_14}[arguments]
    for _ in range(_BURST):  # compiled, and its caches warm
        kernel[(1,)](*tensors, 1)
    torch.cuda.synchronize()
    samples = []
    for _ in range(_SAMPLES):
        started_s = time.perf_counter()
        for _ in range(_BURST):
            kernel[(1,)](*tensors, 1)
        samples.append((time.perf_counter() - started_s) / _BURST)
        torch.cuda.synchronize()
    return samples
