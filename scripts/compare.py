"""Compare two Tritons: did my branch make it slower?

    python -m scripts.compare --base 3.8.0 --head 3.9.0
    python -m scripts.compare --base 3.9.0 --head ~/triton   # a checkout
    python -m scripts.compare --base main.whl --head branch.whl --format json

A side is a release, a wheel, or a folder with a Triton in development mode (built in place, or installed
there; nothing is written to it). All variants are compiled on both sides, each Triton in an environment that
is deleted afterwards, and compared stage by stage. With a GPU here (make .venv-gpu/ready), both sides are
timed interleaved in one session. Prints Markdown to be pasted into a pull request. The texts of all stages
stay in .cache/compare/texts until the next comparison, for a diff of your own.

Exit status: 0 no finding, 1 findings, 2 could not be compared, 130 stopped.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from scripts.confirm import DRIVER
from scripts.tracker.command_line import command_parser
from scripts.tracker.comparison import ComparisonWorkspace, add_times, history_of
from scripts.tracker.comparison_text import render
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, TrackerError, run_command
from scripts.tracker.harness import describe_suite
from scripts.tracker.judge import TIMED_TARGET, judge
from scripts.tracker.measured import History
from scripts.tracker.model import Case, Stage
from scripts.tracker.processes import only_one, run_gpu_session
from scripts.tracker.report import findings_json, print_summary
from scripts.tracker.sides import parse_sides
from scripts.tracker.store import atomic_write
from scripts.tracker.terminal import terminal
from scripts.tracker.throwaway import throwaway_environment
from scripts.tracker.timing_run import Effort, make_plan, suite_choices
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent
GPU_PYTHON = ROOT / ".venv-gpu" / "bin" / "python"
# A short and a long one of the suite's: 12 blocks of 18 kernels at 2 x 2 cases are some 10 s.
_N_CTX = (2048, 8192)
_EFFORT = Effort(min_blocks=10, max_blocks=12, backward_blocks=0, budget_s=300.0)


def main() -> int:
    options = _options()
    sides = parse_sides(options.base, options.head)
    workspace = ComparisonWorkspace(ROOT)
    with only_one(Workspace(ROOT), "compare.lock") as lock:
        shutil.rmtree(workspace.cache, ignore_errors=True)
        with throwaway_environment(workspace.cache / "environment", options.python) as python:
            for side in sides:
                _say(f"{side.commit.label}: installing, then compiling; about a minute")
                side.install(python)
                side.compile(python, workspace, options.target, options.head_dim)
        suite = describe_suite(ROOT, "benchmarks.codegen", options.target)
        cases = [Case(head_dim, True, "fp16") for head_dim in options.head_dim]
        history = history_of(workspace, [side.commit for side in sides], suite, options.target, cases)
        without_time = _time(workspace, history, options, lock)
        _write_texts(workspace, history)
    judgement = judge(history)
    if options.format == "json":
        print(findings_json(judgement))
    else:
        print(render(history, judgement, options.target, without_time), end="")
    print_summary(terminal(stderr=True), judgement, history)  # what is not known is no "no change"
    if history.problems:
        return EXIT_CANNOT_JUDGE
    return int(bool(judgement.findings))


def _options() -> argparse.Namespace:
    parser = command_parser("compare", __doc__)
    parser.add_argument("--base", required=True, help="release, wheel or folder")
    parser.add_argument("--head", required=True, help="the same, of what is new")
    parser.add_argument("--target", default=TIMED_TARGET, choices=["cuda:80", "cuda:90", "cuda:100"])
    parser.add_argument("--head-dim", nargs="+", type=int, choices=[64, 128], default=[64, 128])
    parser.add_argument("--python", type=Path, help="that the wheels or folders are built for; default: ours")
    parser.add_argument("--format", choices=["markdown", "json"], default="markdown")
    return parser.parse_args()


def _time(workspace: Workspace, history: History, options: argparse.Namespace, lock: int) -> str:
    """Time both sides, if that is possible; else why not. Raises TrackerError for a session that fails."""
    if options.target != TIMED_TARGET:
        return f"only {TIMED_TARGET} is timed"
    if not DRIVER.exists():
        return "this machine has no NVIDIA driver"
    if not GPU_PYTHON.exists():
        return "make .venv-gpu/ready was not run on this machine"
    variants, _, _ = suite_choices(ROOT)
    plan = make_plan(workspace, history.commits, variants, options.head_dim, list(_N_CTX), _EFFORT)
    _say(f"timing both sides on the GPU, {len(plan['cases'])} cases")
    if run_gpu_session(ROOT, GPU_PYTHON, plan, [], lock) != 0:
        raise TrackerError("the GPU session did not end well, its reason is above; run it again")
    add_times(history, Path(plan["out"]))
    return ""


def _write_texts(workspace: Workspace, history: History) -> None:
    """Every stage as a file, for any tool to compare: texts/{base,head}/<case>/<variant>.<stage>."""
    for m in history.measurements:
        for kernel in m.evidence.kernels if m.evidence else ():
            # two_pass has two kernels.
            name = m.variant if kernel.role == "backward" else f"{m.variant}.{kernel.role}"
            folder = workspace.cache / "texts" / m.commit / m.case.slug
            for stage in Stage:
                text = workspace.evidence.text(kernel.objects[stage])
                atomic_write(folder / f"{name}.{stage}", text.encode())


def _say(line: str) -> None:
    """Progress is not part of what is pasted."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(run_command(main))
