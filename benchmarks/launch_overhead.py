"""What Triton's own launcher costs the host; see `kernels.launch_probe`. Skipped without a GPU or torch."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks import _cases, _timed
from kernels.fingerprint import launch_fingerprint

ARGUMENTS = [2, 14]  # 14: what the backward kernel takes


class LaunchOverhead:
    """Seconds of host time a launch. Parameter: how many arguments the kernel has."""

    params = (ARGUMENTS,)
    param_names = ("arguments",)
    version = launch_fingerprint()
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
        from kernels.launch_probe import measure

        return {"samples": measure(arguments), "number": 1}

    track_launch.pretty_name = "host time of a launch"  # type: ignore[attr-defined]


if __name__ == "__main__":
    import triton

    from kernels.launch_probe import measure

    print(f"triton {triton.__version__}, {_cases.target()}")
    for count in ARGUMENTS:
        print(f"{count:3} arguments: {statistics.median(measure(count)) * 1e6:6.2f} us a launch")
