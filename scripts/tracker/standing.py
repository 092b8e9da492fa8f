"""How well a group of findings stands: confirmed, exact, only suspected, refuted or over. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from scripts.tracker.groups import FindingGroup
from scripts.tracker.model import Commit, Confirmation, Decision, Finding, Verdict
from scripts.tracker.policy import CommentPolicy, Policy
from scripts.tracker.recovery import Measured, recovered_at


class State(StrEnum):
    """SUSPECTED says nothing to anybody; the last two only where something was said before."""

    CONFIRMED = "confirmed in other sessions"
    EXACT = "exact: read from the compiled code"
    SUSPECTED = "suspected, not confirmed"
    NOT_REPRODUCED = "not reproduced"
    RECOVERED = "recovered"


@dataclass(frozen=True, slots=True)
class Standing:
    """``answers``: what `scripts.confirm` found for findings of the first verdict. ``recovered``: since
    which commit."""

    state: State
    answers: tuple[Confirmation, ...] = ()
    recovered: Commit | None = None

    @property
    def may_be_said(self) -> bool:
        return self.state in (State.CONFIRMED, State.EXACT)


def group_key(group: FindingGroup) -> str:
    """A group's name over runs and machines; not in it are labels and verdicts, which may change."""
    parts = (group.candidate, group.target, group.before.commit, group.after.commit)
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def standing(
    group: FindingGroup, answers: Mapping[str, Confirmation], measured: Measured, policy: Policy
) -> Standing:
    """What may be claimed. An answer of other sessions outweighs everything: they were asked to check."""
    findings = group.of(group.verdict)
    asked = {f.id: answers[f.id] for f in findings if f.id in answers}
    found = tuple(asked.values())
    agree = [_agrees(f, asked[f.id], policy.comment) for f in findings if f.id in asked]
    if any(agree):
        state = State.CONFIRMED
    elif any(said is False for said in agree):
        state = State.NOT_REPRODUCED
    elif any(_is_exact(f, policy.comment) for f in findings):
        state = State.EXACT
    else:
        state = State.SUSPECTED
    if state in (State.CONFIRMED, State.EXACT) and (since := recovered_at(group, measured, policy)):
        return Standing(State.RECOVERED, found, since)
    return Standing(state, found)


def _agrees(finding: Finding, answer: Confirmation, policy: CommentPolicy) -> bool | None:
    """Whether other sessions say the same. None: they do not know, or are too few. A change the other way
    is no confirmation."""
    if answer.decision is Decision.SAME:
        return False
    if answer.decision is Decision.UNKNOWN or answer.sessions < policy.min_sessions:
        return None
    claimed = finding.change if answer.of == "ratio" else finding.candidate_change
    if claimed is None:
        claimed = {Verdict.REGRESSION: 1.0, Verdict.IMPROVEMENT: -1.0}.get(finding.verdict)
    seen = effect_of(finding, answer)
    return claimed is None or (seen is not None and (seen > 0) == (claimed > 0))


def effect_of(finding: Finding, answer: Confirmation) -> float | None:
    """The change that was asked about, as the sessions saw it."""
    if answer.of == "ratio":
        return answer.ratio.change
    return next((leg.effect.change for leg in answer.legs if leg.variant == finding.candidate), None)


def _is_exact(finding: Finding, policy: CommentPolicy) -> bool:
    """Whether the compiled code alone says it: a count of the policy moved, or it does not compile."""
    if finding.verdict is Verdict.NO_VALID_DATA:
        return True
    subject = finding.reference if finding.verdict is Verdict.REFERENCE_MOVED else finding.candidate
    return any(c.variant == subject and c.metric in policy.exact_metrics for c in finding.codegen_changes)
