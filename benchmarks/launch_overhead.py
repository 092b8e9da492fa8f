"""What Triton's own launcher costs the host: `kernel[grid](…)` of a compiled kernel that does nothing.

Host time, so a clock of the host is the right one. Needs a GPU, and torch for Triton's driver. Launches go in
bursts short enough for the GPU's queue, or the host would wait for the GPU instead.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks import _cases, _timed
from kernels.fingerprint import timing_fingerprint

_BURST = 100  # launches a sample; the queue holds about 1,000
_SAMPLES = 50
ARGUMENTS = [2, 14]  # 14: what the backward kernel takes


def measure(arguments: int) -> list[float]:
    """Seconds a launch, `_SAMPLES` samples. Raises RuntimeError or ImportError without a GPU or torch."""
    import torch

    from kernels.launch_probe import probe

    tensors = [torch.empty(16, device="cuda") for _ in range(arguments - 1)]
    kernel = probe(arguments)
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


class LaunchOverhead:
    """Seconds of host time a launch. Parameter: how many arguments the kernel has."""

    params = (ARGUMENTS,)
    param_names = ("arguments",)
    version = timing_fingerprint()
    unit = "seconds"
    timeout = 600

    def setup_cache(self) -> dict[str, Any]:
        reason = _timed.no_gpu_reason()
        try:
            import torch  # noqa: F401 - Triton's driver asks it for the stream
        except ImportError as error:
            reason = reason or f"no torch: {error}"
        return {"skipped": reason} if reason else {}

    def track_launch(self, cache: dict[str, Any], arguments: int) -> Any:
        if "skipped" in cache:
            return float("nan")
        return {"samples": measure(arguments), "number": 1}

    track_launch.pretty_name = "host time of a launch"  # type: ignore[attr-defined]


if __name__ == "__main__":
    import statistics

    import triton

    print(f"triton {triton.__version__}, {_cases.target()}")
    for count in ARGUMENTS:
        print(f"{count:3} arguments: {statistics.median(measure(count)) * 1e6:6.2f} us a launch")
