"""Prove which stage did it.

    python -m scripts.prove FINDING_ID
    python -m scripts.prove --before 3.1.0 --after 3.2.0 --variant atomic_add

Feeds one side's texts to the other side's tools, stage by stage. Needs the two wheels of Triton (downloaded,
one at a time) and what make track measured; no GPU.

Exit status: 0 one stage named for every metric, 1 not for every, 2 could not be tried.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.judge import judge
from scripts.tracker.measured import History, load_history
from scripts.tracker.model import Case, CodegenMeasurement, Commit, MeasurementStatus
from scripts.tracker.policy import read_policy
from scripts.tracker.stages import NOT_COMPARED, StageComparer
from scripts.tracker.substitution import FED, Proof, Side, Swap, Trial, narrow_by_texts, prove, read_trials
from scripts.tracker.terminal import terminal
from scripts.tracker.throwaway import install_release, throwaway_environment
from scripts.tracker.workspace import Workspace

_REASON_WIDTH = 120
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be proved: one variant's code at two releases."""

    variant: str
    case: Case
    target: str
    commits: dict[Side, Commit]


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    workspace = Workspace(ROOT)
    history = load_history(workspace)
    if options.finding:
        question = _of_finding(history, options.finding)
    elif options.before and options.after and options.variant:
        question = _of_options(history, options)
    else:
        parser.error("give the id of a finding, or --before, --after and --variant")
    sides = {side: _measurement(history, question, side) for side in Side}
    metrics = moved_metrics(sides)
    console = terminal()
    trials = _try_both(console, workspace, question)
    proofs = [_prove(metric, sides, trials) for metric in metrics]
    _print(console, question, proofs)
    _print_texts(console, workspace, sides, proofs)
    return 0 if all(len(proof.guilty) == 1 for proof in proofs) else 1


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("prove", __doc__)
    parser.add_argument("finding", nargs="?", help="id of a finding; or else all of:")
    parser.add_argument("--before", help="a release")
    parser.add_argument("--after", help="a later one")
    parser.add_argument("--variant")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--target", default="cuda:90")
    return parser


def _of_finding(history: History, asked: str) -> Question:
    found = next((f for f in judge(history).findings if f.id == asked), None)
    if found is None:
        raise TrackerError(
            f"no finding {asked!r}: python -m scripts.flag_regressions --format json lists them"
        )
    case = Case(found.case.head_dim, found.case.causal, found.case.dtype)
    return Question(found.subject, case, found.target, {Side.BEFORE: found.before, Side.AFTER: found.after})


def _of_options(history: History, options: argparse.Namespace) -> Question:
    commits = {}
    for side, label in ((Side.BEFORE, options.before), (Side.AFTER, options.after)):
        known = {c.label: c for c in history.commits} | {c.commit: c for c in history.commits}
        if label not in known:
            raise TrackerError(f'Triton {label} is not measured here: make track RELEASES="{label}"')
        commits[side] = known[label]
    return Question(options.variant, Case(options.head_dim, True, "fp16"), options.target, commits)


def _measurement(history: History, question: Question, side: Side) -> CodegenMeasurement:
    """What was measured of one side. Raises TrackerError if it is not there, or its evidence is not."""
    commit = question.commits[side]
    for m in history.measurements:
        key = (m.commit, m.variant, m.case, m.target)
        if key == (commit.commit, question.variant, question.case, question.target):
            if m.status is MeasurementStatus.OK and m.evidence is not None:
                return m
            raise TrackerError(
                f"{question.variant} at {commit.label} is {m.status.value}, or has no record in the evidence "
                "store: there is no text to feed"
            )
    raise TrackerError(
        f"{question.variant} ({question.case}, {question.target}) is not measured at {commit.label}: "
        f'make track RELEASES="{commit.label}"'
    )


