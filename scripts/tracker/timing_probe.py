"""Asks a commit whether a change of GPU time is there already: its kernels beside those of the older end, in
fresh sessions. For findings that no metric of the code explains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scripts.tracker.bisection import Answer, Probe, Probed
from scripts.tracker.confirmation import Question
from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import AsvHarness, record_failure
from scripts.tracker.model import Commit, Confirmation, Decision, Finding, VariantFacts
from scripts.tracker.policy import ConfirmPolicy
from scripts.tracker.request import Request, make_request

# A commit has the change if its effect is nearer to the whole one than to none.
_NEAR_SHARE = 0.5


def timing_probe(
    finding: Finding,
    effect: float,
    harness: AsvHarness,
    variants: dict[str, VariantFacts],
    policy: ConfirmPolicy,
    measure: Callable[[Request], Confirmation],
) -> Probe:
    """``effect``: what the finding claims, as a share. ``measure``: runs a request on the GPU."""

    def ask(commit: Commit, fresh: bool) -> Probed:
        if not harness.is_done(commit.commit):
            failure = harness.measure(commit, lambda records: None)
            record_failure(harness.workspace.results, harness.target, commit.commit, failure)
            if failure is not None:
                return Probed(Answer.SKIPPED, f"cannot be measured: {failure.reason}")
        if commit == finding.before:
            return Probed(Answer.OLD, "the older end itself")
        # The newer end is always asked: a change that does not show there again has no culprit.
        for side, answer in ((finding.before, Answer.OLD), (finding.after, Answer.NEW)):
            if not fresh and commit != finding.after and _same_kernels(harness, finding, commit, side):
                return Probed(answer, f"the machine code of {side.label}")
        try:
            request = make_request(
                replace(finding, after=commit), harness.workspace.evidence, variants, policy
            )
            return _answer(measure(request), effect)
        except TrackerError as error:
            return Probed(Answer.SKIPPED, f"cannot be timed: {error}")

    return Probe(ask, lambda commit: not harness.is_done(commit.commit))


def claimed_effect(finding: Finding) -> float:
    """The change that is looked for: of the candidate's own time, or of the ratio where that is the claim.
    Raises TrackerError for a finding without GPU time."""
    of_ratio = Question.about(finding).of == "ratio" or finding.candidate_change is None
    effect = finding.change if of_ratio else finding.candidate_change
    if effect is None:
        raise TrackerError(f"finding {finding.id} has no GPU time to be looked for")
    return effect


def _answer(found: Confirmation, effect: float) -> Probed:
    asked = found.asked
    seen = f"{asked.change:+.1%} ({asked.low:+.1%} to {asked.high:+.1%}), {found.decision}"
    if found.decision is Decision.UNKNOWN:
        return Probed(Answer.SKIPPED, seen)
    is_there = found.decision is Decision.DIFFERENT and asked.change / effect >= _NEAR_SHARE
    return Probed(Answer.NEW if is_there else Answer.OLD, seen)


def _same_kernels(harness: AsvHarness, finding: Finding, commit: Commit, side: Commit) -> bool:
    """Whether candidate and reference are, bit for bit, those of an end: then the GPU need not be asked."""
    case = replace(finding.case, n_ctx=None)
    evidence = harness.workspace.evidence
    for variant in (finding.candidate, finding.reference):
        ours, theirs = (evidence.load(finding.target, c.commit, case, variant) for c in (commit, side))
        if ours is None or theirs is None or ours.status != "ok" or ours.identity != theirs.identity:
            return False
    return True
