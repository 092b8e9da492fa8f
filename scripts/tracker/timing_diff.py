"""Findings of GPU time between neighbouring timed commits. Pure.

A pair whose code changed and whose time was measured is judged by the time: the exact code difference
then explains the finding, or is counted as a change that costs nothing.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from scripts.tracker.codegen_diff import Judgement, finding_id
from scripts.tracker.model import (
    Case,
    Commit,
    Finding,
    MeasurementStatus,
    Role,
    TimingMeasurement,
    Verdict,
)
from scripts.tracker.policy import TimingPolicy
from scripts.tracker.timing import RatioChange, is_relevant, leg, ratio_change

OK = MeasurementStatus.OK
TIMED = "pairs timed on the GPU"
STEADY = "pairs timed whose ratio did not move by what policy.toml calls relevant"
FEW_BLOCKS = "pairs with too few valid blocks to judge their time"
HARMLESS = "pairs whose code changed in a way that matters, but whose GPU time did not"


@dataclass(frozen=True, slots=True)
class _Step:
    case: Case
    target: str
    before: Commit
    after: Commit
    unmeasured: int
    old: dict[str, TimingMeasurement]
    new: dict[str, TimingMeasurement]

    def has(self, variant: str) -> bool:
        return all(variant in side and side[variant].status is OK for side in (self.old, self.new))


def judge_timing(
    timings: list[TimingMeasurement],
    commits: list[Commit],
    roles: dict[str, Role],
    policy: TimingPolicy,
    target: str,
    codegen: Judgement,
) -> Judgement:
    """Findings of time, with the code's changes beside them, and the code's findings that no time settles.

    ``timings``: of one target and version. Machines are never mixed: each is its own series.
    """
    judgement = Judgement(counts=codegen.counts.copy())
    code = {(f.candidate, f.reference, f.case, f.before, f.after): f for f in codegen.findings}
    settled: set[str] = set()
    harmless: dict[str, bool] = {}
    for step in _steps(timings, commits, target):
        for candidate, reference in _pairs(roles):
            if not (step.has(candidate) and step.has(reference)):
                continue
            judgement.counts[TIMED] += 1
            moved = _moved(step, candidate, reference, policy, judgement.counts)
            if moved is None:
                continue
            wide = moved.candidate_change is not None and _is_wide(step, moved.candidate_change, policy)
            case = replace(step.case, n_ctx=None)
            behind = code.get((candidate, reference, case, step.before, step.after))
            if behind is not None:
                settled.add(behind.id)
                costs = wide or is_relevant(moved, policy)
                harmless[behind.id] = harmless.get(behind.id, True) and not costs
            if is_relevant(moved, policy):
                verdict = _verdict(moved, policy)
                judgement.findings.append(_finding(step, candidate, reference, moved, behind, verdict))
            elif wide:
                verdict = Verdict.COMPILER_WIDE
                judgement.findings.append(_finding(step, candidate, reference, moved, behind, verdict))
            else:
                judgement.counts[STEADY] += 1
    judgement.counts[HARMLESS] += sum(harmless.values())
    judgement.counts += Counter()  # drops zeros
    left = [f for f in codegen.findings if f.id not in settled]
    order = {c.commit: i for i, c in enumerate(commits)}
    judgement.findings = sorted([*left, *judgement.findings], key=lambda f: order[f.after.commit])
    return judgement


def _pairs(roles: dict[str, Role]) -> Iterator[tuple[str, str]]:
    for candidate in sorted(v for v, role in roles.items() if role is Role.CANDIDATE):
        for reference in sorted(v for v, role in roles.items() if role is Role.REFERENCE):
            yield candidate, reference


def _steps(timings: list[TimingMeasurement], commits: list[Commit], target: str) -> Iterator[_Step]:
    series: dict[tuple[str, Case], dict[str, dict[str, TimingMeasurement]]] = defaultdict(dict)
    for t in timings:
        series[t.machine, t.case].setdefault(t.commit, {})[t.variant] = t
    for (_, case), by_commit in sorted(series.items()):
        measured = [(i, c) for i, c in enumerate(commits) if c.commit in by_commit]
        for (i, before), (j, after) in pairwise(measured):
            yield _Step(
                case, target, before, after, j - i - 1, by_commit[before.commit], by_commit[after.commit]
            )


def _moved(
    step: _Step, candidate: str, reference: str, policy: TimingPolicy, counts: Counter[str]
) -> RatioChange | None:
    try:
        return ratio_change(
            step.old[candidate], step.old[reference], step.new[candidate], step.new[reference], policy
        )
    except ValueError:
        counts[FEW_BLOCKS] += 1
        return None


def _is_wide(step: _Step, candidate_change: float, policy: TimingPolicy) -> bool:
    """Whether all variants, controls too, moved the candidate's way by a relevant amount (their median).

    Both commits were timed side by side in one process, so the machine cannot have done it.
    """
    try:
        legs = [leg(step.old[v], step.new[v]) for v in step.old if step.has(v)]
    except ValueError:
        return False  # some variant has other blocks: not all can be compared
    alike = all((moved > 0) == (candidate_change > 0) for moved in legs)
    return alike and abs(statistics.median(legs)) >= policy.min_relative_change


def _verdict(moved: RatioChange, policy: TimingPolicy) -> Verdict:
    """Which leg moved decides; without legs (two sessions) the ratio alone does."""
    worse = moved.change > 0
    of_candidate, of_reference = moved.candidate_change, moved.reference_change
    if of_candidate is not None and of_reference is not None:
        candidate_moved = abs(of_candidate) >= policy.min_relative_change and (of_candidate > 0) == worse
        if not candidate_moved or abs(of_reference) > 2 * abs(of_candidate):
            return Verdict.REFERENCE_MOVED
    return Verdict.REGRESSION if worse else Verdict.IMPROVEMENT


def _finding(
    step: _Step,
    candidate: str,
    reference: str,
    moved: RatioChange,
    behind: Finding | None,
    verdict: Verdict,
) -> Finding:
    low, high = moved.interval
    words = [
        f"{candidate} takes {moved.ratio_after:.3f} of {reference}'s time, it took {moved.ratio_before:.3f} "
        f"({moved.change:+.1%}, 95 % interval {low:+.1%} to {high:+.1%})."
    ]
    if moved.candidate_change is not None and moved.reference_change is not None:
        legs = {candidate: moved.candidate_change, reference: moved.reference_change}
        words.append("; ".join(f"{name} alone: {leg:+.1%}" for name, leg in legs.items()) + ".")
    words.append(behind.explanation if behind else "No change of the code that matters by policy.toml.")
    return Finding(
        id=finding_id("timing", candidate, reference, step.case, step.target, step.before, step.after),
        verdict=verdict,
        evidence=("codegen", "timing") if behind else ("timing",),
        candidate=candidate,
        reference=reference,
        case=step.case,
        target=step.target,
        before=step.before,
        after=step.after,
        first_changed_stage=behind.first_changed_stage if behind else None,
        codegen_changes=behind.codegen_changes if behind else (),
        unmeasured_commits=step.unmeasured,
        explanation=" ".join(words),
        ratio_before=moved.ratio_before,
        ratio_after=moved.ratio_after,
        change=moved.change,
        interval=moved.interval,
        minimum_detectable_change=moved.minimum_detectable_change,
        candidate_change=moved.candidate_change,
    )
