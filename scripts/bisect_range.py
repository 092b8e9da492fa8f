"""Close a range of commits to the one that did it.

    python -m scripts.bisect_range --finding ID
    python -m scripts.bisect_range --metric gpu_fences \\
        --since 3.1.0 --until 3.9.0

By compiling, while a metric of the code decides; by fresh GPU sessions (`confirm`) for a finding of time
alone, on a machine with a GPU.

Not named bisect.py: asv runs build_triton.py as a script, and Python would take that file for its own module.
Exit status: 0 the culprit or the range is printed, 1 not reproduced, 2 cannot work.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.confirm import DRIVER, measure
from scripts.tracker.bisection import Answer, Bisection, Outcome, Step, close_range
from scripts.tracker.codegen_probe import (
    Question,
    ScratchWorkspace,
    codegen_probe,
    question_of,
    stored_measurement,
)
from scripts.tracker.command_line import command_parser
from scripts.tracker.commit_source import CLONE
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.harness import AsvHarness, build_deadline_s
from scripts.tracker.judge import judge
from scripts.tracker.measured import History, load_history
from scripts.tracker.model import Case, Commit, Finding
from scripts.tracker.policy import read_policy
from scripts.tracker.processes import only_one
from scripts.tracker.releases import write_history
from scripts.tracker.timing_probe import claimed_effect, timing_probe
from scripts.tracker.workspace import CommitsWorkspace, Workspace

ROOT = Path(__file__).resolve().parent.parent
_SCRATCH = "bisect-"


def main() -> int:
    options = _options()
    workspace = CommitsWorkspace(ROOT) if options.commits else Workspace(ROOT)
    history = load_history(workspace)
    with only_one(workspace) as lock, _scratch(workspace) as scratch:
        repository = workspace.cache / (CLONE if options.commits else "releases.git")
        if not options.commits:
            write_history(repository, workspace.cache)
        build_s = build_deadline_s() if options.commits else 0.0
        harness = AsvHarness(workspace, repository, options.target, lock, build_s)
        if options.finding and not options.no_compile:
            finding = _finding(options.finding, history)
            if not finding.codegen_changes:
                found = _by_time(finding, history, harness, options.budget)
                _print_end(found)
                return 1 if found.outcome is Outcome.NOT_REPRODUCED else 0
        commits, question = _question(options, history, harness)
        places = itertools.count()

        def fresh_harness() -> AsvHarness:
            place = ScratchWorkspace(ROOT, scratch / str(next(places)))
            return AsvHarness(place, repository, options.target, lock, build_s)

        probe = codegen_probe(harness, fresh_harness, question, not options.no_compile)
        print(
            f"{question.variant}, {question.case}, {question.target}: {question.metric} was "
            f"{question.before:g} at {commits[0].label}; {len(commits)} commits to {commits[-1].label}"
        )
        found = close_range(commits, probe, options.budget, not options.no_compile, _print_step)
    _print_end(found)
    return 1 if found.outcome is Outcome.NOT_REPRODUCED else 0


@contextmanager
def _scratch(workspace: Workspace) -> Iterator[Path]:
    """A folder for what is compiled from scratch. What a killed run left behind goes first: we are alone."""
    for left in workspace.cache.glob(f"{_SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=workspace.cache) as folder:
        yield Path(folder)


def _options() -> argparse.Namespace:
    parser = command_parser("bisect_range", __doc__)
    parser.add_argument("--finding", help="its id, as flag_regressions --format json prints it")
    parser.add_argument("--commits", action="store_true", help="among commits of main, not releases")
    parser.add_argument("--variant", default="atomic_add")
    parser.add_argument("--metric", help="like cache_invalidations, with --since and --until")
    parser.add_argument("--since", help="the older end, a label like 3.1.0")
    parser.add_argument("--until", help="the newer end")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--target", default="cuda:90")
    parser.add_argument("--budget", type=int, default=12, help="how many commits may be built; default 12")
    parser.add_argument(
        "--no-compile", action="store_true", help="answer from what is stored alone; nothing is built"
    )
    options = parser.parse_args()
    if not options.finding and not (options.metric and options.since and options.until):
        parser.error("name a --finding, or --metric with --since and --until")
    if options.budget < 1:
        parser.error("--budget: at least 1; --no-compile builds nothing")
    return options


def _question(
    options: argparse.Namespace, history: History, harness: AsvHarness
) -> tuple[list[Commit], Question]:
    """The commits of the range and what they are asked. Raises TrackerError for what is not there."""
    if options.finding:
        finding = _finding(options.finding, history)
        variant, metric = question_of(finding)
        since, until = finding.before.label, finding.after.label
        case = Case(finding.case.head_dim, finding.case.causal, finding.case.dtype)
    else:
        variant, metric, since, until = options.variant, options.metric, options.since, options.until
        case = Case(options.head_dim, True, "fp16")
    commits = _range(history, since, until)
    probe = Question(variant, case, options.target, metric, before=0.0)
    first = stored_measurement(harness, commits[0].commit, probe)
    value = first.metrics.get(metric) if first else None
    if value is None:
        raise TrackerError(
            f"{variant} at {since} has no {metric} ({case}, {options.target}): measure it first, "
            f'make track RELEASES="{since}", or name a metric of the README'
        )
    return commits, Question(variant, case, options.target, metric, before=value)


def _finding(name: str, history: History) -> Finding:
    findings = {f.id: f for f in judge(history).findings}
    if name not in findings:
        raise TrackerError(f"no finding {name}: flag_regressions --format json lists them")
    return findings[name]


def _range(history: History, since: str, until: str) -> list[Commit]:
    labels = [commit.label for commit in history.commits]
    for label in (since, until):
        if label not in labels:
            raise TrackerError(f"{label} is not among the known commits: {', '.join(labels) or 'none'}")
    commits = history.commits[labels.index(since) : labels.index(until) + 1]
    if len(commits) < 2:
        raise TrackerError(f"{since} does not stand before {until}: swap them")
    return commits


def _by_time(finding: Finding, history: History, harness: AsvHarness, budget: int) -> Bisection:
    if not DRIVER.exists():
        raise TrackerError(
            f"finding {finding.id} is of GPU time alone: no metric of the code moved, so compiling cannot "
            "decide; run this on a machine with a GPU"
        )
    commits = _range(history, finding.before.label, finding.after.label)
    effect = claimed_effect(finding)
    print(
        f"{finding.candidate} against {finding.reference}, {finding.case}: {effect:+.1%} is looked for; "
        f"{len(commits)} commits from {commits[0].label} to {commits[-1].label}"
    )
    probe = timing_probe(
        finding,
        effect,
        harness,
        history.variants,
        read_policy().confirm,
        lambda request: measure(request, ROOT / ".venv-gpu" / "bin" / "python"),
    )
    return close_range(commits, probe, budget, True, _print_step)


def _print_step(step: Step) -> None:
    how = " (from scratch)" if step.fresh else ""
    print(f"  {step.commit.label}: {step.probed.answer.value}, {step.probed.seen}{how}", flush=True)


def _print_end(found: Bisection) -> None:
    old, new = found.last_old, found.first_new
    print(f"{found.outcome.value}: {old.label} is the last with the old value, {new.label} the first without")
    if found.between:
        names = ", ".join(commit.label for commit in found.between)
        print(f"between them, not told apart: {names}")
    print(found.why)
    values = dict.fromkeys(step.probed.seen for step in found.steps if step.probed.answer is Answer.NEW)
    if len(values) > 1:
        print(f"more than one change: {', then '.join(values)} were seen; this is about the first")


if __name__ == "__main__":
    sys.exit(run_command(main))
