"""A finding's ratio over commits, as what a Mermaid chart wants. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scripts.tracker.groups import FindingGroup
from scripts.tracker.model import Finding
from scripts.tracker.recovery import Measured, RatioPoint, ratios

_MOST_POINTS = 20  # more do not fit the width of a comment
_LABEL = re.compile(r"[A-Za-z0-9._+-]{1,40}")


@dataclass(frozen=True, slots=True)
class Chart:
    """``labels`` and ``values``: in Mermaid's syntax, so nothing in them is other people's text."""

    candidate: str
    reference: str
    case: str
    labels: str
    values: str
    points: tuple[RatioPoint, ...]


def chart_of(group: FindingGroup, measured: Measured) -> Chart | None:
    """Of the finding that moved most; None where there is nothing to draw."""
    finding = worst_of(group)
    points = _around(finding, ratios(finding, measured)) if finding else []
    words = [p.commit.label for p in points]
    if finding is None or len(points) < 2 or not all(map(_LABEL.fullmatch, words)):
        return None
    return Chart(
        candidate=finding.candidate,
        reference=finding.reference,
        case=str(finding.case),
        labels=", ".join(f'"{word}"' for word in words),
        values=", ".join(f"{p.ratio:.3f}" for p in points),
        points=tuple(points),
    )


def worst_of(group: FindingGroup) -> Finding | None:
    """The timed finding of the first verdict that moved most."""
    timed = [f for f in group.of(group.verdict) if f.change is not None]
    return max(timed, key=lambda f: abs(f.candidate_change or f.change or 0.0), default=None)


def _around(finding: Finding, points: list[RatioPoint]) -> list[RatioPoint]:
    """So many points that they fit, with the finding's own among them."""
    places = [i for i, p in enumerate(points) if p.commit.commit == finding.after.commit]
    if not places:
        return []
    first = max(0, min(places[0] - _MOST_POINTS // 2, len(points) - _MOST_POINTS))
    return points[first : first + _MOST_POINTS]
