"""The one door to the GPU: time stored kernels side by side in one process.

    python -m benchmarks.session PLAN.json [--gpus all] [--fresh]

The plan says which commits and variants of the evidence store, which cases, how many blocks and how many
seconds; see `kernels.plan.Plan`. For each case one result file is written to the plan's folder, whole or
not at all. A case that is complete there is not measured again, an interrupted one goes on where it
stopped, and samples that an earlier session took of the same kernels are used again.

This process supervises one worker a GPU, because a kernel that faults or hangs takes its process with it:
the worker is started again without the culprit, which is recorded as failed.

Exit status: 0 all cases are there, 1 some are not (the reason is printed), 130 stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.plan import Plan, TimedCase, spread

# asv imports every module of this package, also where there is no GPU: what needs one is imported late.

_WORKER_DEADLINE_MARGIN_S = 300.0
_STOP_DEADLINE_S = 30.0  # for a worker that was told to stop: to end a block and write it
_LEAST_BUDGET_S = 1.0  # a worker without any would time nothing, but still say what it leaves out
_EXIT_CULPRIT = 75  # the worker could name the kernel that faulted or hung
_EXIT_STOPPED = 130
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # Ctrl-C, a scheduler, a closed terminal
_ROOT = Path(__file__).resolve().parent.parent


def _work(plan: Plan, state: Path) -> int:
    """The worker: all cases that are not complete yet."""
    from kernels.interleave import CulpritError, Session

    excluded = json.loads(state.read_text()) if state.exists() else {}
    session = Session(plan, excluded)
    try:
        problems = session.run(plan.timed_cases())
    except CulpritError as error:
        if error.key in excluded:
            print(f"session: {error.key} again: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        state.write_text(json.dumps({**excluded, error.key: str(error)}))
        print(f"session: {error.key}: {error}", file=sys.stderr, flush=True)
        os._exit(_EXIT_CULPRIT)  # a lost context cannot be torn down: it would hang as well
    except KeyboardInterrupt:
        return _EXIT_STOPPED
    for problem in problems:  # of one case each: no memory, no record
        print(f"session: {problem}", file=sys.stderr, flush=True)
    return 1 if problems else 0


class Workers:
    """Runs one worker process a GPU, and can stop them."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._is_stopping = False

    def run(self, command: list[str], gpu: str, deadline_s: float) -> int:
        """Its exit status, 1 if it was killed. The worker sees its own GPU only: torch takes the first that
        it sees."""
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu}
        with self._lock:  # or a worker would be started, and waited for, after all were told to stop
            if self._is_stopping:
                return _EXIT_STOPPED
            process = subprocess.Popen(command, env=environment, cwd=_ROOT)  # noqa: S603 - our own module
            self._running.append(process)
        try:
            status = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            print(f"session: the worker on {gpu} did not end within {deadline_s:.0f} s", file=sys.stderr)
            return 1
        if status < 0:  # by the system for its memory, or by a crash: no success, beside others that end well
            print(f"session: signal {-status} ended the worker on {gpu}", file=sys.stderr)
            return 1
        return status

    def stop(self) -> None:
        """They write what they have and end; one that does not is killed. None is started after this."""
        with self._lock:
            self._is_stopping = True
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + _STOP_DEADLINE_S
        for process in self._running:
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()  # `run` waits for it


def _supervise(
    plan: Plan, gpu: str, cases: list[TimedCase], spawn: Callable[[list[str], str, float], int]
) -> int:
    """Start workers on one GPU until one ends well. Each start leaves out one more kernel, so it ends; all of
    them together have the plan's budget."""
    folder = Path(plan.out) / "workers"
    folder.mkdir(parents=True, exist_ok=True)
    state, share = folder / f"{gpu}-excluded.json", folder / f"{gpu}-plan.json"
    state.unlink(missing_ok=True)
    deadline_s = time.monotonic() + plan.budget_s
    command = [sys.executable, "-m", "benchmarks.session", str(share), "--worker", str(state)]
    while True:
        left = replace(plan, budget_s=max(_LEAST_BUDGET_S, deadline_s - time.monotonic()))
        share.write_text(json.dumps(vars(left.of_gpu(gpu, cases))))
        status = spawn(command, gpu, left.budget_s + _WORKER_DEADLINE_MARGIN_S)
        if status != _EXIT_CULPRIT:
            return status


