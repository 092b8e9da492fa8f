"""Changes in a series as findings: numbers with their intervals, and words. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from scripts.tracker.changepoints import Shift
from scripts.tracker.legs import Change, Legs, Source
from scripts.tracker.model import Finding, Verdict
from scripts.tracker.series import FloatArray, Panel, middle
from scripts.tracker.steps import Place, finding_id, found

_Z95 = 1.96
# What name_suspects then leaves as it is.
CREPT = "no suspects: it crept there over all of these commits, and none of them is singled out"


@dataclass(frozen=True, slots=True)
class Seen:
    """A change, and what the series did before it.

    ``whole``: the logarithm that ``steps`` small steps, of which this is one, add up to. ``is_suspicion``:
    the last one or two values only. ``is_drift``: between the first and the newest level, at no one place.
    """

    change: Change
    shift: Shift
    earlier: list[Shift] = field(default_factory=list)
    whole: float | None = None
    steps: int = 0
    is_suspicion: bool = False
    is_drift: bool = False


@dataclass(frozen=True, slots=True)
class Noise:
    """Of a series. ``sigma``: of the logarithm of one value. ``least``: share that a change must have."""

    sigma: float
    least: float


def finding(
    panel: Panel, seen: Seen, legs: Legs, verdict: Verdict, why: str, noise: Noise, row: FloatArray
) -> Finding:
    """``row``: the logarithm of the pair's ratio, by commit."""
    change = seen.change
    before, after = _median(row, change.old), _median(row, change.new)
    size = after - before if change.source is Source.RATIO else legs.ratio
    half = _Z95 * seen.shift.error
    interval = math.expm1(size - half), math.expm1(size + half)
    own = math.expm1(legs.candidate - legs.shared)
    words = [
        f"{change.candidate} takes {math.exp(after):.3f} of {change.reference}'s time, it took "
        f"{math.exp(before):.3f} ({math.expm1(size):+.1%}, 95 % interval {interval[0]:+.1%} to "
        f"{interval[1]:+.1%}).",
        *_legs_in_words(change, legs, own),
        why,
        *_way_in_words(panel, seen),
        f"A change of less than {noise.least:.1%} would not be seen here.",
    ]
    base = _base(panel, panel, change, verdict, " ".join(words))
    if seen.is_drift:  # its newest commit is another with every commit, and it is still the same drift
        case, start = panel.cases[change.case], base.before
        of_start = finding_id("drift", change.candidate, change.reference, case, panel.target, start, start)
        base = replace(base, id=of_start, attribution=CREPT)
    return replace(
        base,
        ratio_before=math.exp(before),
        ratio_after=math.exp(after),
        change=math.expm1(size),
        interval=interval,
        minimum_detectable_change=noise.least,
        candidate_change=own,
    )


def unstable(panel: Panel, change: Change, row: FloatArray, turns: int, known: bool, noise: Noise) -> Finding:
    """Two values at random between the two commits."""
    values = row[slice(*change.old)]
    low, high = (math.exp(v) for v in np.nanpercentile(values, (10, 90)))
    code = (
        "although the machine code is the same" if known else "and whether the code was the same is not known"
    )
    words = (
        f"{change.candidate} takes {low:.3f} or {high:.3f} of {change.reference}'s time, as it comes: "
        f"{turns} turns in {int(np.isfinite(values).sum())} commits, {code}. Neither is a "
        "level that a commit could have changed."
    )
    found = _base(panel, panel, change, Verdict.UNSTABLE, words)
    return replace(found, minimum_detectable_change=noise.least)


def lost(panel: Panel, change: Change, level: FloatArray) -> Finding:
    """Timed before, no valid time now."""
    newest = level[change.case, :, change.at]
    pair = (change.candidate, change.reference)
    missing = [v for v in pair if not math.isfinite(newest[panel.variant(v)])]
    names = " and ".join(missing or pair)
    return _base(
        panel,
        panel,
        change,
        Verdict.NO_VALID_DATA,
        f"{names}: no valid time since {panel.commits[change.at].label} (failed, skipped, or every sample "
        "discarded), so nothing is known of it. It is not unchanged.",
    )


def moved_epoch(older: Panel, newer: Panel, change: Change, sizes: tuple[float, float]) -> Finding:
    """Another machine, driver or method, and other numbers: no commit's doing. ``change``: columns of the
    last commit of ``older`` and the first of ``newer``; ``sizes``: of the ratio, of the candidate alone."""
    ratio, own = (math.expm1(size) for size in sizes)
    return _base(
        older,
        newer,
        change,
        Verdict.ENVIRONMENT,
        f"A new epoch: {newer.epoch} instead of {older.epoch}. The ratio stands {ratio:+.1%} off, "
        f"{change.candidate} alone {own:+.1%}; times of different epochs are not compared, and no commit is "
        "blamed.",
    )


def count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _median(row: FloatArray, span: tuple[int, int]) -> float:
    return middle(row[slice(*span)])


def _legs_in_words(change: Change, legs: Legs, own: float) -> list[str]:
    over = "over the canaries" if legs.canaries is not None else "over the other variants"
    if legs.canaries is None and legs.witnesses is None:
        return ["Each alone is not known: no canary and no other variant was measured."]
    reference = math.expm1(legs.reference - legs.shared)
    canaries = "" if legs.canaries is None else f"; the canaries {math.expm1(legs.canaries):+.1%}"
    return [f"{change.candidate} alone, {over}: {own:+.1%}; {change.reference}: {reference:+.1%}{canaries}."]


def _way_in_words(panel: Panel, seen: Seen) -> list[str]:
    """What it is part of: a drift, a way of small steps, a recovery."""
    if seen.is_drift:
        return [
            "It crept there between the first and the newest commits, in steps too small to be told apart."
        ]
    words = []
    if seen.whole is not None:
        words.append(
            f"One of {count(seen.steps, 'small step')} that add up to {math.expm1(seen.whole):+.1%}."
        )
    opposite = [s for s in seen.earlier if s.size * seen.shift.size < 0]
    if opposite:
        last = opposite[-1]
        net = last.size + math.fsum(s.size for s in [*seen.earlier, seen.shift] if s.at > last.at)
        whole = abs(net) < abs(last.size) * 0.1
        words.append(
            f"It takes back {'all' if whole else 'part'} of the {math.expm1(last.size):+.1%} at "
            f"{panel.commits[last.at].label}: {math.expm1(net):+.1%} is left."
        )
    return words


def _base(older: Panel, newer: Panel, change: Change, verdict: Verdict, explanation: str) -> Finding:
    """A finding without numbers. Commits between whose value is not valid here count as not measured too."""
    case = newer.cases[change.case]
    before, after = older.commits[change.before], newer.commits[change.at]
    unmeasured = int(newer.positions[change.at] - older.positions[change.before]) - 1
    place = Place(case, newer.target, before, after, unmeasured)
    return found("timing", change.candidate, change.reference, verdict, explanation, place)