def moved_metrics(sides: dict[Side, CodegenMeasurement]) -> list[str]:
    """Metrics whose rule of the policy fires; without any, all that differ. Raises TrackerError for none."""
    old, new = (sides[side].metrics for side in Side)
    fired = [
        r.metric for r in read_policy().codegen.rule if r.direction(old.get(r.metric), new.get(r.metric))
    ]
    differ = [
        metric
        for metric in old
        if metric != "compile_duration_s"
        and None not in (old[metric], new.get(metric))
        and old[metric] != new[metric]
    ]
    if not differ:
        raise TrackerError("no metric differs between the two: there is nothing to prove")
    return fired or differ


def _try_both(console: Console, workspace: Workspace, question: Question) -> dict[Side, list[Trial]]:
    """All trials with both sides' tools; one Triton at a time is installed."""
    trials = {}
    with throwaway_environment(workspace.cache / "prove") as python:
        for side in Side:
            label = question.commits[side].label
            console.print(
                f"Triton {label}: download, install, feed {len(FED)} stages of both.", highlight=False
            )
            install_release(python, label)
            trials[side] = _feed(python, workspace, question, side)
    return trials


def _feed(python: Path, workspace: Workspace, question: Question, tools: Side) -> list[Trial]:
    folder = python.parent.parent
    store = workspace.evidence
    records = {
        side.value: str(
            store.record_path(question.target, question.commits[side].commit, question.case, question.variant)
        )
        for side in Side
    }
    plan = {"store": str(store.root), "records": records, "tools": tools.value}
    (folder / "plan.json").write_text(json.dumps(plan))
    command = [
        str(python),
        "-m",
        "kernels.substitute",
        str(folder / "plan.json"),
        str(folder / "trials.json"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our module
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise TrackerError(f"the texts could not be fed to Triton {question.commits[tools].label}: {last}")
    return read_trials(folder / "trials.json")


def _prove(metric: str, sides: dict[Side, CodegenMeasurement], trials: dict[Side, list[Trial]]) -> Proof:
    values = {side: float(m.metrics[metric] or 0.0) for side, m in sides.items()}
    own = {side: list(m.evidence.identity) if m.evidence else [] for side, m in sides.items()}
    return prove(metric, values, trials, own)


def _print(console: Console, question: Question, proofs: list[Proof]) -> None:
    labels = {side: commit.label for side, commit in question.commits.items()}
    for proof in proofs:
        table = Table(box=box.SIMPLE_HEAD, title=f"{question.variant}: {proof.metric}", title_justify="left")
        table.add_column("text")
        for tools in Side:
            table.add_column(f"of {labels[tools.other]} in {labels[tools]}")
        for stage in FED:
            cells = [
                _cell(swap)
                for tools in Side
                for swap in proof.swaps
                if (swap.tools, swap.stage) == (tools, stage)
            ]
            table.add_row(stage.value, *cells)
        console.print(table, highlight=False)
    for proof in proofs:
        console.print(proof.explain(), highlight=False, markup=False)


def _print_texts(
    console: Console, workspace: Workspace, sides: dict[Side, CodegenMeasurement], proofs: list[Proof]
) -> None:
    """What the texts themselves say, beside the swaps."""
    old, new = (sides[side].evidence for side in Side)
    report = StageComparer(workspace.evidence.text).compare(old, new) if old and new else NOT_COMPARED
    on_path = {rule.metric for rule in read_policy().codegen.rule if rule.dq_path}
    for proof in proofs:
        said = narrow_by_texts(proof, report.first_changed_stage) if proof.metric in on_path else None
        if said:
            console.print(said, highlight=False, markup=False)
    console.print(f"By their texts: {report.explain()}", highlight=False, markup=False)


def _cell(swap: Swap) -> str:
    if swap.value is None:
        return escape(swap.reason[:_REASON_WIDTH])
    same = ", same machine code" if swap.same_code else ""
    return f"{swap.value:g}: follows {swap.follows.value}{same}"


if __name__ == "__main__":
    sys.exit(run_command(main))
