"""A judgement for people and for programs: a table on the terminal, JSON, one HTML page."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict
from typing import Any

import jinja2
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scripts.tracker.attribution_report import suspects_in_short
from scripts.tracker.comment import TEMPLATES
from scripts.tracker.errors import printable
from scripts.tracker.groups import SEVERITY, VERDICT_WORDS, FindingGroup, group_findings
from scripts.tracker.measured import History
from scripts.tracker.model import Case, MeasurementStatus, Verdict
from scripts.tracker.policy import read_policy
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
    console.print(
        f"{len(judgement.findings)} findings. Measured: {commits} commits, {statuses[MeasurementStatus.OK]} "
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


def render_html(judgement: Judgement, history: History) -> str:
    """One self-contained page: findings, then every metric of every variant over the commits."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["number"] = _number
    groups = group_findings(judgement.findings)[::-1]  # newest first among the equally severe
    groups.sort(key=lambda group: SEVERITY.index(group.verdict))
    return environment.get_template("report.html").render(
        groups=groups,
        words=VERDICT_WORDS,
        counts=sorted(judgement.counts.items()),
        series=_series(history),
        times=_times(history),
        timed_on=history.timed_on(),
        facts=history.variants,
        failures=[
            (target, history.label(commit), failure.reason)
            for target, failures in history.failures.items()
            for commit, failure in failures.items()
        ],
        problems=[*map(str, history.problems), *history.notes, *judgement.notes],
    )


def _series(history: History) -> list[dict[str, Any]]:
    """For each target and case: a table a variant, metrics down, commits across."""
    keys: list[tuple[str, Case]] = sorted({(m.target, m.case) for m in history.measurements})
    by_cell = {(m.target, m.case, m.variant, m.commit): m for m in history.measurements}
    tables: list[dict[str, Any]] = []
    for target, case in keys:
        commits = [
            c
            for c in history.commits
            if any((target, case, v, c.commit) in by_cell for v in history.variants)
        ]
        # What is judged first, in order of weight.
        judged = [rule.metric for rule in read_policy().codegen.rule]
        names = dict.fromkeys(name for m in history.measurements for name in m.metrics)
        metrics = [name for name in judged if name in names] + [n for n in names if n not in judged]
        variants = []
        for variant in history.variants:
            cells = [by_cell.get((target, case, variant, c.commit)) for c in commits]
            rows = [(name, _cells([m.metrics.get(name) if m else None for m in cells])) for name in metrics]
            status = [m.status.value if m else "not measured" for m in cells]
            variants.append({"name": variant, "status": status, "rows": rows})
        tables.append({"target": target, "case": str(case), "commits": commits, "variants": variants})
    return tables


def _times(history: History) -> list[dict[str, Any]]:
    """For each timed case: TFLOP/s of the kernel alone, variants down, commits across."""
    tables: list[dict[str, Any]] = []
    medians = {
        (t.case, t.variant, t.commit): statistics.median(t.samples_s) for t in history.timings if t.samples_s
    }
    for case in sorted({t.case for t in history.timings}, key=lambda c: (c.head_dim, c.n_ctx or 0)):
        commits = [c for c in history.commits if any(k[0] == case and k[2] == c.commit for k in medians)]
        flops = history.flops.get((case.n_ctx or 0, case.head_dim, case.causal))
        rows = []
        for variant in history.variants:
            times = [medians.get((case, variant, c.commit)) for c in commits]
            rows.append((variant, [flops / t / 1e12 if t and flops else None for t in times]))
        tables.append({"case": str(case), "commits": commits, "rows": rows})
    return tables


def _cells(values: list[float | None]) -> list[tuple[str, bool]]:
    """(text, differs from the last known value)."""
    cells, last = [], None
    for value in values:
        cells.append((_number(value), last is not None and value is not None and value != last))
        last = value if value is not None else last
    return cells


def _number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.0f}" if value == int(value) else f"{value:.4g}"
