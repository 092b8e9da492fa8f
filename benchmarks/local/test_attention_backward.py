"""GPU time of your own Triton, for pytest-benchmark:

    python -m pip install -r benchmarks/local/requirements.txt    # beside your Triton
    python -m pytest benchmarks/local --benchmark-json mine.json

All selected variants and cases are timed in one interleaved session (`benchmarks.session`); then each test
hands its samples to pytest-benchmark, whose timer is a clock of GPU time. Nothing is timed by pytest itself.

A folder that asv does not look into: its benchmarks must be importable without pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _cases, _timed
from kernels.fingerprint import timing_fingerprint
from kernels.plan import CANARIES

ROOT = Path(__file__).resolve().parents[2]
# 1: first version of extra_info, which flag_regressions --benchmark-json reads.
SCHEMA = 1
_COMMIT = "local"
_BUDGET_S = 600.0


class GpuClock:
    """Reads what was measured on the GPU: `pytest_benchmark` asks it before and after each round."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def reset(self) -> None:
        self.now_s = 0.0


CLOCK = GpuClock()
pytestmark = pytest.mark.benchmark(timer=CLOCK, disable_gc=False, warmup=False)


class Measured:
    """The session's files, a case each."""

    def __init__(self, documents: list[dict[str, Any]], triton: str) -> None:
        self._documents, self.triton = documents, triton

    def document(self, head_dim: int, n_ctx: int) -> dict[str, Any]:
        """Of one case. Raises RuntimeError if the session has no valid data of it."""
        case = {"head_dim": head_dim, "causal": True, "dtype": "fp16", "n_ctx": n_ctx}
        return _timed.document_of({"documents": self._documents}, **case)


@pytest.fixture(scope="session")
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Times what was selected; skips all where nothing can be timed."""
    try:
        import triton
    except ImportError as error:
        pytest.skip(f"no Triton in this Python: {error}")
    if reason := _timed.no_gpu_reason():
        pytest.skip(f"{reason} (what is needed: benchmarks/local/requirements.txt)")
    asked = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    variants = [v for v in _cases.VARIANTS if any(p.get("variant") == v for p in asked)]
    lengths = sorted({(p["head_dim"], p["n_ctx"]) for p in asked if "n_ctx" in p})
    folder = tmp_path_factory.mktemp("session")
    # Without a candidate and inline_asm the session does not know how long to measure.
    kept = [v for v in _cases.VARIANTS if v in {*variants, "atomic_add", "inline_asm"}]
    return Measured(take(kept, lengths, folder), triton.__version__)


def take(variants: list[str], lengths: list[tuple[int, int]], folder: Path) -> list[dict[str, Any]]:
    """Compile and time. ``lengths``: (head_dim, n_ctx). Raises RuntimeError if the session gave nothing."""
    from kernels.compile import Case
    from kernels.evidence import EvidenceWriter
    from kernels.record import record_all
    from kernels.variants import Variant

    # A new store each time: a build in development mode changes under the same name.
    store = folder / "evidence"
    cases = [Case(head_dim, True, "fp16") for head_dim in sorted({d for d, _ in lengths})]
    chosen = [Variant(name) for name in variants]
    for _ in record_all(EvidenceWriter(store), _COMMIT, _cases.target(), cases, chosen):
        pass
    plan = {
        "store": str(store),
        "out": str(folder / "out"),
        "target": _cases.target(),
        "commits": [[_COMMIT, _COMMIT]],
        "variants": variants,
        "cases": [
            {"head_dim": d, "causal": True, "dtype": "fp16", "n_ctx": n,
             "batch": _timed.BATCH, "heads": _timed.HEADS}
            for d, n in lengths
        ],
        "seed": int.from_bytes(os.urandom(4), "big"),  # the order of kernels in a block
        "backward_blocks": 0,
        "budget_s": _BUDGET_S,
    }  # fmt: skip
    plan_file = folder / "plan.json"
    plan_file.write_text(json.dumps(plan))
    command = [sys.executable, "-m", "benchmarks.session", str(plan_file)]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603
    documents = [json.loads(path.read_text()) for path in sorted((folder / "out").glob("hd*.json"))]
    if not documents:
        raise RuntimeError(f"the GPU session gave nothing: {done.stderr.strip()[-300:]}")
    return documents


def hand_over(
    benchmark: Any, what: str, samples_s: list[float], document: dict[str, Any], triton: str
) -> None:
    """A sample a round, and beside them all that another program needs to compare two files."""
    if not samples_s:
        pytest.fail("no valid block: the GPU throttled in all of them")
    case, device = document["case"], document["device"]
    benchmark.group = f"head_dim {case['head_dim']}, n_ctx {case['n_ctx']}, causal, fp16"
    benchmark.extra_info |= {
        "atomwatch": SCHEMA, "what": what, "is_canary": what in CANARIES, "triton": triton, "case": case,
        "device": {name: device[name] for name in ("gpu", "driver", "power_limit_w")},
        "started_at": document["started_at"], "version": timing_fingerprint(),
    }  # fmt: skip
    waiting = iter(samples_s)

    def next_sample() -> None:
        CLOCK.now_s = next(waiting)

    benchmark.pedantic(next_sample, setup=CLOCK.reset, rounds=len(samples_s), iterations=1)


@pytest.mark.parametrize("n_ctx", _cases.N_CTX)
@pytest.mark.parametrize("head_dim", _cases.HEAD_DIMS)
@pytest.mark.parametrize("variant", _cases.VARIANTS)
def test_kernel(measured: Measured, benchmark: Any, variant: str, head_dim: int, n_ctx: int) -> None:
    """The backward kernel alone (for `two_pass` both), seconds."""
    document = measured.document(head_dim, n_ctx)
    subject = _timed.subject_of(document, _COMMIT, variant)
    if subject["status"] == "unsupported":
        pytest.skip(subject["message"])
    samples_s = _timed.valid_samples(document, subject["kernel_s"])
    hand_over(benchmark, variant, samples_s, document, measured.triton)


@pytest.mark.parametrize("n_ctx", _cases.N_CTX)
@pytest.mark.parametrize("head_dim", _cases.HEAD_DIMS)
@pytest.mark.parametrize("canary", CANARIES)
def test_canary(measured: Measured, benchmark: Any, canary: str, head_dim: int, n_ctx: int) -> None:
    """Work that no Triton can change, from the same blocks: if it moved, the machine did."""
    document = measured.document(head_dim, n_ctx)
    timed = document["canaries"].get(canary) or {"message": "not timed", "kernel_s": []}
    if not timed["kernel_s"]:
        pytest.skip(timed["message"] or "not timed")
    hand_over(benchmark, canary, _timed.valid_samples(document, timed["kernel_s"]), document, measured.triton)
