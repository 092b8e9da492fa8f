"""What `asv publish` must know of our benchmarks, from our own sources. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scripts.tracker.harness import Suite
from scripts.tracker.results import CODEGEN_BENCHMARK

_BENCHMARKS_API = 2  # of asv 0.6.6
_TIMEOUT_S = 1800


def benchmark_list(suites: Sequence[Suite]) -> dict[str, Any]:
    """The content of asv's `benchmarks.json`."""
    found: dict[str, Any] = {
        name: {
            "name": name,
            "code": "",
            "type": "track",
            "unit": _unit(name),
            "params": suite.params,
            "param_names": suite.param_names,
            "version": suite.version,
            "timeout": _TIMEOUT_S,
        }
        for suite in suites
        for name in suite.benchmarks
    }
    return {**found, "version": _BENCHMARKS_API}


def _unit(name: str) -> str:
    """By its name: whatever is no time and no size is a count."""
    if not name.startswith(CODEGEN_BENCHMARK) or name.endswith("_s"):
        return "seconds"
    return "bytes" if name.endswith("_bytes") else "count"
