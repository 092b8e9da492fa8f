"""GPU time between neighbouring measured commits: paired ratios with intervals. Pure.

Samples of one commit stand in block order: sample i of every variant was taken in block i of the same
session, so ratios are formed block by block and the drift of the machine cancels. Where both commits were
timed in one session, their ratios are paired too. The spread of blocks understates what a fresh process
adds, so the interval is widened by the session-to-session spread in policy.toml (measured A/A).
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

from scripts.tracker.model import TimingMeasurement
from scripts.tracker.policy import TimingPolicy

_Z95 = 1.96


@dataclass(frozen=True, slots=True)
class RatioChange:
    """How a candidate's ratio to a reference moved. Shares: 0.7 is 70 % slower than before.

    ``candidate_change`` and ``reference_change`` are the legs: each variant's own time after over before,
    minus one. Known within one session, or over the canaries of two (None otherwise: the machine may differ).
    """

    ratio_before: float
    ratio_after: float
    change: float
    interval: tuple[float, float]
    minimum_detectable_change: float
    candidate_change: float | None
    reference_change: float | None


def log_ratios(candidate: TimingMeasurement, reference: TimingMeasurement) -> list[float]:
    """log(candidate / reference), block by block. Raises ValueError if they are not of one session."""
    if candidate.session != reference.session or len(candidate.samples_s) != len(reference.samples_s):
        raise ValueError("a ratio needs two variants of one session, block by block")
    pairs = zip(candidate.samples_s, reference.samples_s, strict=True)
    return [math.log(c / r) for c, r in pairs]


def hodges_lehmann(values: list[float]) -> float:
    """Median of all pairwise means: as robust as the median, nearly as efficient as the mean
    (Hodges and Lehmann, 1963, Annals of Mathematical Statistics 34). Of more than 500 values, which no
    session takes, every n-th counts: the cost grows with their square."""
    values = values[:: 1 + len(values) // 500]
    return statistics.median((a + b) / 2 for i, a in enumerate(values) for b in values[i:])


def ratio_change(
    candidate_before: TimingMeasurement,
    reference_before: TimingMeasurement,
    candidate_after: TimingMeasurement,
    reference_after: TimingMeasurement,
    policy: TimingPolicy,
) -> RatioChange:
    """Compare a candidate's ratio before and after. Raises ValueError for too few blocks."""
    before = log_ratios(candidate_before, reference_before)
    after = log_ratios(candidate_after, reference_after)
    if min(len(before), len(after)) < policy.min_blocks:
        raise ValueError(f"{min(len(before), len(after))} valid blocks, {policy.min_blocks} are needed")
    one_session = candidate_before.session == candidate_after.session and len(before) == len(after)
    if one_session:
        differences = [b - a for a, b in zip(before, after, strict=True)]
        center = hodges_lehmann(differences)
        block_error = statistics.stdev(differences) / math.sqrt(len(differences))
    else:
        center = hodges_lehmann(after) - hodges_lehmann(before)
        block_error = math.hypot(*(statistics.stdev(x) / math.sqrt(len(x)) for x in (before, after)))
    half = _Z95 * math.hypot(block_error, policy.session_spread)
    return RatioChange(
        ratio_before=math.exp(hodges_lehmann(before)),
        # Of the paired change, so that the three figures agree; by itself it would differ in the third digit.
        ratio_after=math.exp(hodges_lehmann(before) + center),
        change=math.expm1(center),
        interval=(math.expm1(center - half), math.expm1(center + half)),
        minimum_detectable_change=max(math.expm1(half), policy.min_relative_change),
        candidate_change=leg(candidate_before, candidate_after) if one_session else None,
        reference_change=leg(reference_before, reference_after) if one_session else None,
    )


def leg(before: TimingMeasurement, after: TimingMeasurement) -> float:
    """A variant's own time, after over before, minus one. Raises ValueError unless of one session."""
    return math.expm1(hodges_lehmann(log_ratios(after, before)))


def is_relevant(moved: RatioChange, policy: TimingPolicy) -> bool:
    """Significant (the interval leaves zero out) and big enough to matter."""
    low, high = moved.interval
    return (low > 0 or high < 0) and abs(moved.change) >= policy.min_relative_change
