"""Findings of GPU time between neighbouring timed commits. Pure.

A pair whose code changed and whose time was measured is judged by the time: the exact code difference
then explains the finding, or is counted as a change that costs nothing.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

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
from scripts.tracker.shared_time import Codes, timed_steps
from scripts.tracker.steps import Judgement, Step, found, pairs
from scripts.tracker.timing import RatioChange, hodges_lehmann, is_relevant, leg, log_ratios, ratio_change

OK = MeasurementStatus.OK
TIMED = "pairs timed on the GPU"
STEADY = "pairs timed whose ratio did not move by what policy.toml calls relevant"
FEW_BLOCKS = "pairs with too few valid blocks to judge their time"
# A control that moved at least half as far as the candidate explains it: it has no write of dQ to slow down.
_CONTROLS_SHARE = 0.5
_WORDS = {
    True: "The code of both changed in nothing that matters by policy.toml.",
    False: "The code was not compiled here for both commits: make track does.",
}
NOT_TIMED = "pairs timed before that the newer session skipped"
HARMLESS = "pairs whose code changed in a way that matters, but whose GPU time did not"


def judge_timing(
    timings: list[TimingMeasurement],
    commits: list[Commit],
    roles: dict[str, Role],
    policy: TimingPolicy,
    target: str,
    codegen: Judgement,
    compiled: set[tuple[str, str, Case]],
    between_timed: Sequence[Finding] = (),
    codes: Codes | None = None,
) -> Judgement:
    """Findings of time, with the code's changes beside them, and the code's findings that no time settles.

    ``timings``: of one target and version. Epochs are never mixed: each is its own series.
    ``codegen``: of all targets, of which only this one's explains a time. ``compiled``: (commit, variant,
    case) whose code was looked at, so that "nothing changed in the code" is said of no other.
    ``between_timed``: findings of the code of timed commits that have others, compiled only, between them:
    the time's change is explained by all that changed on the way. ``codes``: by which commits share what
    was timed; see `shared_time`.
    """
    judgement = Judgement(counts=codegen.counts.copy())
    findings = [f for f in (*between_timed, *codegen.findings) if f.target == target]
    code = {(f.candidate, f.reference, f.case, f.before, f.after): f for f in findings}
    settled: set[str] = set()
    harmless: dict[str, bool] = {}
    for step in timed_steps(timings, commits, target, codes or {}):
        both = step.on_both_sides()
        for candidate, reference in pairs(roles):
            if candidate not in both or reference not in both:
                if step.had(candidate) and step.had(reference):
                    if _has_failed(step, candidate) or _has_failed(step, reference):
                        judgement.findings.append(_lost(step, candidate, reference))
                    else:
                        judgement.counts[NOT_TIMED] += 1
                continue
            judgement.counts[TIMED] += 1
            moved = _moved(step, candidate, reference, policy, judgement.counts)
            if moved is None:
                continue
            moved = _with_legs(step, candidate, reference, roles, moved)
            verdict = _verdict(step, roles, moved, policy)
            case = replace(step.case, n_ctx=None)
            behind = code.get((candidate, reference, case, step.before, step.after))
            # What waits for another session settles nothing: the code's own finding stays beside it.
            if behind is not None and not (verdict and _waits(step, candidate, verdict)):
                settled.add(behind.id)
                harmless[behind.id] = harmless.get(behind.id, True) and verdict is None
            if verdict is None:
                judgement.counts[STEADY] += 1
                continue
            looked_at = all(
                (commit.commit, v, case) in compiled
                for commit in (step.before, step.after)
                for v in (candidate, reference)
            )
            of_code = _WORDS[looked_at] if behind is None else behind.explanation
            judgement.findings.append(_finding(step, candidate, reference, moved, behind, verdict, of_code))
    judgement.counts[HARMLESS] += sum(harmless.values())
    judgement.counts += Counter()  # drops zeros
    left = [f for f in codegen.findings if f.id not in settled]
    order = {c.commit: i for i, c in enumerate(commits)}
    judgement.findings = sorted([*left, *judgement.findings], key=lambda f: order[f.after.commit])
    return judgement


def _has_failed(step: Step[TimingMeasurement], variant: str) -> bool:
    """Asked for and not there, unlike one that is skipped: a session may time some variants only."""
    return variant in step.new and step.new[variant].status is MeasurementStatus.FAILED


def _lost(step: Step[TimingMeasurement], candidate: str, reference: str) -> Finding:
    """A pair that had GPU time and has none now: missing is never "no change"."""
    reasons = []
    for variant in (candidate, reference):
        if not step.has(variant):
            now = step.new.get(variant)
            status = "was not timed" if now is None else f"has no valid GPU time ({now.status.value})"
            reasons.append(f"{variant} was timed at {step.before.label} and {status} at {step.after.label}.")
    return found("timing", candidate, reference, Verdict.NO_VALID_DATA, " ".join(reasons), step)


def _moved(
    step: Step[TimingMeasurement], candidate: str, reference: str, policy: TimingPolicy, counts: Counter[str]
) -> RatioChange | None:
    try:
        return ratio_change(
            step.old[candidate], step.old[reference], step.new[candidate], step.new[reference], policy
        )
    except ValueError:
        counts[FEW_BLOCKS] += 1
        return None


def _with_legs(
    step: Step[TimingMeasurement], candidate: str, reference: str, roles: dict[str, Role], moved: RatioChange
) -> RatioChange:
    """The legs of two sessions, where canaries of both make them known."""
    if moved.candidate_change is not None:
        return moved
    legs = [_leg(step, variant, roles) for variant in (candidate, reference)]
    return replace(moved, candidate_change=legs[0], reference_change=legs[1])


def _leg(step: Step[TimingMeasurement], variant: str, roles: dict[str, Role]) -> float | None:
    """A variant's own time, after over before, minus one: side by side in one session, or over the canaries
    of two. None if neither is there."""
    old, new = step.old[variant], step.new[variant]
    canaries = [v for v in step.on_both_sides() if roles.get(v) is Role.CANARY]
    try:
        if old.session == new.session:
            return leg(old, new)
        over = [
            hodges_lehmann(log_ratios(new, step.new[v])) - hodges_lehmann(log_ratios(old, step.old[v]))
            for v in canaries
        ]
    except ValueError:
        return None  # of another session or with other blocks: cannot tell
    return math.expm1(statistics.fmean(over)) if over else None


def _verdict(
    step: Step[TimingMeasurement], roles: dict[str, Role], moved: RatioChange, policy: TimingPolicy
) -> Verdict | None:
    """Which leg moved decides; None if neither the candidate nor the ratio moved by a relevant amount.

    Within one session both commits ran side by side in one process, and over two the canaries take the
    machine out: so a leg is the compiler's doing. Without legs there is only the ratio. What two single
    sessions say waits for a third.
    """
    own, relevant = moved.candidate_change, is_relevant(moved, policy)
    if own is None:
        if not relevant:
            return None
        return Verdict.REGRESSION if moved.change > 0 else Verdict.IMPROVEMENT
    if abs(own) < policy.min_relative_change:
        if relevant:
            return Verdict.REFERENCE_MOVED
        return Verdict.ENVIRONMENT if _canaries_moved(step, roles, policy) else None
    if _controls_moved_too(step, roles, own):
        return Verdict.COMPILER_WIDE
    if relevant and (moved.change > 0) != (own > 0):
        return Verdict.REFERENCE_MOVED  # it moved the same way, and farther
    return Verdict.REGRESSION if own > 0 else Verdict.IMPROVEMENT


def _waits(step: Step[TimingMeasurement], candidate: str, verdict: Verdict) -> bool:
    """Whether it needs confirmation: one session a side may be all wrong, however often it repeats itself."""
    return step.old[candidate].session != step.new[candidate].session and verdict is not Verdict.ENVIRONMENT


def _controls_moved_too(step: Step[TimingMeasurement], roles: dict[str, Role], own: float) -> bool:
    """Whether every control moved the candidate's way, at least half as far: then it is not about dQ."""
    controls = [v for v in step.on_both_sides() if roles.get(v) is Role.CONTROL]
    legs = [_leg(step, v, roles) for v in controls]
    return bool(legs) and all(moved is not None and moved / own >= _CONTROLS_SHARE for moved in legs)


