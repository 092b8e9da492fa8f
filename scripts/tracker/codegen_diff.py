"""Exact differences of generated code between neighbouring measured commits, as findings.

For each case and target, each candidate is held against each reference. What moved in both the same way
is not the candidate's doing; what moved in one of them is, on its side. No statistics: a difference is a
difference. Pure: values in, values out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from scripts.tracker.model import (
    Case,
    CodegenChange,
    CodegenMeasurement,
    Commit,
    Finding,
    MeasurementStatus,
    Role,
    Verdict,
)
from scripts.tracker.policy import CodegenPolicy, CodegenRule
from scripts.tracker.steps import Judgement, Step, found, pairs, steps

OK = MeasurementStatus.OK
# How often each outcome came out, by the words that the summary prints.
SAME_CODE = "pairs of variants with identical machine code before and after"
IRRELEVANT = "pairs whose code changed, but nothing that matters by policy.toml"
NEW = "pairs measured for the first time (the operation is new or compiles again)"
ABSENT = "pairs with a variant that neither commit has"
COMPARED = "pairs compared"


@dataclass(frozen=True, slots=True)
class Moved:
    """A rule that fired for a variant: ``direction`` +1 worse, -1 better."""

    rule: CodegenRule
    direction: int
    before: float
    after: float

    @property
    def meaning(self) -> str:
        return self.rule.worse_words if self.direction > 0 else self.rule.better_words

    def change_of(self, variant: str) -> CodegenChange:
        return CodegenChange(variant, self.rule.metric, self.before, self.after, self.meaning)


def judge_codegen(
    measurements: list[CodegenMeasurement],
    commits: list[Commit],
    roles: dict[str, Role],
    policy: CodegenPolicy,
) -> Judgement:
    """Judge every step between neighbours among the measured commits.

    ``commits``: first-parent order, measured or not. ``roles``: of each variant (candidates are held
    against references; controls tell a change of the whole kernel from one of dQ's path).
    """
    series: dict[tuple[str, str, Case], list[CodegenMeasurement]] = defaultdict(list)
    for m in measurements:
        series[m.target, "", m.case].append(m)
    judgement = Judgement()
    for step in steps(series, commits):
        for candidate, reference in pairs(roles):
            finding = _judge_pair(step, candidate, reference, policy, judgement.counts)
            if finding is not None:
                judgement.findings.append(finding)
    return judgement


def _moved(step: Step[CodegenMeasurement], variant: str, policy: CodegenPolicy) -> list[Moved]:
    """Rules that fire for a variant, heaviest first; none unless it was measured on both sides."""
    old, new = step.old.get(variant), step.new.get(variant)
    if old is None or new is None or old.status is not OK or new.status is not OK:
        return []
    fired = []
    for rule in policy.rule:
        before, after = old.metrics.get(rule.metric), new.metrics.get(rule.metric)
        direction = rule.direction(before, after)
        if direction and before is not None and after is not None:
            fired.append(Moved(rule, direction, before, after))
    return fired


def _is_everywhere(moved: Moved, step: Step[CodegenMeasurement]) -> bool:
    """Whether every variant measured on both sides moved alike, controls included."""
    both = step.on_both_sides()
    return not any(_is_alone(moved, step, variant) for variant in both)


def _judge_pair(
    step: Step[CodegenMeasurement],
    candidate: str,
    reference: str,
    policy: CodegenPolicy,
    counts: Counter[str],
) -> Finding | None:
    counts[COMPARED] += 1
    lost = [v for v in (candidate, reference) if not step.has(v)]
    if lost and step.had(candidate) and step.had(reference):
        return _lost_finding(step, candidate, reference, lost)
    if lost:
        counts[ABSENT] += 1
        return None
    if not (step.had(candidate) and step.had(reference)):
        counts[NEW] += 1
        return None

    of_candidate = _moved(step, candidate, policy)
    of_reference = _moved(step, reference, policy)
    own = [m for m in of_candidate if _is_alone(m, step, reference)]
    theirs = [m for m in of_reference if _is_alone(m, step, candidate)]
    if own:
        verdict = Verdict.REGRESSION if own[0].direction > 0 else Verdict.IMPROVEMENT
    elif theirs:
        verdict = Verdict.REFERENCE_MOVED
    elif any(_is_everywhere(m, step) for m in of_candidate):
        verdict = Verdict.COMPILER_WIDE
    elif of_candidate:
        # Both moved alike but the controls did not: the comparison stands still, the candidate does not.
        verdict = Verdict.REGRESSION if of_candidate[0].direction > 0 else Verdict.IMPROVEMENT
    else:
        same = all(_same_code(step, variant) for variant in (candidate, reference))
        counts[SAME_CODE if same else IRRELEVANT] += 1
        return None
    return _finding(
        step,
        candidate,
        reference,
        verdict,
        [m.change_of(candidate) for m in of_candidate] + [m.change_of(reference) for m in of_reference],
        _explain(candidate, reference, of_candidate, of_reference),
    )


def _is_alone(moved: Moved, step: Step[CodegenMeasurement], other: str) -> bool:
    """Whether the other variant did not move alike: by more than the rule's threshold for shares of the
    whole kernel (9.9 % beside 10.1 % is the same change), at all for counts on dQ's path."""
    rule = moved.rule
    before, after = step.old[other].metrics.get(rule.metric), step.new[other].metrics.get(rule.metric)
    if before is None or after is None or rule.direction(before, after) != moved.direction:
        if not rule.min_relative_change or not moved.before or not before or after is None:
            return True
        share, others = moved.after / moved.before - 1, after / before - 1
        return abs(share - others) >= rule.min_relative_change
    return False


def _same_code(step: Step[CodegenMeasurement], variant: str) -> bool:
    old, new = step.old[variant].evidence, step.new[variant].evidence
    return old is not None and new is not None and old.identity == new.identity


def _lost_finding(step: Step[CodegenMeasurement], candidate: str, reference: str, lost: list[str]) -> Finding:
    """A variant that compiled before and does not now: nothing can be said about the pair."""
    reasons = []
    for variant in lost:
        measurement = step.new.get(variant)
        status = measurement.status.value if measurement else "not measured"
        message = measurement.evidence.message if measurement and measurement.evidence else None
        first_line = ((message or "").strip() or "no message in the evidence store").splitlines()[0]
        reasons.append(f"{variant} compiled at {step.before.label} and is {status} now: {first_line}.")
    return _finding(step, candidate, reference, Verdict.NO_VALID_DATA, [], " ".join(reasons))


def _explain(candidate: str, reference: str, of_candidate: list[Moved], of_reference: list[Moved]) -> str:
    sentences = []
    for variant, moved in ((candidate, of_candidate), (reference, of_reference)):
        what = "; ".join(f"{m.meaning} ({m.rule.metric} {m.before:g} -> {m.after:g})" for m in moved)
        what = what or "nothing that matters changed"
        sentences.append(f"{variant}: {what}.")
    if of_candidate and len({m.direction for m in of_candidate}) > 1:
        sentences.append("The first of these weighs most; others point the other way.")
    return " ".join(sentences)


def _finding(
    step: Step[CodegenMeasurement],
    candidate: str,
    reference: str,
    verdict: Verdict,
    changes: list[CodegenChange],
    explanation: str,
) -> Finding:
    bare = found("codegen", candidate, reference, verdict, explanation, step)
    return replace(bare, codegen_changes=tuple(changes))
