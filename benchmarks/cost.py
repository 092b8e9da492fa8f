"""What a GPU second of kernels costs the runner, and the ordinary asv way beside it, in one run.

    python -m benchmarks.cost COMMIT [PARENT ANCHOR] [--plain] --out FOLDER

Needs a GPU and the commits' cubins in the evidence store; ``--plain`` also torch and a Triton. The seed's
points: four variants, five n_ctx, head_dim 64, 20 samples. "Ordinary" is one process a point, with torch for
memory and Triton's JIT for code, as a suite of `time_*` methods would be run (Triton's disk cache warm).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import _cases, _timed
from kernels.plan import TimedCase

_ROOT = Path(__file__).resolve().parent.parent
VARIANTS = ["atomic_add", "inline_asm", "store", "none"]
HEAD_DIM, BLOCKS = 64, 20


@dataclass
class Cost:
    """Seconds of the runner's wall clock, and of the timed kernels, canaries included."""

    what: str
    wall_s: float
    kernel_s: float

    def __str__(self) -> str:
        share = f"{self.wall_s / self.kernel_s:6.2f}" if self.kernel_s else "     -"
        return f"{self.what:58} {self.wall_s:7.2f} {self.kernel_s:7.2f} {share}"


def run_session(what: str, out: Path, commits: list[str], **changes: Any) -> Cost:
    """One whole process of `benchmarks.session`. ``changes``: to the plan."""
    plan = {
        "store": str(_cases.evidence_root()),
        "out": str(out),
        "target": _cases.target(),
        "commits": [[commit, commit[:10]] for commit in commits],
        "variants": VARIANTS,
        "cases": [asdict(TimedCase(HEAD_DIM, True, "fp16", n_ctx)) for n_ctx in _cases.N_CTX],
        "seed": 1,
        "min_blocks": BLOCKS,
        "max_blocks": BLOCKS,
        "backward_blocks": 0,
        **changes,
    }
    out.mkdir(parents=True, exist_ok=True)
    plan_file = out / "plan.json"
    plan_file.write_text(json.dumps(plan))
    started_s = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.session", str(plan_file)]
    subprocess.run(command, cwd=_ROOT, check=True)  # noqa: S603 - our own module and plan
    return Cost(what, time.monotonic() - started_s, _kernel_seconds(out))


def _kernel_seconds(out: Path) -> float:
    """Of all kernels that this session timed; samples taken over from an earlier one cost nothing."""
    total_s = 0.0
    for path in out.glob("hd*.json"):
        document = json.loads(path.read_text())
        if document["reused_from"] is None:
            total_s += sum(sum(s["kernel_s"]) + sum(s["backward_s"]) for s in document["subjects"])
            total_s += sum(sum(canary["kernel_s"]) for canary in document["canaries"].values())
    return total_s


def run_plain() -> Cost:
    """One process for each variant and n_ctx; the first round fills Triton's cache and is not counted."""
    kernel_s, wall_s = 0.0, 0.0
    points = list(itertools.product(VARIANTS, _cases.N_CTX))
    for variant in VARIANTS:
        _plain_process(variant, _cases.N_CTX[0])
    for variant, n_ctx in points:
        started_s = time.monotonic()
        kernel_s += sum(_plain_process(variant, n_ctx))
        wall_s += time.monotonic() - started_s
    return Cost("the ordinary way: one process a point, torch and the JIT", wall_s, kernel_s)


def _plain_process(variant: str, n_ctx: int) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.cost", "--point", variant, str(n_ctx)]
    done = subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return [float(word) for word in done.stdout.split()]


def plain_samples(variant: str, n_ctx: int) -> list[float]:
    """Seconds of `BLOCKS` launches, with the L2 flushed and dQ zeroed before each, as the session does."""
    import torch

    from kernels import attention_backward
    from kernels.compile import Case, support_specs, variant_specs
    from kernels.reference import softmax_scale
    from kernels.sampling import FLUSH_BYTES
    from kernels.variants import Variant

    case = Case(HEAD_DIM, True, "fp16")
    shape = (_timed.BATCH, _timed.HEADS, n_ctx, HEAD_DIM)
    buffers = {name: torch.randn(shape, device="cuda", dtype=torch.float16) for name in ("Q", "K", "V", "DO")}
    buffers |= {name: torch.empty_like(buffers["Q"]) for name in ("O", "DK", "DV")}
    buffers["DQ"] = torch.zeros(shape, device="cuda", dtype=torch.float32)
    buffers |= {name: torch.empty(shape[:3], device="cuda", dtype=torch.float32) for name in ("M", "D")}
    scalars = {"sm_scale": softmax_scale(HEAD_DIM), "N_CTX": n_ctx, "N_VALID": n_ctx}

    def launch(spec: Any) -> None:
        arguments = {name: {**buffers, **scalars}[name] for name in spec.signature}
        getattr(attention_backward, spec.function)[(n_ctx // spec.rows_per_program, shape[0] * shape[1])](
            **arguments, **spec.constexprs, num_warps=spec.num_warps, num_stages=spec.num_stages
        )

    forward, preprocess, _ = support_specs(case)
    launch(forward)
    launch(preprocess)
    [backward] = variant_specs(Variant(variant), case)
    launch(backward)
    flush = torch.empty(FLUSH_BYTES, device="cuda", dtype=torch.int8)
    samples = []
    for _ in range(BLOCKS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        buffers["DQ"].zero_()
        flush.zero_()
        start.record()
        launch(backward)
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) / 1000)
    return samples


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("commits", nargs="*", help="the commit, and what a session holds beside it")
    parser.add_argument("--plain", action="store_true", help="the ordinary way too (minutes)")
    parser.add_argument("--out", type=Path, help="an empty folder for the sessions' files")
    parser.add_argument("--point", nargs=2, metavar=("VARIANT", "N_CTX"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.point:
        print(*plain_samples(options.point[0], int(options.point[1])))
        return 0
    if not options.commits or not options.out:
        parser.error("name a commit and --out FOLDER")
    commit, *others = options.commits
    shutil.rmtree(options.out, ignore_errors=True)
    out, few = options.out, {"min_blocks": 8}
    costs = [
        run_session("session: one commit", out / "one", [commit]),
        run_session(
            "session: one commit, no torch", out / "bare", [commit], canaries=["device_copy"], fresh=True
        ),
        run_session("session: with parent and anchor", out / "beside", [*others, commit]),
        run_session(
            "session: with parent and anchor, no torch",
            out / "beside-bare",
            [*others, commit],
            canaries=["device_copy"],
        ),
        run_session("a changed commit: 8 to 20 blocks", out / "changed", [*others, commit], **few),
        run_session(
            "a changed commit: 8 to 20 blocks, no torch",
            out / "changed-bare",
            [*others, commit],
            canaries=["device_copy"],
            **few,
        ),
        run_session(
            "an unchanged commit: timed before", out / "unchanged", [*others, commit], archive=str(out), **few
        ),
    ]
    if options.plain:
        costs.append(run_plain())
    print(f"{'seconds':58} {'wall':>7} {'kernels':>7} {'ratio':>6}")
    for cost in costs:
        print(cost)
    (out / "cost.json").write_text(json.dumps([asdict(cost) for cost in costs], indent=1))
    print(f"{os.fspath(out / 'cost.json')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
