"""GPU time of attention's backward pass with every way to accumulate dQ, through one interleaved session.

`setup_cache` compiles what the evidence store does not have, times everything of the commit in one GPU
process (`benchmarks.session`), and every `track_*` only hands over samples: asv computes its statistics
from them. On a machine without a GPU, or with one of another architecture, everything is skipped.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import _cases
from kernels.fingerprint import timing_fingerprint
from kernels.flops import attention_flops

_ROOT = Path(__file__).resolve().parent.parent
SESSION_BUDGET_S = 300.0
BATCH, HEADS = 4, 8  # issue 4717's


def no_gpu_reason() -> str | None:
    """Why nothing can be timed here; None if it can."""
    try:
        from kernels.launch import Gpu, LaunchError
    except ImportError as error:
        return f"cuda.core is not installed: {error}"
    try:
        gpu = Gpu(os.environ.get("ATOMWATCH_GPU"))
    except LaunchError as error:
        return str(error)
    if f"cuda:{gpu.compute_capability}" != _cases.target():
        return f"this GPU is cuda:{gpu.compute_capability}, the target is {_cases.target()}"
    return None


class AttentionBackward:
    """Seconds, for batch 4 and 8 heads as in issue 4717."""

    params = (
        _cases.VARIANTS,
        _cases.N_CTX,
        _cases.HEAD_DIMS,
        _cases.CAUSAL,
        _cases.DTYPES,
    )
    param_names = ("variant", "n_ctx", "head_dim", "causal", "dtype")
    version = timing_fingerprint()
    unit = "seconds"
    timeout = 1800

    def setup_cache(self) -> dict[str, Any]:
        """{"skipped": reason}, or {"subjects": {(variant, case slug): subject of the session}}."""
        reason = no_gpu_reason()
        if reason is not None:
            print(f"skipped: {reason}", file=sys.stderr)
            return {"skipped": reason}
        commit = os.environ.get("ASV_COMMIT")
        if not commit:
            raise RuntimeError("asv gives no ASV_COMMIT (an `existing` environment?): run a commit range")
        self._compile(commit)
        subjects = {}
        with tempfile.TemporaryDirectory() as folder:
            for document in run_session(commit, Path(folder)):
                for subject in document["subjects"]:
                    if subject["commit"] == commit:
                        subjects[subject["variant"], slug(document["case"])] = subject
        return {"subjects": subjects}

    setup_cache.timeout = 1800

    def _compile(self, commit: str) -> None:
        from kernels.evidence import EvidenceWriter
        from kernels.record import record_all
        from kernels.variants import Variant

        writer = EvidenceWriter(_cases.evidence_root())
        for _ in record_all(writer, commit, _cases.target(), _cases.codegen_cases(), list(Variant)):
            pass

    def track_kernel(
        self, cache: dict[str, Any], variant: str, n_ctx: int, head_dim: int, causal: bool, dtype: str
    ) -> Any:
        return samples_of(cache, "kernel_s", variant, n_ctx, head_dim, causal, dtype)

    def track_backward(
        self, cache: dict[str, Any], variant: str, n_ctx: int, head_dim: int, causal: bool, dtype: str
    ) -> Any:
        return samples_of(cache, "backward_s", variant, n_ctx, head_dim, causal, dtype)

    track_kernel.pretty_name = "backward kernel alone"  # type: ignore[attr-defined]
    track_backward.pretty_name = "whole backward: preprocess, zero fill, kernel, conversion of dQ"  # type: ignore[attr-defined]


def slug(case: dict[str, Any]) -> str:
    return f"{case['head_dim']}-{case['causal']}-{case['dtype']}-{case['n_ctx']}"


def samples_of(
    cache: dict[str, Any], series: str, variant: str, n_ctx: int, head_dim: int, causal: bool, dtype: str
) -> Any:
    """asv's value for one case: samples, NaN (skipped), or an exception (failed)."""
    if "skipped" in cache:
        return float("nan")
    case = {"head_dim": head_dim, "causal": causal, "dtype": dtype, "n_ctx": n_ctx}
    subject = cache["subjects"][variant, slug(case)]
    if subject["status"] == "unsupported":
        return float("nan")
    if subject["status"] != "ok" or not subject[series]:
        raise RuntimeError(f"{variant}: {subject['status']}: {subject['message'] or 'no valid block'}")
    return {"samples": subject[series], "number": 1}


def run_session(commit: str, folder: Path) -> list[dict[str, Any]]:
    """Time one commit, beside its parent if the driver names one; the session's documents, a case each."""
    beside = os.environ.get("ATOMWATCH_BESIDE", "").split()
    plan = {
        "store": str(_cases.evidence_root()),
        "out": str(folder),
        "target": _cases.target(),
        "commits": [[other, other[:10]] for other in beside] + [[commit, commit[:10]]],
        "variants": _cases.VARIANTS,
        "cases": [
            {
                "head_dim": c.head_dim,
                "causal": c.causal,
                "dtype": c.dtype,
                "n_ctx": n_ctx,
                "batch": BATCH,
                "heads": HEADS,
            }
            for c in _cases.codegen_cases()
            for n_ctx in _cases.N_CTX
        ],
        "seed": int(commit[:8], 16),
        "budget_s": SESSION_BUDGET_S,
        "gpu": os.environ.get("ATOMWATCH_GPU"),
    }
    plan_file = folder / "plan.json"
    plan_file.write_text(json.dumps(plan))
    command = [sys.executable, "-m", "benchmarks.session", str(plan_file)]
    subprocess.run(command, cwd=_ROOT, check=True)  # noqa: S603 - our own module and plan
    return [json.loads(path.read_text()) for path in sorted(folder.glob("hd*.json"))]


if __name__ == "__main__":
    shapes = itertools.product(_cases.N_CTX, _cases.HEAD_DIMS, _cases.CAUSAL)
    flops = [
        {"n_ctx": n, "head_dim": d, "causal": c, "flops": attention_flops(BATCH, HEADS, n, d, c)}
        for n, d, c in shapes
    ]
    print(json.dumps({**_cases.describe(AttentionBackward), "flops": flops}))
