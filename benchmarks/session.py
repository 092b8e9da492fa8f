"""The one door to the GPU: time stored kernels side by side in one process.

    python -m benchmarks.session PLAN.json

The plan says which commits and variants of the evidence store, which cases, how many blocks and how many
seconds; see `kernels.interleave.Plan`. For each case one result file is written to the plan's folder, whole
or not at all. A case that is complete there is not measured again.

This process supervises a worker, because a kernel that faults or hangs takes its process with it: the
worker is started again without the culprit, which is recorded as failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

# asv imports every module of this package, also where there is no GPU: what needs one is imported late.
if TYPE_CHECKING:
    from kernels.interleave import Plan

_WORKER_DEADLINE_MARGIN_S = 300.0
_EXIT_CULPRIT = 75  # the worker could name the kernel that faulted or hung


def _work(plan: Plan, state: Path) -> int:
    """The worker: all cases that are not complete yet."""
    from kernels.interleave import CulpritError, Session

    excluded = json.loads(state.read_text()) if state.exists() else {}
    session = Session(plan, excluded)
    try:
        for case in plan.timed_cases():
            session.run_case(case)
    except CulpritError as error:
        state.write_text(json.dumps({**excluded, error.key: str(error)}))
        print(f"session: {error.key}: {error}", file=sys.stderr, flush=True)
        os._exit(_EXIT_CULPRIT)  # a lost context cannot be torn down: it would hang as well
    return 0


def _supervise(plan_file: Path, plan: Plan, spawn: Callable[..., Any] = subprocess.run) -> int:
    """Start workers until one ends well. Each start leaves out one more kernel, so it ends."""
    state = Path(plan.out) / "excluded.json"
    Path(plan.out).mkdir(parents=True, exist_ok=True)
    state.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.session", str(plan_file), "--worker", str(state)]
    while True:
        status = spawn(command, timeout=plan.budget_s + _WORKER_DEADLINE_MARGIN_S, check=False).returncode
        if status != _EXIT_CULPRIT:
            return int(status)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.session", description=__doc__)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        from kernels.interleave import Plan
        from kernels.launch import LaunchError
    except ImportError as error:
        print(f"session: {error}; it needs numpy, zstandard, cuda-core, nvidia-ml-py", file=sys.stderr)
        return 1
    try:
        plan = Plan(**json.loads(options.plan.read_text()))
        if options.worker:
            return _work(plan, options.worker)
        return _supervise(options.plan, plan)
    except (LaunchError, OSError, ValueError, TypeError, subprocess.TimeoutExpired) as error:
        print(f"session: {options.plan}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
