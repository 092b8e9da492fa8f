"""Suspects for people and for programs: a table on the terminal, JSON, a line beside a finding."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scripts.tracker.attribute import Clue, clue_of
from scripts.tracker.model import Commit, Finding, Suspect

# 1: first version.
ATTRIBUTION_SCHEMA = 1
_IN_SHORT = 3


@dataclass(frozen=True, slots=True)
class AttributionGroup:
    """Findings that share a range and a clue, and so their suspects."""

    before: Commit
    after: Commit
    clue: Clue
    findings: tuple[Finding, ...]

    @property
    def subjects(self) -> list[str]:
        """The candidates that it is about."""
        return list(dict.fromkeys(f.candidate for f in self.findings))


def attribution_groups(findings: list[Finding]) -> list[AttributionGroup]:
    """In the order of the findings."""
    groups: dict[tuple[Commit, Commit, Clue], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.before, finding.after, clue_of(finding)), []).append(finding)
    return [AttributionGroup(*key, tuple(members)) for key, members in groups.items()]


def suspects_in_short(findings: list[Finding]) -> str:
    """Like "suspects: PR 4971, PR 4982 (of 533 unmeasured commits)"; empty if none is named."""
    named = next((f for f in findings if f.suspects), None)
    if named is None:
        return ""
    names = ", ".join(_name(suspect) for suspect in named.suspects[:_IN_SHORT])
    return f"suspects: {names} (of {named.unmeasured_commits} unmeasured commits)"


def _name(suspect: Suspect) -> str:
    name = f"PR {suspect.pr}" if suspect.pr else suspect.commit[:10]
    return f"{name} (a bump)" if suspect.bump else name


def print_attribution(console: Console, findings: list[Finding]) -> None:
    """For each range and clue: what is known, then the ranked suspects."""
    for group in attribution_groups(findings):
        stage = group.clue.stage.value if group.clue.stage else "unknown, or off dQ's path"
        metrics = ", ".join(sorted(group.clue.metrics)) or "none, time alone"
        console.print(
            f"{group.before.label} -> {group.after.label}, {group.clue.target}: "
            f"{', '.join(group.subjects)}; {len(group.findings)} findings",
            markup=False, highlight=False, style="bold",
        )  # fmt: skip
        console.print(f"  first stage that differs: {stage}; metrics: {metrics}", highlight=False)
        console.print(f"  {group.findings[0].attribution}", markup=False, highlight=False)
        if group.findings[0].suspects:
            console.print(_table(group.findings[0].suspects), highlight=False)
        console.print()


def _table(suspects: tuple[Suspect, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("", justify="right")
    table.add_column("score", justify="right")
    table.add_column("PR", justify="right")
    table.add_column("commit", no_wrap=True)
    table.add_column("subject; why", ratio=1)
    scores = [suspect.score for suspect in suspects]
    for suspect in suspects:
        tied = "=" if scores.count(suspect.score) > 1 else ""
        rank = f"{scores.index(suspect.score) + 1}{tied}"
        # Its subject is other people's text: no markup, no links.
        words = f"{suspect.subject}\n{suspect.why}"
        if suspect.bump:
            words += f"\na bump: what it pulls in, not who moved the pin: {suspect.bump}"
        number = str(suspect.pr) if suspect.pr else "none"
        score = f"{100 * suspect.score:.1f} %"
        table.add_row(rank, score, number, suspect.commit[:10], escape(words), end_section=True)
    return table


def attribution_json(findings: list[Finding]) -> str:
    """{"schema": 1, "attributions": [...]}: one for each range and clue, with the ids of its findings."""
    rows = [
        {
            "before": asdict(group.before),
            "after": asdict(group.after),
            "target": group.clue.target,
            "candidates": group.subjects,
            "first_changed_stage": group.clue.stage,
            "metrics": sorted(group.clue.metrics),
            "findings": [f.id for f in group.findings],
            "unmeasured_commits": group.findings[0].unmeasured_commits,
            "how_sure": group.findings[0].attribution,
            "suspects": [asdict(suspect) for suspect in group.findings[0].suspects],
        }
        for group in attribution_groups(findings)
    ]
    return json.dumps({"schema": ATTRIBUTION_SCHEMA, "attributions": rows}, indent=1, allow_nan=False)
