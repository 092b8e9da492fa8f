"""A comparison in Markdown, short enough to paste into a pull request. Pure but for template and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2

from scripts.tracker.comment import block, code
from scripts.tracker.groups import VERDICT_WORDS, FindingGroup, group_findings
from scripts.tracker.measured import History
from scripts.tracker.model import Case, CodegenMeasurement, MeasurementStatus, Stage, TimingMeasurement
from scripts.tracker.stages import StageComparer, StageOutcome, StagesReport
from scripts.tracker.steps import Judgement
from scripts.tracker.timing import leg

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_MARKS = {
    StageOutcome.SAME: "same",
    StageOutcome.RENAMED: "same",
    StageOutcome.ELSEWHERE: "rest",
    StageOutcome.ON_PATH: "**dQ**",
    StageOutcome.UNKNOWN: "?",
}
_AFTER_IT = "follows"
_MAX_MESSAGE = 200


@dataclass(frozen=True, slots=True)
class Row:
    """One variant, for all cases that say the same. ``marks``: a word a stage; or else ``instead``: why there
    is nothing to compare."""

    variant: str
    head_dims: tuple[int, ...]
    marks: tuple[str, ...]
    instead: str
    time: str


@dataclass(frozen=True, slots=True)
class _Compared:
    row: Row
    head_dim: int
    report: StagesReport | None


def render(history: History, judgement: Judgement, target: str, without_time: str) -> str:
    """``without_time``: why the GPU was not asked, "" if it was."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=False,  # noqa: S701 - Markdown, not HTML; `code` is its escape
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": code, "block": block}
    base, head = history.commits
    compared = list(_compared(history))
    return environment.get_template("comparison.md").render(
        base=base.label,
        head=head.label,
        target=target,
        groups=group_findings(judgement.findings),
        words=VERDICT_WORDS,
        changes=_changes,
        rows=list(_rows(compared)),
        stages=[stage.value for stage in Stage],
        excerpts=_excerpts(compared),
        head_dims=sorted({m.case.head_dim for m in history.measurements}),
        timed_on=history.timed_on(),
        lengths=sorted({t.case.n_ctx for t in history.timings if t.case.n_ctx is not None}),
        without_time=without_time,
    )


def _changes(group: FindingGroup) -> list[str]:
    """What moved, in words, each once: several references tell the same of the candidate."""
    lines = []
    for verdict in group.verdicts:
        for change in group.changes_of(verdict):
            whose = "" if change.variant == group.candidate else f"{change.variant}: "
            lines.append(f"{whose}{change.metric} {change.values}")
        if not group.changes_of(verdict):
            lines.append(group.of(verdict)[0].explanation)
    return list(dict.fromkeys(lines))


def _compared(history: History) -> Iterator[_Compared]:
    """Every variant and case, in the order of variants."""
    texts = StageComparer(lambda digest: history.evidence.text(digest) if history.evidence else None)
    measured = {(m.commit, m.variant, m.case): m for m in history.measurements}
    base, head = (c.commit for c in history.commits)
    for variant in history.variants:
        for case in sorted({m.case for m in history.measurements}):
            sides = measured[base, variant, case], measured[head, variant, case]
            before, after = (side.evidence for side in sides)
            instead = _why_not(sides)
            report = None
            marks: tuple[str, ...] = ()
            if not instead and before and after:  # `history_of` gives each its record
                report = texts.compare(before, after)
                marks = _marks(report, before.identity == after.identity)
            row = Row(variant, (), marks, instead, _time_words(history, variant, case))
            yield _Compared(row, case.head_dim, report)


def _rows(compared: Sequence[_Compared]) -> Iterator[Row]:
    """head_dims that say the same in one row."""
    alike: dict[Row, list[int]] = {}
    for found in compared:
        alike.setdefault(found.row, []).append(found.head_dim)
    for row, head_dims in alike.items():
        yield replace(row, head_dims=tuple(head_dims))


def _why_not(sides: Sequence[CodegenMeasurement]) -> str:
    """Skipped and failed are two things, and neither is unchanged."""
    said: dict[MeasurementStatus, list[tuple[str, str]]] = {}
    for name, side in zip(("base", "head"), sides, strict=True):
        if side.status is not MeasurementStatus.OK:
            message = (side.evidence.message if side.evidence else None) or ""
            first = next(iter(message.strip().splitlines()), "no message")[:_MAX_MESSAGE]
            said.setdefault(side.status, []).append((name, first))
    return "; ".join(
        f"{status.value} at {' and '.join(name for name, _ in found)}: "
        + ", ".join(code(words) for words in dict.fromkeys(words for _, words in found))
        for status, found in said.items()
    )


def _marks(report: StagesReport, is_identical: bool) -> tuple[str, ...]:
    """A word for every stage. Identical: the GPU is asked to do exactly the same."""
    marks = [_MARKS[c.outcome] for c in report.comparisons]
    marks += [_AFTER_IT] * (len(Stage) - len(marks))
    if is_identical:
        marks[-1] = "identical"
    return tuple(marks)


def _time_words(history: History, variant: str, case: Case) -> str:
    """A variant's own time, head over base, from least to most over the lengths that were timed."""
    changes = []
    base, head = (c.commit for c in history.commits)
    times = {(t.commit, t.case): t for t in history.timings if t.variant == variant}
    asked = sorted({c for _, c in times if (c.head_dim, c.causal, c.dtype) == _code_of(case)})
    missing = 0
    for timed in asked:
        change = _own_change(times.get((base, timed)), times.get((head, timed)))
        if change is None:
            missing += 1
        else:
            changes.append(change)
    if not changes:
        return "not timed" if asked else "-"
    least, most = f"{min(changes):+.1%}", f"{max(changes):+.1%}"
    words = least if least == most else f"{least} to {most}"
    return f"{words}; {missing} of {len(asked)} not timed" if missing else words


def _code_of(case: Case) -> tuple[int, bool, str]:
    return case.head_dim, case.causal, case.dtype


def _own_change(before: TimingMeasurement | None, after: TimingMeasurement | None) -> float | None:
    if before is None or after is None:
        return None
    if MeasurementStatus.OK is not before.status or MeasurementStatus.OK is not after.status:
        return None
    return leg(before, after)


def _excerpts(compared: Sequence[_Compared]) -> list[tuple[str, str]]:
    """(what it shows, the difference on dQ's path): equal ones once, under all names that have it."""
    names: dict[tuple[Stage | None, str], dict[str, list[int]]] = {}
    for found in compared:
        if found.report and found.report.excerpt:
            key = (found.report.first_changed_stage, found.report.excerpt)
            names.setdefault(key, {}).setdefault(found.row.variant, []).append(found.head_dim)
    return [
        (f"{stage}: " + "; ".join(f"{v} (head_dim {', '.join(map(str, d))})" for v, d in of.items()), excerpt)
        for (stage, excerpt), of in names.items()
    ]
