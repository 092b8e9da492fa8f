"""Is a suspicion real? Both sides' kernels timed again, in fresh processes, until the answer is known. Pure.

The unit of inference is the session, a process of its own: repeats within one share its luck. A session's
value is the Hodges-Lehmann estimate over its blocks of the difference of logarithms, both commits in each
block. Looking after every session would find something sooner or later, so each look is at the share
0.05 / looks of being wrong (Bonferroni), and a first session alone never decides.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Commit, Confirmation, Decision, Effect, Finding, Leg, Verdict
from scripts.tracker.policy import ConfirmPolicy, TimingPolicy
from scripts.tracker.session_files import SessionFile
from scripts.tracker.store import read_regular
from scripts.tracker.timing import hodges_lehmann

SCHEMA = 1
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+()-]{0,80}")
_ERROR = 0.05  # of the whole sequence of looks


class CannotCompareError(TrackerError):
    """A session whose kernels failed, or that was throttled: it says nothing."""


@dataclass(frozen=True, slots=True)
class Question:
    """A finding as something to be measured."""

    finding: str
    candidate: str
    reference: str
    before: Commit
    after: Commit
    of: str

    @classmethod
    def about(cls, finding: Finding) -> Question:
        """A claim about the candidate is checked on its own time, one about the reference on the ratio."""
        of = "ratio" if finding.verdict is Verdict.REFERENCE_MOVED else "time"
        return cls(finding.id, finding.candidate, finding.reference, finding.before, finding.after, of)


def confirm(
    question: Question, sessions: list[SessionFile], timing: TimingPolicy, policy: ConfirmPolicy
) -> Confirmation:
    """Judge the sessions so far. Raises CannotCompareError if one of them holds no comparison."""
    for session in sessions:
        if session.status != "ok":
            raise CannotCompareError(f"{session.status}: {session.note}; wait for the GPU to cool down")
    z = statistics.NormalDist().inv_cdf(1 - _ERROR / (2 * policy.max_sessions))
    names = list(dict.fromkeys(s.variant for s in sessions[0].subjects))
    legs = []
    for variant in names:
        found = [_difference(session, question, variant) for session in sessions]
        logs = [log for log in found if log is not None]
        if len(logs) == len(sessions):
            legs.append(_leg(variant, sessions, question, _effect(logs, z, timing)))
    by_name = {leg.variant: leg for leg in legs}
    missing = [v for v in (question.candidate, question.reference) if v not in by_name]
    if missing:
        raise CannotCompareError(f"{', '.join(missing)}: {_why(sessions, question, missing[0])}")
    ratios = []
    for session in sessions:
        candidate = _difference(session, question, question.candidate)
        reference = _difference(session, question, question.reference)
        if candidate is not None and reference is not None:
            ratios.append([a - b for a, b in zip(candidate, reference, strict=True)])
    ratio = _effect(ratios, z, timing)
    asked = ratio if question.of == "ratio" else by_name[question.candidate].effect
    decision, reason = _decide(asked, len(sessions), policy)
    device = sessions[0].device
    return Confirmation(
        schema=SCHEMA,
        finding=question.finding,
        decision=decision,
        of=question.of,
        reason=reason,
        ratio=ratio,
        legs=tuple(legs),
        sessions=len(sessions),
        gpu=device.gpu,
        driver=device.driver,
        started_at=sessions[0].started_at.isoformat(),
    )


def _decide(asked: Effect, sessions: int, policy: ConfirmPolicy) -> tuple[Decision, str]:
    least = policy.min_relative_change
    if sessions < policy.min_sessions:
        return Decision.UNKNOWN, f"{sessions} session; {policy.min_sessions} are needed"
    if (asked.low > 0 or asked.high < 0) and abs(asked.change) >= least:
        return Decision.DIFFERENT, f"the interval leaves zero out, and the change is {least:.1%} or more"
    if -least < asked.low and asked.high < least:
        return Decision.SAME, f"the whole interval is within {least:.1%}"
    return Decision.UNKNOWN, "the interval does not decide yet"


def _effect(sessions: list[list[float]], z: float, timing: TimingPolicy) -> Effect:
    """``sessions``: each one's differences of logarithms, block by block. Never narrower than sessions are
    known to scatter: two that happen to agree prove nothing."""
    center = statistics.mean(hodges_lehmann(logs) for logs in sessions)
    within = statistics.mean(statistics.variance(logs) / len(logs) for logs in sessions)
    half = z * math.sqrt((within + timing.session_spread**2) / len(sessions))
    return Effect(math.expm1(center), math.expm1(center - half), math.expm1(center + half))


def _leg(variant: str, sessions: list[SessionFile], question: Question, effect: Effect) -> Leg:
    before_s, after_s = (
        statistics.median(t for session in sessions for t in _samples(session, commit, variant) or [])
        for commit in (question.before, question.after)
    )
    kernels = [_kernels(sessions[0], c, variant) for c in (question.before, question.after)]
    return Leg(variant, before_s, after_s, effect, (kernels[0], kernels[1]))


def _kernels(session: SessionFile, commit: Commit, variant: str) -> tuple[str, ...]:
    return next(
        tuple(s.identity) for s in session.subjects if (s.commit, s.variant) == (commit.commit, variant)
    )


def _difference(session: SessionFile, question: Question, variant: str) -> list[float] | None:
    """log(after / before), block by block; None if one of them was not timed."""
    before, after = (_samples(session, c, variant) for c in (question.before, question.after))
    if not before or not after or len(before) < 2:
        return None
    return [math.log(a / b) for a, b in zip(after, before, strict=True)]


def _samples(session: SessionFile, commit: Commit, variant: str) -> list[float] | None:
    for subject in session.subjects:
        if (subject.commit, subject.variant) == (commit.commit, variant) and subject.status == "ok":
            return session.samples(subject, "kernel")
    return None


def _why(sessions: list[SessionFile], question: Question, variant: str) -> str:
    for session in sessions:
        for subject in session.subjects:
            if subject.variant == variant and subject.status != "ok":
                return f"{subject.status} at {subject.label}: {subject.message}"
    return "not in the session"


def read_confirmations(folder: Path) -> dict[str, Confirmation]:
    """{finding: answer} of a folder, which need not exist. Raises TrackerError naming a damaged file."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            answer = msgspec.json.decode(read_regular(path, 2**20), type=Confirmation)
            if answer.schema != SCHEMA:
                raise ValueError(f"schema {answer.schema}, this program reads {SCHEMA}")
            if answer.finding != path.stem or not answer.legs or answer.sessions < 1:
                raise ValueError("not of the finding in its name, without legs, or of no session")
            if not all(_is_sound(effect) for effect in (answer.ratio, *(leg.effect for leg in answer.legs))):
                raise ValueError("an effect that is no interval around its change")
            if not all(_PLAIN.fullmatch(word) for word in (answer.gpu, answer.driver)):
                raise ValueError("its GPU or driver is no plain name")
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            raise TrackerError(f"{path}: not an answer of scripts.confirm ({error}); delete it") from error
        found[answer.finding] = answer
    return found


def _is_sound(effect: Effect) -> bool:
    values = (effect.low, effect.change, effect.high)
    return all(map(math.isfinite, values)) and effect.low <= effect.change <= effect.high


def with_confirmations(
    findings: list[Finding], answers: dict[str, Confirmation], kernels: Callable[..., tuple[str, ...] | None]
) -> list[Finding]:
    """``kernels(commit, variant, case)``: identities of today's code, None if unknown. An answer about other
    kernels, of earlier sources, says nothing of a finding."""

    def is_current(finding: Finding, answer: Confirmation) -> bool:
        case = replace(finding.case, n_ctx=None)
        pairs = [(leg.variant, leg.kernels) for leg in answer.legs]
        return all(
            kernels(commit.commit, variant, case) in (None, identity)
            for variant, both in pairs
            for commit, identity in zip((finding.before, finding.after), both, strict=True)
        )

    return [
        replace(f, confirmation=answers[f.id]) if f.id in answers and is_current(f, answers[f.id]) else f
        for f in findings
    ]
