"""What is open now: a finding stands until the ratio came back, or until one that goes the other way."""

from dataclasses import replace

import pytest
from builders import COMMITS, HD64, finding

from scripts.pages.health import Standing, standings
from scripts.tracker.model import Finding, Verdict

PAIR = ("atomic_add", "inline_asm")
LATER = {"before": COMMITS[1], "after": COMMITS[2]}


def stands(findings: list[Finding], newest: float | None = None) -> Standing:
    ratios = {(*PAIR, HD64): newest} if newest is not None else {}
    [found] = standings([PAIR], findings, ratios, COMMITS)
    return found


def regression(before: float | None = 1.0, after: float | None = 2.0) -> Finding:
    return replace(finding(Verdict.REGRESSION), ratio_before=before, ratio_after=after)


@pytest.mark.parametrize(
    ("newest", "verdict"),
    [
        (2.1, Verdict.REGRESSION),
        (1.5, Verdict.REGRESSION),
        (1.3, Verdict.NO_CHANGE),
        (0.9, Verdict.NO_CHANGE),
    ],
)
def test_a_timed_regression_is_open_until_the_ratio_is_back(newest: float, verdict: Verdict) -> None:
    assert stands([regression()], newest).verdict is verdict


def test_a_recovery_without_a_finding_of_its_own_closes_it_too() -> None:
    assert stands([regression()], 1.0).finding is None


def test_of_code_alone_a_later_improvement_closes_it() -> None:
    old = regression(None, None)
    better = finding(Verdict.IMPROVEMENT, **LATER)
    assert stands([old]).verdict is Verdict.REGRESSION
    assert stands([better, old]).verdict is Verdict.IMPROVEMENT
    # The other way round nothing is repaired.
    assert stands([finding(Verdict.IMPROVEMENT), replace(old, **LATER)]).verdict is Verdict.REGRESSION


def test_a_compiler_wide_change_is_closed_by_its_opposite_and_not_by_the_ratio() -> None:
    slower = replace(finding(Verdict.COMPILER_WIDE), candidate_change=0.1, ratio_before=1.0, ratio_after=1.01)
    faster = replace(finding(Verdict.COMPILER_WIDE, **LATER), candidate_change=-0.1)
    assert stands([slower], 1.0).finding is slower
    assert stands([slower, faster], 1.0).finding is faster


def test_the_worst_pair_stands_first_and_missing_is_not_fine() -> None:
    pairs = [("atomic_add", "store"), PAIR, ("atomic_add", "two_pass")]
    ratios = {("atomic_add", "store", HD64): 3.0, ("atomic_add", "two_pass", HD64): 4.0, (*PAIR, HD64): 2.0}
    ordered = standings(pairs, [regression()], ratios, COMMITS)
    assert [s.reference for s in ordered] == ["inline_asm", "two_pass", "store"]
    assert ordered[0].worst == (HD64, 2.0)
    [bare] = standings([PAIR], [], {}, COMMITS)
    assert (bare.cases, bare.worst, bare.finding) == (0, None, None)
