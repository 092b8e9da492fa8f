"""What the page of a finding shows beside its words: code, stages, confirmations and telemetry. Pure but for
the texts that the reader reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scripts.pages.code_sides import SideReader, StageSides
from scripts.pages.telemetry import TelemetryFiles
from scripts.tracker.groups import CONFIRMED, FindingGroup, name_cases
from scripts.tracker.model import Case, CodegenMeasurement, Evidence, Kernel, Stage, TimingMeasurement


@dataclass(frozen=True, slots=True)
class Operation:
    """How often an operation stands on dQ's path, before and after."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class StageTable:
    """dQ's path of one variant, stage by stage; ``cases``: those that share it, in words."""

    variant: str
    cases: str
    stages: tuple[tuple[str, tuple[Operation, ...]], ...]


def stage_tables(group: FindingGroup, measurements: list[CodegenMeasurement]) -> list[StageTable]:
    """dQ's path before and after of whatever moved; equal ones of several cases once. ``measurements``: of
    the two commits."""
    records = _records(group, measurements)
    found: dict[tuple[str, tuple[tuple[str, tuple[Operation, ...]], ...]], list[Case]] = {}
    for subject, case in sorted({(f.subject, replace(f.case, n_ctx=None)) for f in group.findings}):
        before, after = (records.get((c.commit, subject, case)) for c in (group.before, group.after))
        if before and after:
            stages = tuple((stage.value, _operations(before, after, stage)) for stage in Stage)
            found.setdefault((subject, stages), []).append(case)
    return [StageTable(subject, name_cases(cases), stages) for (subject, stages), cases in found.items()]


def _records(
    group: FindingGroup, measurements: list[CodegenMeasurement]
) -> dict[tuple[str, str, Case], Evidence]:
    return {
        (m.commit, m.variant, m.case): m.evidence
        for m in measurements
        if m.target == group.target and m.evidence is not None
    }


def _operations(before: Evidence, after: Evidence, stage: Stage) -> tuple[Operation, ...]:
    old, new = before.dq_path(stage), after.dq_path(stage)
    return tuple(Operation(name, old.get(name, 0), new.get(name, 0)) for name in dict.fromkeys([*old, *new]))


# Those that people read; the others are shown where dQ's path first differs in them.
_SHOWN = (Stage.TTGIR, Stage.PTX, Stage.SASS)


@dataclass(frozen=True, slots=True)
class CodeSides:
    """Code before and after of one kernel. ``kernel``: its role, `two_pass` has two."""

    variant: str
    kernel: str
    case: Case
    stages: tuple[StageSides, ...]


def code_sides(
    group: FindingGroup, measurements: list[CodegenMeasurement], reader: SideReader
) -> list[CodeSides]:
    """Of whatever moved, in every case of the group: the kernel that writes dQ."""
    records = _records(group, measurements)
    wanted = {(f.subject, replace(f.case, n_ctx=None)): f.first_changed_stage for f in group.findings}
    found = []
    for (subject, case), first in sorted(wanted.items()):
        before, after = (records.get((c.commit, subject, case)) for c in (group.before, group.after))
        kernels = _dq_kernels(before, after) if before and after else None
        if kernels is None:
            continue
        stages = [s for s in Stage if s in _SHOWN or s is first]
        sides = tuple(reader.sides(stage, *kernels) for stage in stages)
        found.append(CodeSides(subject, kernels[0].role, case, sides))
    return found


def _dq_kernels(before: Evidence, after: Evidence) -> tuple[Kernel, Kernel] | None:
    """The last of a variant's kernels writes dQ: of `two_pass` the second one."""
    old, new = ({k.role: k for k in side.kernels} for side in (before, after))
    shared = [role for role in old if role in new]
    return (old[shared[-1]], new[shared[-1]]) if shared else None


def confirmation_bars(group: FindingGroup) -> list[dict[str, object]]:
    """What fresh sessions said, as bars with intervals: each leg and the ratio, in percent."""
    bars: list[dict[str, object]] = []
    for finding in group.findings:
        answer = finding.confirmation
        if answer is None:
            continue
        effects = [(leg.variant, leg.effect) for leg in answer.legs]
        effects.append((f"ratio to {finding.reference}", answer.ratio))
        bars.append(
            {
                "title": f"{CONFIRMED[answer.decision]}: {finding.case}",
                "names": [name for name, _ in effects],
                "change": [100 * e.change for _, e in effects],
                "low": [100 * e.low for _, e in effects],
                "high": [100 * e.high for _, e in effects],
                "sessions": answer.sessions,
                "where": f"{answer.gpu}, driver {answer.driver}",
                "reason": answer.reason,
            }
        )
    return bars


def session_of(group: FindingGroup, timings: list[TimingMeasurement]) -> list[tuple[str, Case]]:
    """The sessions in which the finding's worst timed case was taken, at its two ends."""
    timed = [f for f in group.findings if f.change is not None]
    if not timed:
        return []
    worst = max(timed, key=lambda f: abs(f.change or 0.0))
    wanted = {worst.candidate, worst.reference}
    found = {t.session for t in timings if t.case == worst.case and t.variant in wanted}
    return [(session, worst.case) for session in sorted(found)]


def telemetry_of(sessions: Iterable[tuple[str, Case]], files: TelemetryFiles) -> list[dict[str, object]]:
    """Readings of these sessions, where their files are at hand."""
    shown: list[dict[str, object]] = []
    for session, case in sessions:
        start = session.rpartition(" ")[2]
        found = files.get((int(start), case)) if start.isdigit() else None
        if found is not None:
            shown.append(
                {
                    "file": found.file,
                    "case": str(case),
                    "clock_mhz": found.clock_mhz,
                    "temperature_c": found.temperature_c,
                    "power_w": found.power_w,
                    "left_out": [i for i, valid in enumerate(found.valid) if not valid],
                    "capped": sum(found.capped),
                }
            )
    return shown
