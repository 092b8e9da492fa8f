"""Scenarios 1 to 5 of scenarios.md (how trackers fail in the wild), from samples to findings."""

from __future__ import annotations

import math
import random
import re

import pytest
from lived import commits, flat, judged, lived, of, step, told

from scripts.tracker.changes import SMALL
from scripts.tracker.comment import render_all
from scripts.tracker.detect import SERIES
from scripts.tracker.judge import judge
from scripts.tracker.model import Verdict
from scripts.tracker.series import ORPHANED

REGRESSION, IMPROVEMENT = Verdict.REGRESSION, Verdict.IMPROVEMENT


def test_a_flat_history_says_nothing() -> None:
    judgement = judged(flat(60), canary=flat(60))
    assert judgement.findings == []
    assert judgement.counts[SERIES] == 4  # two ratios, the candidate's own time, the canaries


@pytest.mark.parametrize("size", [0.03, 0.1, 1.0])
def test_a_step_is_a_regression_of_the_right_size_at_the_right_commit(size: float) -> None:
    judgement = judged(step(40, size))
    assert told(judgement) == [(REGRESSION, "c39", "c40")]
    [finding] = of(judgement)
    assert finding.ratio_before == pytest.approx(1.0, abs=0.002)
    assert finding.change == pytest.approx(size, abs=0.005)
    assert finding.candidate_change == pytest.approx(size, abs=0.005)
    low, high = finding.interval or (0, 0)
    assert low < size < high
    assert (finding.minimum_detectable_change or 0) >= 0.02
    assert finding.unmeasured_commits == 0


def test_what_could_not_have_been_seen_is_said() -> None:
    [note] = judged(flat(60)).notes
    assert "after 3 sessions" in note
    assert "2.0%" in note  # the spread is small here: what is relevant is the limit


def test_an_improvement_is_one() -> None:
    assert told(judged(step(40, -0.1))) == [(IMPROVEMENT, "c39", "c40")]


# Scenario 1.


def test_a_commit_that_was_pushed_away_is_kept_out_and_counted() -> None:
    history = lived({"atomic_add": step(30, 0.1)}, 60)
    [gone] = {t.commit for t in history.timings if t.commit == history.commits[29].commit}
    history.commits = [c for c in history.commits if c.commit != gone]
    judgement = judge(history)
    assert told(judgement) == [(REGRESSION, "c28", "c30")]
    assert judgement.counts[ORPHANED] == 1


def test_a_head_whose_parent_was_not_measured_is_compared_with_the_nearest_that_was() -> None:
    judgement = judged(step(57, 0.1), left_out=range(50, 57))
    assert told(judgement) == [(REGRESSION, "c49", "c57")]
    assert of(judgement)[0].unmeasured_commits == 7


# Scenario 2.


def test_a_spike_is_nothing() -> None:
    assert judged([*flat(40), 1.3, *flat(39)]).findings == []


@pytest.mark.parametrize("at", [3, 20, 40, 57, 58])
def test_a_spike_anywhere_is_nothing(at: int) -> None:
    values = flat(60)
    values[at] = 1.3
    assert judged(values).findings == []


def test_the_stream_stops_at_the_spike() -> None:
    judgement = judged([*flat(79), 1.3])
    assert told(judgement) == [(Verdict.PENDING, "c78", "c79")]
    assert "1 session so far" in of(judgement)[0].explanation


# Scenario 3.


@pytest.mark.parametrize("after", [1, 2])
def test_a_step_with_one_or_two_sessions_after_it_is_pending_and_not_public(after: int) -> None:
    history = lived({"atomic_add": step(60 - after, 0.1)}, 60)
    judgement = judge(history)
    assert told(judgement) == [(Verdict.PENDING, f"c{59 - after}", f"c{60 - after}")]
    assert render_all(judgement.findings, history) == {}


def test_the_third_session_confirms() -> None:
    history = lived({"atomic_add": step(57, 0.1)}, 60)
    judgement = judge(history)
    assert told(judgement) == [(REGRESSION, "c56", "c57")]
    assert len(render_all(judgement.findings, history)) == 1


def test_three_sessions_of_one_commit_confirm_as_well() -> None:
    assert told(judged([*flat(59), (1.1, 1.1, 1.1)])) == [(REGRESSION, "c58", "c59")]


# Scenario 4.