def shares(
    plan: Plan, visible: list[str], describe: Callable[[str], dict[str, Any]]
) -> dict[str, list[TimedCase]]:
    """What is left to time on each GPU, after finished and re-used cases. ``describe``: a GPU's epoch.

    Raises RuntimeError if a GPU is not there.
    """
    from kernels.reuse import reuse
    from kernels.session_file import is_complete

    gpus = list(plan.gpus) or visible[:1]
    if missing := [gpu for gpu in gpus if gpu not in visible]:
        raise RuntimeError(f"no GPU {', '.join(missing)} here; visible: {', '.join(visible)}")
    Path(plan.out).mkdir(parents=True, exist_ok=True)
    left = {}
    for gpu, cases in spread(plan.timed_cases(), gpus).items():
        device = describe(gpu)
        paths = {case: Path(plan.out) / f"{case.slug}.json" for case in cases}
        done = [case for case in cases if is_complete(paths[case], plan, case, device)]
        reused = [case for case in cases if case not in done and reuse(plan, case, device)]
        left[gpu] = [case for case in cases if case not in done and case not in reused]
        print(
            f"session: {device['gpu']} {gpu}: {len(left[gpu])} cases to time, {len(done)} done before, "
            f"{len(reused)} timed by an earlier session",
            file=sys.stderr,
            flush=True,
        )
    return {gpu: cases for gpu, cases in left.items() if cases}


def run(plan: Plan) -> int:
    """Run a plan on its GPUs; see `shares` for what is raised."""
    from kernels.telemetry import Telemetry, visible_gpus

    todo = shares(plan, visible_gpus(), lambda gpu: Telemetry(gpu).describe())
    workers = Workers()
    with ThreadPoolExecutor(max(1, len(todo))) as pool:
        futures = [pool.submit(_supervise, plan, gpu, cases, workers.run) for gpu, cases in todo.items()]
        try:
            return max((future.result() for future in futures), default=0)
        except KeyboardInterrupt:
            workers.stop()
            raise


def _stop_once(*_: object) -> None:
    """The first signal ends the session, the next ones would cut short the writing of what it has. Ctrl-C
    reaches a worker twice: from the terminal and from its supervisor."""
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.session",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plan", type=Path)
    parser.add_argument("--gpus", help="UUIDs with commas, or all; default: the plan's, or the first")
    parser.add_argument("--fresh", action="store_true", help="time again what an earlier session timed")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for ending in _ENDINGS:
        if signal.getsignal(ending) is not signal.SIG_IGN:  # nohup
            signal.signal(ending, _stop_once)
    try:
        plan = Plan.read(options.plan)
        if options.worker:
            return _work(plan, options.worker)
        if options.gpus == "all":
            from kernels.telemetry import visible_gpus

            plan = replace(plan, gpus=tuple(visible_gpus()))
        elif options.gpus:
            plan = replace(plan, gpus=tuple(options.gpus.split(",")))
        return run(replace(plan, fresh=plan.fresh or options.fresh))
    except ImportError as error:
        print(
            f"session: {error}; it needs numpy, zstandard, cuda-core and nvidia-ml-py: make .venv-gpu/ready",
            file=sys.stderr,
        )
        return 1
    except (RuntimeError, OSError, ValueError) as error:
        print(f"session: {options.plan}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("session: stopped; the same command goes on from here", file=sys.stderr)
        return _EXIT_STOPPED


if __name__ == "__main__":
    sys.exit(main())
