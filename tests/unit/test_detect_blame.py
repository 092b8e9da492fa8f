"""Scenarios 6 to 15 of scenarios.md: whose doing it is, and what is no data at all."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest
from builders import FACTS
from lived import CANARY, CASE, flat, judged, lived, of, step, timed, told

from scripts.tracker.comment import render_all
from scripts.tracker.detect import ENDED, NOT_CONFIRMED, SAME_CODE
from scripts.tracker.judge import judge
from scripts.tracker.model import MeasurementStatus, Verdict
from scripts.tracker.report import findings_json

REGRESSION, IMPROVEMENT = Verdict.REGRESSION, Verdict.IMPROVEMENT


# Scenario 6.


def two_values(n: int = 60, seed: int = 1) -> list[float]:
    return [random.Random(f"{seed} {i}").choice((2.9, 3.4)) for i in range(n)]


@pytest.mark.parametrize("seed", range(5))
def test_two_values_at_random_for_the_same_code_are_unstable(seed: int) -> None:
    code = {v: ["same"] * 60 for v in FACTS}
    judgement = judged(two_values(seed=seed), code=code)
    assert {f.verdict for f in judgement.findings} == {Verdict.UNSTABLE}
    assert all("the machine code is the same" in f.explanation for f in judgement.findings)


def test_two_values_at_random_of_unknown_code_are_unstable_too() -> None:
    judgement = judged(two_values())
    assert {f.verdict for f in judgement.findings} == {Verdict.UNSTABLE}
    assert all("not known" in f.explanation for f in judgement.findings)


def test_far_apart_values_too() -> None:
    values = [random.Random(f"far {i}").choice((0.8, 2.8)) for i in range(80)]
    assert {f.verdict for f in judged(values).findings} == {Verdict.UNSTABLE}


def test_the_same_code_cannot_have_become_slower() -> None:
    code = {v: ["same"] * 60 for v in FACTS}
    assert {f.verdict for f in judged(step(40, 0.1), code=code).findings} == {Verdict.ENVIRONMENT}


def test_a_suspicion_about_the_same_code_is_counted_and_not_told() -> None:
    code = {v: ["same"] * 60 for v in FACTS}
    judgement = judged(step(59, 0.1), code=code)
    assert judgement.findings == []
    assert judgement.counts[SAME_CODE] > 0


def test_other_code_at_the_step_leaves_the_regression() -> None:
    code = {v: ["same"] * 60 for v in FACTS} | {"atomic_add": ["old"] * 40 + ["new"] * 20}
    assert told(judged(step(40, 0.1), code=code)) == [(REGRESSION, "c39", "c40")]


def test_noise_does_not_carry_the_blame_to_the_commit_beside() -> None:
    """The value of c40 happens to look old; the code changed there, and not at c41."""
    values = step(40, 0.02)
    values[40] = 1.012
    code = {v: ["same"] * 60 for v in FACTS} | {"atomic_add": ["old"] * 40 + ["new"] * 20}
    assert told(judged(values, code=code)) == [(REGRESSION, "c39", "c40")]


# Scenario 7.


def test_a_documentation_commit_over_many_series_raises_no_alarm() -> None:
    cases = [replace(CASE, n_ctx=2**k) for k in range(5, 26)]  # 21 cases, two pairs each: 42 series
    history = lived({}, 60, cases=cases, code={v: ["same"] * 60 for v in FACTS})
    assert judge(history).findings == []


def test_without_the_code_as_well() -> None:
    cases = [replace(CASE, n_ctx=2**k) for k in range(5, 26)]
    assert judge(lived({}, 60, cases=cases)).findings == []


# Scenario 8.


def all_slower(n: int = 60, at: int = 40, size: float = 0.08) -> dict[str, list[float]]:
    return {v: step(at, size, n) for v in FACTS}


def test_all_slower_with_a_new_driver_is_a_new_epoch() -> None:
    setups = ["driver 1"] * 40 + ["driver 2"] * 20
    judgement = judged(all_slower(), setups=setups)
    assert {f.verdict for f in judgement.findings} == {Verdict.ENVIRONMENT}
    assert all("driver 2" in f.explanation for f in judgement.findings)
    assert told(judgement) == [(Verdict.ENVIRONMENT, "c39", "c40")]


def test_a_new_driver_that_changes_nothing_is_no_finding() -> None:
    assert judged(flat(60), setups=["driver 1"] * 40 + ["driver 2"] * 20).findings == []


def test_a_new_epoch_too_young_for_a_history_is_told_as_well() -> None:
    judgement = judged(all_slower(at=55), setups=["driver 1"] * 55 + ["driver 2"] * 5)
    assert told(judgement) == [(Verdict.ENVIRONMENT, "c54", "c55")]


def test_a_new_epoch_has_no_regression_either() -> None:
    judgement = judged(step(40, 0.3), setups=["driver 1"] * 40 + ["driver 2"] * 20)
    assert {f.verdict for f in judgement.findings} == {Verdict.ENVIRONMENT}


def test_all_slower_and_the_canaries_too_is_the_machine() -> None:
    history = lived(all_slower(), 60, canary=step(40, 0.08))
    judgement = judge(history)
    assert told(judgement) == [(Verdict.ENVIRONMENT, "c39", "c40")]
    assert render_all(judgement.findings, history) == {}


def test_all_slower_and_the_canaries_not_is_the_compiler() -> None:
    history = lived(all_slower(), 60, canary=flat(60))
    judgement = judge(history)
    assert told(judgement) == [(Verdict.COMPILER_WIDE, "c39", "c40")]
    assert len(render_all(judgement.findings, history)) == 1


def test_all_slower_without_canaries_cannot_be_told_apart_and_that_is_said() -> None:
    history = lived(all_slower(), 60)
    judgement = judge(history)
    assert told(judgement) == [(Verdict.PENDING, "c39", "c40")]
    assert "No canary" in of(judgement)[0].explanation
    assert any("without canaries" in note for note in history.notes)


@pytest.mark.parametrize("size", [0.08, 0.3])
def test_all_slower_where_the_canaries_stop_is_pending_and_not_silent(size: float) -> None:
    judgement = judged(all_slower(size=size), canary=[*flat(40), *[None] * 20])
    assert told(judgement) == [(Verdict.PENDING, "c39", "c40")]
    assert "No canary" in of(judgement)[0].explanation
    assert any("no canary has a valid time since c40" in note for note in judgement.notes)


def test_canaries_that_stop_where_nothing_moved_are_told_as_well() -> None:
    judgement = judged(flat(60), canary=[*flat(40), *[None] * 20])
    assert judgement.findings == []
    assert any("no canary has a valid time since c40" in note for note in judgement.notes)


def test_one_canary_of_three_that_stops_is_no_change_of_the_machine() -> None:
    """They take different times, so their plain mean would jump."""
    canaries = {"device_copy": [0.1] * 60, "sdpa_flash": [4.0] * 60, CANARY: [*flat(40), *[None] * 20]}
    assert judged(flat(60), canary=canaries).findings == []
    assert told(judged(all_slower(), canary=canaries)) == [(Verdict.COMPILER_WIDE, "c39", "c40")]


def test_a_canary_without_a_value_now_and_then_is_no_change_either() -> None:
    holes = [None if i % 7 == 3 else 4.0 for i in range(60)]
    assert judged(flat(60), canary={CANARY: flat(60), "sdpa_flash": holes}).findings == []


def test_canaries_that_move_alone_accuse_nobody() -> None:
    judgement = judged(flat(60), canary=step(40, 0.08))
    assert {f.verdict for f in judgement.findings} == {Verdict.ENVIRONMENT}


def test_all_writers_slower_and_the_controls_not_is_a_regression() -> None:
    series = all_slower() | {"none": flat(60)}
    assert told(judged(series, canary=flat(60))) == [(REGRESSION, "c39", "c40")]


def test_the_reference_that_moved_is_named() -> None:
    judgement = judged({"store": step(40, 0.1)}, canary=flat(60))
    assert told(judgement) == [(Verdict.REFERENCE_MOVED, "c39", "c40")]
    assert of(judgement, "inline_asm") == []


def test_the_reference_that_moved_is_named_without_canaries() -> None:
    assert told(judged({"store": step(40, 0.1)})) == [(Verdict.REFERENCE_MOVED, "c39", "c40")]


# Scenario 11.


@pytest.mark.parametrize("value", [None, math.nan, 0.0, math.inf])
def test_no_valid_time_is_a_state_of_its_own(value: float | None) -> None:
    history = lived({"atomic_add": flat(60)}, 60)
    last = history.commits[-1].commit
    history.timings = [
        replace(
            t,
            samples_s=() if value is None else (value,) * 8,
            status=MeasurementStatus.FAILED if value is None else t.status,
        )
        if (t.commit, t.variant) == (last, "atomic_add")
        else t
        for t in history.timings
    ]
    judgement = judge(history)
    assert told(judgement) == [(Verdict.NO_VALID_DATA, "c58", "c59")]
    document = findings_json(judgement)
    assert "NaN" not in document
    assert json.loads(document)["findings"][0]["change"] is None


def test_a_hole_in_the_middle_is_a_wider_range() -> None:
    values = [*flat(40), None, None, *flat(18, 1.1)]
    judgement = judged(values)
    assert told(judgement) == [(REGRESSION, "c39", "c42")]
    assert of(judgement)[0].unmeasured_commits == 2


# Scenario 12 (with the rename map: test_renames.py).


def test_a_variant_that_is_not_asked_for_any_more_ended_and_did_not_change() -> None:
    history = lived({}, 60)
    gone = {c.commit for c in history.commits[40:]}
    history.timings = [t for t in history.timings if t.variant != "store" or t.commit not in gone]
    judgement = judge(history)
    assert judgement.findings == []
    assert judgement.counts[ENDED] == 1


# Scenario 13: the order is first-parent already, so (b) is a range like any other.


def test_commits_in_between_are_a_range_and_nobody_in_it_is_blamed() -> None:
    judgement = judged(step(45, 0.1), left_out=[40, 41, 42, 43, 44])
    [finding] = of(judgement)
    assert (finding.before.label, finding.after.label, finding.unmeasured_commits) == ("c39", "c45", 5)
    assert finding.suspects == ()


# Scenario 15.


def test_one_session_is_one_value_however_often_it_repeats_itself() -> None:
    history = lived({"atomic_add": flat(60)}, 60)
    last = history.commits[-1]
    bad = [timed(last, v, 1.06 if v == "atomic_add" else 1.0, "gpu bad") for v in FACTS]
    history.timings = [t for t in history.timings if t.commit != last.commit] + 4 * bad
    judgement = judge(history)
    assert told(judgement) == [(Verdict.PENDING, "c58", "c59")]
    assert "1 session so far" in of(judgement)[0].explanation


def test_the_next_session_does_not_confirm() -> None:
    judgement = judged([*flat(59), (1.06, 1.0)])
    assert judgement.findings == []
    assert judgement.counts[NOT_CONFIRMED] > 0


def test_a_commit_measured_again_has_the_median_of_its_sessions() -> None:
    assert judged([*flat(40), (1.3, 1.0, 1.0), *flat(19)]).findings == []
    values = [*flat(40), (1.1, 1.0, 1.1), *flat(19, 1.1)]
    assert told(judged(values)) == [(REGRESSION, "c39", "c40")]
