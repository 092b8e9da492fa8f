"""Ratios of GPU time: what moved is found, what did not is not, and the interval covers."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from builders import COMMITS, FACTS, NEW, OLD, ROLES, TARGET, VERSION, measured

from scripts.tracker.judge import judge
from scripts.tracker.measured import History
from scripts.tracker.model import (
    Case,
    CodegenChange,
    Commit,
    Finding,
    MeasurementStatus,
    TimingMeasurement,
    Verdict,
)
from scripts.tracker.policy import TimingPolicy
from scripts.tracker.steps import Judgement, pairs
from scripts.tracker.timing import hodges_lehmann, is_relevant, leg, ratio_change
from scripts.tracker.timing_diff import FEW_BLOCKS, HARMLESS, NOT_TIMED, STEADY, TIMED, judge_timing

POLICY = TimingPolicy(min_blocks=5, session_spread=0.002, min_relative_change=0.05)
CASE = Case(64, True, "fp16", n_ctx=2048)


def timed(
    commit: Commit, variant: str, seconds: float, blocks: int = 12, session: str = "one", seed: int = 0
) -> TimingMeasurement:
    """Samples with the drift of a block common to all variants (3 %), and 0.3 % of their own."""
    drift = random.Random(f"{session} {seed}")
    own = random.Random(f"{commit.commit} {variant} {session} {seed}")
    samples = tuple(seconds * (1 + drift.gauss(0, 0.03)) * (1 + own.gauss(0, 0.003)) for _ in range(blocks))
    return TimingMeasurement(
        commit.commit, variant, CASE, MeasurementStatus.OK, session, samples, VERSION, "gpu"
    )


def history(after: dict[str, float], session: str = "one") -> list[TimingMeasurement]:
    """All variants take 1 ms at the old commit, and what ``after`` says at the new one."""
    old = [timed(OLD, variant, 1e-3) for variant in ROLES]
    return old + [timed(NEW, variant, after.get(variant, 1e-3), session=session) for variant in ROLES]


def judged(timings: list[TimingMeasurement], codegen: Judgement | None = None) -> Judgement:
    case = replace(CASE, n_ctx=None)
    compiled = {(c.commit, v, case) for c in (OLD, NEW) for v in ROLES} if codegen else set()
    return judge_timing(timings, COMMITS, ROLES, POLICY, TARGET, codegen or Judgement(), compiled)


def verdicts(judgement: Judgement) -> set[Verdict]:
    return {finding.verdict for finding in judgement.findings}


def test_hodges_lehmann_is_the_median_of_pairwise_means() -> None:
    assert hodges_lehmann([0.0, 1.0, 5.0]) == 1.75  # of 0, 0.5, 1, 2.5, 3, 5
    assert hodges_lehmann([1.0, 1.0, 1.0, 1.0, 100.0]) == 1.0


def test_a_slower_candidate_is_a_regression_of_the_right_size() -> None:
    findings = judged(history({"atomic_add": 1.2e-3})).findings
    assert {(f.candidate, f.reference, f.verdict) for f in findings} == {
        ("atomic_add", "inline_asm", Verdict.REGRESSION),
        ("atomic_add", "store", Verdict.REGRESSION),
    }
    for finding in findings:
        assert finding.evidence == ("timing",)
        assert finding.ratio_before == pytest.approx(1.0, abs=0.005)
        assert finding.ratio_after == pytest.approx(1.2, abs=0.005)
        assert finding.interval is not None
        assert finding.interval[0] < 0.2 < finding.interval[1]


def test_drift_of_the_machine_cancels_in_the_ratio() -> None:
    """Blocks differ by 3 %, ratios by 0.4 %: the interval is that of the ratios."""
    timings = {(t.commit, t.variant): t for t in history({})}
    moved = ratio_change(
        timings[OLD.commit, "atomic_add"],
        timings[OLD.commit, "inline_asm"],
        timings[NEW.commit, "atomic_add"],
        timings[NEW.commit, "inline_asm"],
        POLICY,
    )
    low, high = moved.interval
    assert high - low < 0.02
    assert low < 0 < high
    assert not is_relevant(moved, POLICY)


def test_the_interval_is_never_narrower_than_what_a_fresh_process_adds() -> None:
    same = [replace(t, samples_s=(1e-3,) * 12) for t in history({})[:2]]
    moved = ratio_change(same[0], same[1], same[0], same[1], POLICY)
    assert moved.interval[1] == pytest.approx(math.expm1(1.96 * 0.002))


def test_intervals_cover_what_they_should() -> None:
    """95 % intervals of 200 clean histories hold zero in at least 90 % (they are widened on purpose)."""
    held = 0
    for seed in range(200):
        old, new = ([timed(c, v, 1e-3, seed=seed) for v in ("atomic_add", "store")] for c in (OLD, NEW))
        low, high = ratio_change(*old, *new, POLICY).interval
        held += low < 0 < high
    assert held >= 190


def test_a_faster_candidate_is_an_improvement() -> None:
    assert verdicts(judged(history({"atomic_add": 0.8e-3}))) == {Verdict.IMPROVEMENT}


def test_a_moved_reference_is_not_the_candidates_doing() -> None:
    findings = judged(history({"inline_asm": 0.8e-3})).findings
    assert {(f.reference, f.verdict) for f in findings} == {("inline_asm", Verdict.REFERENCE_MOVED)}


def test_all_variants_slower_side_by_side_is_the_compiler() -> None:
    slower = dict.fromkeys(ROLES, 1.1e-3)
    judgement = judged(history(slower))
    assert verdicts(judgement) == {Verdict.COMPILER_WIDE}
    assert judgement.findings[0].candidate_change == pytest.approx(0.1, abs=0.01)


def test_in_two_sessions_all_slower_may_be_the_machine() -> None:
    judgement = judged(history(dict.fromkeys(ROLES, 1.1e-3), session="two"))
    assert judgement.findings == []
    assert judgement.counts[STEADY] == 2


def test_a_control_that_stands_still_says_that_it_is_about_dq() -> None:
    """Every write of dQ got slower, so no ratio moved: the candidate's own time tells."""
    slower = {**dict.fromkeys(ROLES, 1.1e-3), "none": 1e-3}
    judgement = judged(history(slower))
    assert verdicts(judgement) == {Verdict.REGRESSION}
    assert all(abs(f.change or 0) < 0.01 for f in judgement.findings)