def test_small_steps_that_add_up_are_told_each_with_the_sum() -> None:
    values = [*flat(30), *flat(25, 1.012), *flat(25, 1.025)]  # each below what is relevant
    judgement = judged(values)
    assert told(judgement) == [(REGRESSION, "c29", "c30"), (REGRESSION, "c54", "c55")]
    assert all("2 small steps that add up to +2." in f.explanation for f in of(judgement))


def test_two_steps_are_two_change_points() -> None:
    judgement = judged([*flat(30), *flat(25, 1.04), *flat(25, 1.08)])
    assert told(judgement) == [(REGRESSION, "c29", "c30"), (REGRESSION, "c54", "c55")]


def test_a_small_step_alone_is_counted() -> None:
    judgement = judged(step(30, 0.012))
    assert judgement.findings == []
    assert judgement.counts[SMALL] > 0


def test_a_slow_drift_is_held_against_the_first_value() -> None:
    judgement = judged([1 + 0.0004 * i for i in range(200)])
    assert {f.verdict for f in judgement.findings} == {REGRESSION}
    whole = math.prod(1 + (f.change or 0) for f in of(judgement)) - 1
    assert whole == pytest.approx(0.08, abs=0.025)


@pytest.mark.parametrize(("n", "size"), [(40, 0.002), (60, 0.001), (60, 0.002), (120, 0.002)])
def test_a_creep_is_one_finding_and_no_commit_in_it_is_blamed(n: int, size: float) -> None:
    judgement = judged([1 + size * i for i in range(n)])
    [finding] = of(judgement)
    assert (finding.verdict, finding.before.label, finding.after.label) == (REGRESSION, "c0", f"c{n - 1}")
    assert "It crept there" in finding.explanation


def test_a_creep_with_a_step_in_it_keeps_the_step() -> None:
    values = [1 + 0.002 * i + (0.1 if i >= 30 else 0.0) for i in range(60)]
    assert (REGRESSION, "c29", "c30") in told(judged(values))


# Scenario 5.


@pytest.mark.parametrize("lengths", [(12, 10, 12), (15, 10, 15), (12, 6, 6), (10,) * 8, (9, 8) * 6])
def test_many_levels_of_few_commits_are_not_taken_for_noise(lengths: tuple[int, ...]) -> None:
    values = [1.2 if i % 2 else 1.0 for i, length in enumerate(lengths) for _ in range(length)]
    starts = [sum(lengths[:i]) for i in range(1, len(lengths))]
    verdicts = [IMPROVEMENT if i % 2 else REGRESSION for i in range(len(starts))]
    expected = [(v, f"c{at - 1}", f"c{at}") for v, at in zip(verdicts, starts, strict=True)]
    assert told(judged(values)) == expected


def test_a_regression_and_its_partial_recovery() -> None:
    judgement = judged([*flat(30, 10.0), *flat(20, 20.0), *flat(30, 15.0)])
    assert told(judgement) == [(REGRESSION, "c29", "c30"), (IMPROVEMENT, "c49", "c50")]
    first, second = of(judgement)
    assert first.change == pytest.approx(1.0, abs=0.01)
    assert "takes back part of the +" in second.explanation
    assert re.search(r"\+(49\.9|50\.[01])% is left", second.explanation)


def test_a_regression_and_its_recovery() -> None:
    judgement = judged([*flat(30), *flat(20, 1.2), *flat(30)])
    assert told(judgement) == [(REGRESSION, "c29", "c30"), (IMPROVEMENT, "c49", "c50")]
    assert "takes back all of the +" in of(judgement)[1].explanation


# The search itself.


def test_the_order_of_the_measurements_does_not_matter() -> None:
    history = lived({"atomic_add": step(40, 0.1)}, 60, canary=flat(60))
    expected = judge(history).findings
    random.Random(0).shuffle(history.timings)
    random.Random(1).shuffle(history.canaries)
    assert judge(history).findings == expected


def test_a_short_history_is_compared_with_its_neighbours_and_waits() -> None:
    judgement = judged(step(10, 0.2, n=15))
    assert judgement.counts[SERIES] == 0
    assert told(judgement) == [(Verdict.PENDING, "c9", "c10")]
    assert "as it stands regression" in of(judgement)[0].explanation


def test_no_commits_in_the_order_are_no_findings() -> None:
    history = lived({}, 60)
    history.commits = commits(1)
    assert judge(history).findings == []
