"""What is compared with what: neighbours among the measured commits, candidates against references."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

from scripts.tracker.model import (
    Case,
    CodegenMeasurement,
    Commit,
    Finding,
    MeasurementStatus,
    Role,
    TimingMeasurement,
    Verdict,
)

M = TypeVar("M", CodegenMeasurement, TimingMeasurement)


@dataclass(slots=True)
class Judgement:
    """Findings, a count of everything that was looked at and is no finding, and what else is to be said.
    ``expected``: what expected_changes.toml quiets, with the reason."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    expected: list[tuple[Finding, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where two commits are compared. ``unmeasured``: how many commits of the history lie between them."""

    case: Case
    target: str
    before: Commit
    after: Commit
    unmeasured: int


@dataclass(frozen=True, slots=True)
class Step(Place, Generic[M]):
    """One case and target at two neighbouring measured commits: measurements by variant."""

    old: dict[str, M]
    new: dict[str, M]

    def had(self, variant: str) -> bool:
        """Whether it was measured, and ok, at the older commit."""
        return variant in self.old and self.old[variant].status is MeasurementStatus.OK

    def has(self, variant: str) -> bool:
        """The same at the newer commit."""
        return variant in self.new and self.new[variant].status is MeasurementStatus.OK

    def on_both_sides(self) -> list[str]:
        """Variants, controls too, that can be compared."""
        return [variant for variant in self.old if self.had(variant) and self.has(variant)]


def steps(series: dict[tuple[str, str, Case], list[M]], commits: list[Commit]) -> Iterator[Step[M]]:
    """``series``: {(target, epoch, case): measurements}; what is in two of them is never compared.
    ``commits``: first-parent order, measured or not."""
    for (target, _, case), measurements in sorted(series.items()):
        by_commit: dict[str, dict[str, M]] = defaultdict(dict)
        for m in measurements:
            by_commit[m.commit][m.variant] = m
        measured = [(i, c) for i, c in enumerate(commits) if c.commit in by_commit]
        for (i, before), (j, after) in pairwise(measured):
            old, new = by_commit[before.commit], by_commit[after.commit]
            yield Step(case, target, before, after, j - i - 1, old, new)


def pairs(roles: dict[str, Role]) -> list[tuple[str, str]]:
    """Every candidate with every reference."""
    by_role = {role: sorted(v for v, of in roles.items() if of is role) for role in Role}
    return [(c, r) for c in by_role[Role.CANDIDATE] for r in by_role[Role.REFERENCE]]


def found(
    kind: str,
    candidate: str,
    reference: str,
    verdict: Verdict,
    explanation: str,
    place: Place,
) -> Finding:
    """A finding with its name and place and without numbers. ``kind``: codegen or timing."""
    return Finding(
        id=finding_id(kind, candidate, reference, place.case, place.target, place.before, place.after),
        verdict=verdict,
        evidence=(kind,),
        candidate=candidate,
        reference=reference,
        case=place.case,
        target=place.target,
        before=place.before,
        after=place.after,
        first_changed_stage=None,  # `stages` tells it
        codegen_changes=(),
        unmeasured_commits=place.unmeasured,
        explanation=explanation,
    )


def finding_id(
    kind: str, candidate: str, reference: str, case: Case, target: str, before: Commit, after: Commit
) -> str:
    """Stable over runs and machines. The verdict is not in it: when that changes, it is still the same
    finding, to be edited in place."""
    identity = "|".join((kind, candidate, reference, str(case), target, before.commit, after.commit))
    return hashlib.sha256(identity.encode()).hexdigest()[:12]