def test_one_reference_that_got_faster_does_not_hide_a_slower_compiler() -> None:
    """Triton 3.9: all slower but two_pass. Against that one, too, it is the compiler."""
    slower = {**dict.fromkeys(ROLES, 1.1e-3), "store": 0.9e-3}
    assert verdicts(judged(history(slower))) == {Verdict.COMPILER_WIDE}


def test_a_reference_that_moved_farther_moved_the_ratio() -> None:
    faster = {"atomic_add": 0.93e-3, "inline_asm": 0.8e-3}
    of = {f.reference: f.verdict for f in judged(history(faster)).findings}
    assert of == {"inline_asm": Verdict.REFERENCE_MOVED, "store": Verdict.IMPROVEMENT}


def test_code_that_was_not_compiled_is_not_called_unchanged() -> None:
    without = judged(history({"atomic_add": 1.2e-3})).findings
    assert all("not compiled here" in f.explanation for f in without)
    codegen = Judgement([code_finding("inline_asm")])
    of_store = [
        f for f in judged(history({"atomic_add": 1.2e-3}), codegen).findings if f.reference == "store"
    ]
    assert all("nothing that matters" in f.explanation for f in of_store)


def test_nothing_moved_is_counted() -> None:
    judgement = judged(history({}))
    assert judgement.findings == []
    assert judgement.counts[TIMED] == judgement.counts[STEADY] == 2


def test_too_few_blocks_are_no_verdict() -> None:
    few = [replace(t, samples_s=t.samples_s[:4]) for t in history({"atomic_add": 2e-3})]
    judgement = judged(few)
    assert judgement.findings == []
    assert judgement.counts[FEW_BLOCKS] == 2


def test_a_skipped_variant_is_not_timed() -> None:
    timings = [
        replace(t, status=MeasurementStatus.SKIPPED, samples_s=()) if t.variant == "store" else t
        for t in history({})
    ]
    assert judged(timings).counts[TIMED] == 1


def test_other_machines_are_other_series() -> None:
    timings = [
        replace(t, machine="other") if t.commit == NEW.commit else t for t in history({"atomic_add": 2e-3})
    ]
    assert judged(timings).counts[TIMED] == 0


def test_commits_between_are_counted() -> None:
    last = COMMITS[3]
    timings = [
        replace(t, commit=last.commit) if t.commit == NEW.commit else t for t in history({"atomic_add": 2e-3})
    ]
    assert {f.unmeasured_commits for f in judged(timings).findings} == {2}


def code_finding(reference: str, target: str = TARGET) -> Finding:
    return Finding(
        id=f"code {reference} {target}",
        verdict=Verdict.REGRESSION,
        evidence=("codegen",),
        candidate="atomic_add",
        reference=reference,
        case=replace(CASE, n_ctx=None),
        target=target,
        before=OLD,
        after=NEW,
        first_changed_stage=None,
        codegen_changes=(CodegenChange("atomic_add", "gpu_fences", 0, 8, "more fences"),),
        unmeasured_commits=0,
        explanation="atomic_add: more fences.",
    )


def test_time_and_code_make_one_finding() -> None:
    codegen = Judgement([code_finding("inline_asm"), code_finding("store")])
    judgement = judged(history({"atomic_add": 1.2e-3}), codegen)
    assert [f.evidence for f in judgement.findings] == [("codegen", "timing")] * 2
    assert all(f.codegen_changes for f in judgement.findings)
    assert HARMLESS not in judgement.counts


