"""Which leg of a changed comparison moved, and so whose doing it is. Pure.

A session's own speed is in every time, so a leg is only known against something that no Triton commit can
change: the canaries of the same sessions. Without them the other variants are the witnesses, and whether
the machine or the whole compiler became slower cannot be told; that is said, not guessed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from scripts.tracker.model import Role, Verdict
from scripts.tracker.series import UNKNOWN_CODE, FloatArray, Panel, median

# Who moved at least half as far explains the rest.
_SHARE = 0.5


class Source(Enum):
    """Which series showed a change: the pair's ratio, the candidate's own time over the canaries, alone where
    there are none, or the canaries'."""

    RATIO = "ratio"
    OWN = "own"
    ALONE = "alone"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Change:
    """A pair of one case at two times: columns of the old level and of the new one (first, end).

    The change lies after ``before`` and not after ``at`` (columns of the panel's commits).
    """

    case: int
    candidate: str
    reference: str
    before: int
    at: int
    old: tuple[int, int]
    new: tuple[int, int]
    source: Source


@dataclass(frozen=True, slots=True)
class Legs:
    """How far each moved, as differences of logarithms of time. ``canaries``: None if none was measured."""

    candidate: float
    reference: float
    controls: tuple[float, ...]
    canaries: float | None
    witnesses: float | None
    same_candidate: bool
    same_reference: bool

    @property
    def ratio(self) -> float:
        return self.candidate - self.reference

    @property
    def shared(self) -> float:
        """What the machine did to all: by the canaries, else by the other variants, else unknown and 0."""
        if self.canaries is not None:
            return self.canaries
        return self.witnesses if self.witnesses is not None else 0.0


def legs_of(panel: Panel, level: FloatArray, change: Change, roles: dict[str, Role]) -> Legs:
    """``level``: of every variant at every commit, [case, variant, commit]."""
    old, new = (median(level[change.case, :, slice(*span)]) for span in (change.old, change.new))
    moved = dict(zip(panel.variants, (new - old).tolist(), strict=True))
    known = {v: size for v, size in moved.items() if v in roles and not math.isnan(size)}
    pair = (change.candidate, change.reference)
    canaries = [known[v] for v in panel.canaries if v in known]
    witnesses = [size for v, size in known.items() if v not in pair and v not in panel.canaries]
    return Legs(
        candidate=known.get(change.candidate, 0.0),
        reference=known.get(change.reference, 0.0),
        controls=tuple(size for v, size in known.items() if roles[v] is Role.CONTROL),
        canaries=float(np.mean(canaries)) if canaries else None,
        witnesses=float(np.median(witnesses)) if witnesses else None,
        same_candidate=same_code(panel, change, change.candidate),
        same_reference=same_code(panel, change, change.reference),
    )


def same_code(panel: Panel, change: Change, variant: str) -> bool:
    """Whether a variant's kernels are known to be the same on both sides."""
    before, after = panel.codes[change.case, panel.variant(variant), [change.before, change.at]]
    return bool(before == after != UNKNOWN_CODE)


def verdict_of(legs: Legs, change: Change) -> tuple[Verdict, str]:
    """Whose doing it is, with the reason in words. Says nothing of how sure it is."""
    if legs.same_candidate and legs.same_reference:
        return Verdict.ENVIRONMENT, (
            "The machine code of both is the same before and after, so no commit did it: measure again."
        )
    if change.source is Source.MACHINE:
        return (
            Verdict.ENVIRONMENT,
            "The canaries, which no Triton commit can change, moved: the machine changed.",
        )
    in_ratio = change.source is Source.RATIO
    # Its own time, without canaries, is not known but for the machine's.
    known = in_ratio or legs.canaries is not None
    if known and is_the_machine(legs, legs.ratio if in_ratio else legs.candidate - legs.shared):
        return Verdict.ENVIRONMENT, (
            f"Everything in the sessions moved by {math.expm1(legs.shared):+.1%} at the same place, and "
            "variants follow that a little differently: the machine changed."
        )
    return _of_ratio(legs) if in_ratio else _of_own_time(legs)


def is_the_machine(legs: Legs, size: float) -> bool:
    """Whether the machine moved so much farther at the same place that the change may be its shadow."""
    return abs(size) < _SHARE * abs(legs.shared)


def _of_ratio(legs: Legs) -> tuple[Verdict, str]:
    own, reference = legs.candidate - legs.shared, legs.reference - legs.shared
    if abs(own) < _SHARE * abs(legs.ratio) or own * legs.ratio < 0 or legs.same_candidate:
        if legs.same_reference or abs(reference) < _SHARE * abs(legs.ratio):
            return Verdict.ENVIRONMENT, (
                "What moved has the same machine code before and after, so no commit did it: measure again."
            )
        return Verdict.REFERENCE_MOVED, "The reference moved, the candidate did not."
    if legs.canaries is not None and _controls_follow(legs, own):
        return Verdict.COMPILER_WIDE, "The controls moved with it and the canaries did not."
    return _by_sign(own), "The candidate moved."


def _of_own_time(legs: Legs) -> tuple[Verdict, str]:
    if legs.same_candidate:
        return Verdict.ENVIRONMENT, (
            "The candidate's machine code is the same before and after, so no commit did it: measure again."
        )
    own = legs.candidate - (legs.canaries or 0.0)
    if legs.canaries is not None and abs(legs.candidate) < _SHARE * abs(own):
        return Verdict.ENVIRONMENT, "The canaries moved and the candidate did not."
    if not _controls_follow(legs, own):
        return _by_sign(own), "The candidate and the references moved alike, the controls did not."
    if legs.canaries is None:
        return Verdict.PENDING, (
            "Every variant moved alike. Machine or compiler? No canary was measured, so nobody can tell: "
            "repeat the session with canaries."
        )
    return Verdict.COMPILER_WIDE, "Every variant moved, the controls too; the canaries did not."


def _controls_follow(legs: Legs, own: float) -> bool:
    """Whether every control moved the candidate's way, at least half as far. Without controls: unknown,
    and taken as if, because the candidate must not be accused for it."""
    base = legs.canaries or 0.0
    if not legs.controls:
        return legs.canaries is None
    return all((size - base) / own >= _SHARE for size in legs.controls)


def _by_sign(size: float) -> Verdict:
    return Verdict.REGRESSION if size > 0 else Verdict.IMPROVEMENT