def _canaries_moved(step: Step[TimingMeasurement], roles: dict[str, Role], policy: TimingPolicy) -> bool:
    """Whether what no Triton commit can change moved by a relevant amount: then the machine did."""
    sides = [
        [
            math.log(statistics.median(side[v].samples_s))
            for v in step.on_both_sides()
            if roles.get(v) is Role.CANARY
        ]
        for side in (step.old, step.new)
    ]
    if not sides[0]:
        return False
    return (
        abs(math.expm1(statistics.fmean(sides[1]) - statistics.fmean(sides[0]))) >= policy.min_relative_change
    )


def _finding(
    step: Step[TimingMeasurement],
    candidate: str,
    reference: str,
    moved: RatioChange,
    behind: Finding | None,
    verdict: Verdict,
    of_code: str,
) -> Finding:
    low, high = moved.interval
    words = [
        f"{candidate} takes {moved.ratio_after:.3f} of {reference}'s time, it took {moved.ratio_before:.3f} "
        f"({moved.change:+.1%}, 95 % interval {low:+.1%} to {high:+.1%})."
    ]
    if moved.candidate_change is not None and moved.reference_change is not None:
        legs = {candidate: moved.candidate_change, reference: moved.reference_change}
        words.append("; ".join(f"{name} alone: {leg:+.1%}" for name, leg in legs.items()) + ".")
    if _waits(step, candidate, verdict):
        stands = verdict.value.replace("_", " ")
        words.append(
            f"Two sessions, one each: as it stands {stands}, to be repeated side by side before it is told."
        )
        verdict = Verdict.PENDING
    if verdict is Verdict.ENVIRONMENT:
        words.append("The canaries, which no Triton commit can change, moved: the machine did.")
    words.append(of_code)
    return replace(
        found("timing", candidate, reference, verdict, " ".join(words), step),
        evidence=("codegen", "timing") if behind else ("timing",),
        codegen_changes=behind.codegen_changes if behind else (),
        ratio_before=moved.ratio_before,
        ratio_after=moved.ratio_after,
        change=moved.change,
        interval=moved.interval,
        minimum_detectable_change=moved.minimum_detectable_change,
        candidate_change=moved.candidate_change,
    )