def test_code_that_costs_nothing_is_counted_and_not_listed() -> None:
    judgement = judged(history({}), Judgement([code_finding("inline_asm")]))
    assert judgement.findings == []
    assert judgement.counts[HARMLESS] == 1


@pytest.mark.parametrize("slower", [{}, {"atomic_add": 1.2e-3}])
def test_code_of_another_target_explains_no_time_and_is_not_settled(
    slower: dict[str, float],
) -> None:
    here, elsewhere = (
        code_finding("inline_asm"),
        replace(
            code_finding("inline_asm", "cuda:100"),
            codegen_changes=(CodegenChange("atomic_add", "x", 1, 2, ""),),
        ),
    )
    alone = judged(history(slower), Judgement([here]))
    both = judged(history(slower), Judgement([here, elsewhere]))
    assert [f for f in both.findings if f.target == TARGET] == alone.findings
    assert [f for f in both.findings if f.target != TARGET] == [elsewhere]
    assert both.counts == alone.counts


def test_code_that_was_not_timed_stays_a_finding() -> None:
    judgement = judged([], Judgement([code_finding("inline_asm")]))
    assert [f.evidence for f in judgement.findings] == [("codegen",)]


def test_a_leg_needs_one_session() -> None:
    with pytest.raises(ValueError, match="one session"):
        leg(timed(OLD, "store", 1e-3), timed(NEW, "store", 1e-3, session="two"))


def test_what_two_single_sessions_say_waits_and_leaves_the_code_its_finding() -> None:
    timings = history({"atomic_add": 1.2e-3}, session="two")
    judgement = judged(timings, Judgement([code_finding("inline_asm")]))
    of = sorted((f.reference, f.verdict.value, f.evidence) for f in judgement.findings)
    assert of == [
        ("inline_asm", "pending", ("codegen", "timing")),
        ("inline_asm", "regression", ("codegen",)),
        ("store", "pending", ("timing",)),
    ]


def test_time_over_commits_that_were_only_compiled_has_the_code_of_its_own_ends() -> None:
    """Bisect compiles releases between two timed ones: their code must not hide what the time is about."""
    ends, middle = (COMMITS[0], COMMITS[2]), COMMITS[1]
    slow = {ends[0]: 1e-3, ends[1]: 1.3e-3}
    timings = [timed(c, v, slow[c] if v == "atomic_add" else 1e-3) for c in ends for v in ROLES]
    code = [
        measured(c, v, {"dq_vector_width": 4 if c == ends[0] or v != "atomic_add" else 1})
        for c in (ends[0], middle, ends[1])
        for v in ROLES
    ]
    past = History(commits=list(COMMITS), measurements=code, timings=timings, variants=dict(FACTS))
    found = [f for f in judge(past).findings if "timing" in f.evidence]
    assert {(f.before, f.after) for f in found} == {ends}
    assert all("narrower writes of dQ" in f.explanation for f in found)


@pytest.mark.parametrize("gone", [["atomic_add"], list(ROLES)])
def test_time_that_vanished_is_no_valid_data(gone: list[str]) -> None:
    """Missing is never "no change": a null in asv's file, for one variant or for all."""

    def is_gone(t: TimingMeasurement) -> bool:
        return t.variant in gone and t.commit == NEW.commit

    timings = [
        replace(t, status=MeasurementStatus.FAILED, samples_s=()) if is_gone(t) else t for t in history({})
    ]
    lost = [f for f in judged(timings).findings if f.verdict is Verdict.NO_VALID_DATA]
    expected = {(c, r) for c, r in pairs(ROLES) if {c, r} & set(gone)}
    assert {(f.candidate, f.reference) for f in lost} == expected
    assert all("has no valid GPU time (failed)" in f.explanation for f in lost)


def test_what_a_newer_session_was_not_asked_for_is_counted_and_not_lost() -> None:
    timings = [
        replace(t, status=MeasurementStatus.SKIPPED, samples_s=())
        if t.variant == "store" and t.commit == NEW.commit
        else t
        for t in history({})
    ]
    judgement = judged(timings)
    assert judgement.findings == []
    assert judgement.counts[NOT_TIMED] == 1


def test_commits_without_time_between_timed_ones_are_named() -> None:
    timings = [timed(c, v, 1e-3) for c in (COMMITS[0], COMMITS[2]) for v in ROLES]
    code = [measured(c, v, {"registers": 1}) for c in COMMITS[:3] for v in ROLES]
    past = History(commits=list(COMMITS), measurements=code, timings=timings, variants=dict(FACTS))
    judge(past)
    assert f"compiled, but without GPU time: {COMMITS[1].label}" in past.notes
