"""A judgement for people and for programs: a table on the terminal, and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scripts.tracker.attribution_report import suspects_in_short
from scripts.tracker.errors import printable
from scripts.tracker.groups import VERDICT_WORDS, FindingGroup, group_findings
from scripts.tracker.measured import History
from scripts.tracker.model import MeasurementStatus, Verdict
from scripts.tracker.steps import Judgement

# 1: first version.
FINDINGS_SCHEMA = 1
# Colours that stay apart for colour-blind readers, and only beside the word.
_STYLES = {Verdict.REGRESSION: "bold red", Verdict.NO_VALID_DATA: "bold magenta", Verdict.IMPROVEMENT: "blue"}


def findings_json(judgement: Judgement) -> str:
    """The finding file of the design: {"schema": 1, "findings": [...]}."""
    findings = [asdict(f) for f in judgement.findings]
    for finding in findings:
        del finding["candidate_change"], finding["attribution"]
    document = {"schema": FINDINGS_SCHEMA, "findings": findings}
    return json.dumps(document, indent=1, allow_nan=False)


def print_table(console: Console, judgement: Judgement, history: History) -> None:
    """Findings by pair of commits and candidate; equal ones of several references and cases in one row."""
    if not judgement.findings:
        console.print("No findings.")
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), title="Findings", title_justify="left")
    table.add_column("Triton", no_wrap=True, max_width=20)
    table.add_column("candidate, verdict, against what", ratio=2)
    table.add_column("what changed", ratio=3)
    for group in group_findings(judgement.findings):
        for verdict in group.verdicts:
            words = f"[{_STYLES.get(verdict, 'none')}]{VERDICT_WORDS[verdict]}[/]"
            table.add_row(
                escape(f"{group.before.label}\n{group.after.label}"),
                f"{group.candidate}: {words} against {', '.join(group.references_of(verdict))}"
                f" ({group.cases_of(verdict)}, {group.target})",
                _what_changed(group, verdict),
                end_section=True,
            )
    console.print(table, highlight=False)


def _what_changed(group: FindingGroup, verdict: Verdict) -> str:
    """Changes in order of weight; a reference's are marked with its name."""
    rows = group.changes_of(verdict)
    if not rows:
        return escape(printable(group.of(verdict)[0].explanation))
    lines = []
    for row in rows:
        whose = "" if row.variant == group.candidate else f"{row.variant}: "
        lines.append(f"{whose}{row.metric} {row.values}")
    lines += group.confirmations_of(verdict)
    if words := suspects_in_short(group.of(verdict)):
        lines.append(words)
    return escape(printable("\n".join(lines)))


def print_summary(console: Console, judgement: Judgement, history: History) -> None:
    """What was looked at, what was not, and why; a reader must not take silence for 'unchanged'."""
    statuses = {s: sum(m.status is s for m in history.measurements) for s in MeasurementStatus}
    commits = len({m.commit for m in history.measurements})
    rows = sum(len(group.verdicts) for group in group_findings(judgement.findings))
    each = f" in {rows} rows (each of a candidate, a reference and a case)" if rows else ""
    console.print(
        f"{len(judgement.findings)} findings{each}. "
        f"Measured: {commits} commits, {statuses[MeasurementStatus.OK]} "
        f"variants and cases compiled, {statuses[MeasurementStatus.SKIPPED]} skipped (the operation is not "
        f"there), {statuses[MeasurementStatus.FAILED]} failed.",
        highlight=False,
    )
    if history.timings:
        where = "; ".join(history.timed_on())
        sessions = len({t.session for t in history.timings})
        console.print(f"  GPU time: {where} (sessions: {sessions})", highlight=False, markup=False)
    for what, count in sorted(judgement.counts.items()):
        console.print(f"  {count} {what}", highlight=False)
    for target, failures in history.failures.items():
        for commit, failure in failures.items():
            console.print(
                f"  not measured for {target}: {history.label(commit)}: {failure.reason}",
                highlight=False, markup=False,
            )  # fmt: skip
    for note in (*history.notes, *judgement.notes):
        console.print(f"  note: {note}", highlight=False, markup=False)
    for problem in history.problems:
        console.print(f"error: {printable(str(problem))}", highlight=False, markup=False, style="red")
