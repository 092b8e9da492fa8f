"""Code generation, tracked exactly: what Triton makes of each variant, without a GPU.

`setup_cache` compiles once a commit, through the evidence store; every `track_*` only reads one number.
A variant that this Triton or target does not have is skipped (asv: NaN); one that the compiler refuses
fails (asv: null) with its message on stderr.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from benchmarks import _cases
from kernels.codegen import METRICS
from kernels.fingerprint import fingerprint

UNITS = {**METRICS, "compile_duration_s": "seconds"}


class CodeGeneration:
    """Parameters: variant, head_dim, causal, dtype, target. Times nothing; counts do not vary."""

    params = (
        _cases.VARIANTS,
        _cases.HEAD_DIMS,
        _cases.CAUSAL,
        _cases.DTYPES,
        [_cases.target()],
    )
    param_names = ("variant", "head_dim", "causal", "dtype", "target")
    version = fingerprint()
    timeout = 900  # seconds; the wheel's first import on a cold disk and 26 compilations fit many times

    def setup_cache(self) -> dict[tuple[str, str], dict[str, Any]]:
        """{(variant, case): {"status", "message", "metrics"}} of the commit that asv installed."""
        from kernels.evidence import EvidenceWriter
        from kernels.record import record_all
        from kernels.variants import Variant

        records = record_all(
            EvidenceWriter(_cases.evidence_root()),
            _cases.commit(),
            _cases.target(),
            _cases.codegen_cases(),
            list(Variant),
        )
        return {
            (record["variant"], _slug(record["case"])): {
                name: record[name] for name in ("status", "message", "metrics")
            }
            for record in records
        }

    setup_cache.timeout = 900


def _slug(case: dict[str, Any]) -> str:
    from kernels.compile import Case

    return Case(**case).slug


def _track(name: str, unit: str) -> Callable[..., float]:
    """A `track_*` method that hands one metric from the cache to asv."""

    def track(
        self: CodeGeneration,
        cache: dict[tuple[str, str], dict[str, Any]],
        variant: str,
        head_dim: int,
        causal: bool,
        dtype: str,
        target: str,
    ) -> float:
        case = {"head_dim": head_dim, "causal": causal, "dtype": dtype}
        record = cache[variant, _slug(case)]
        if record["status"] == "failed":
            raise RuntimeError(f"{variant} does not compile for {target}: {record['message']}")
        if record["status"] == "unsupported" or record["metrics"][name] is None:
            return float("nan")
        return float(record["metrics"][name])

    track.__name__ = f"track_{name}"
    track.__doc__ = name.replace("_", " ")
    track.unit = unit  # type: ignore[attr-defined]
    track.pretty_name = name.replace("_", " ")  # type: ignore[attr-defined]
    return track


for _name, _unit in UNITS.items():
    setattr(CodeGeneration, f"track_{_name}", _track(_name, _unit))


if __name__ == "__main__":
    # The driver compares it with asv's files; records: how many the evidence store has for a commit.
    records = (len(_cases.VARIANTS) + 1) * len(_cases.codegen_cases())
    print(json.dumps({**_cases.describe(CodeGeneration), "records": records}))
