"""One timing serves all commits whose kernels are equal; neighbours are compared in a session of both."""

from __future__ import annotations

from dataclasses import replace

from builders import FACTS, HD64, TARGET
from lived import CASE, compiled, lived, timed

from scripts.tracker.judge import judge
from scripts.tracker.measured import History
from scripts.tracker.model import MeasurementStatus, TimingMeasurement, Verdict
from scripts.tracker.shared_time import codes_of, commits_with_time, timed_steps


def with_code(names: list[str]) -> History:
    """A history without GPU time: what atomic_add's code is, commit by commit; the others never change."""
    history = lived({}, len(names), left_out=range(len(names)))
    for commit, name in zip(history.commits, names, strict=True):
        for variant in FACTS:
            history.measurements.append(compiled(commit, variant, name if variant == "atomic_add" else "x"))
    return history


def session(history: History, name: str, values: dict[int, float]) -> list[TimingMeasurement]:
    """{commit: atomic_add in ms}; the other variants take 1 ms."""
    return [
        timed(history.commits[i], v, ms if v == "atomic_add" else 1.0, f"gpu {name}")
        for i, ms in values.items()
        for v in FACTS
    ]


def places(history: History) -> list[tuple[str, str, str, str]]:
    """(before, its session, after, its session) of what is compared."""
    codes = codes_of(history.measurements, TARGET)
    found = []
    for step in timed_steps(history.timings, history.commits, TARGET, codes):
        of = [next(iter(side.values())) for side in (step.old, step.new)]
        assert [t.commit for t in of] == [step.before.commit, step.after.commit]
        found.append((step.before.label, of[0].session, step.after.label, of[1].session))
    return found


def test_a_change_is_compared_with_the_commit_before_it_that_shares_its_parents_time() -> None:
    history = with_code(["a", "a", "a", "b", "b", "c"])
    history.timings = session(history, "1", {0: 1.0, 3: 1.2}) + session(history, "2", {3: 1.2, 5: 1.2})
    assert places(history) == [("c2", "gpu 1", "c3", "gpu 1"), ("c4", "gpu 2", "c5", "gpu 2")]
    codes = codes_of(history.measurements, TARGET)
    assert commits_with_time(history.timings, codes) == {c.commit for c in history.commits}


def test_what_was_found_is_told_of_the_neighbours_and_not_pending() -> None:
    history = with_code(["a", "a", "a", "b", "b", "b"])
    history.timings = session(history, "1", {0: 1.0, 3: 1.2})
    judgement = judge(history)
    found = {(f.verdict, f.before.label, f.after.label, f.unmeasured_commits) for f in judgement.findings}
    assert found == {(Verdict.REGRESSION, "c2", "c3", 0)}
    assert "4 commits share the GPU time of kernels equal to theirs" in history.notes
    assert not [note for note in history.notes if "without GPU time" in note]


def test_a_change_that_waits_for_a_gpu_is_said_and_no_neighbour() -> None:
    history = with_code(["a", "b", "c"])
    history.timings = session(history, "1", {0: 1.0, 2: 1.0})
    assert places(history) == [("c0", "gpu 1", "c2", "gpu 1")]
    judge(history)
    assert "compiled, but without GPU time: c1" in history.notes


def test_code_that_comes_back_has_its_old_time() -> None:
    """A revert needs no GPU: its kernels were timed beside those that it takes back."""
    history = with_code(["a", "b", "a"])
    history.timings = session(history, "1", {0: 1.0, 1: 1.2})
    assert places(history) == [("c0", "gpu 1", "c1", "gpu 1"), ("c1", "gpu 1", "c2", "gpu 1")]
    assert [f.verdict for f in judge(history).findings if f.reference == "store"] == [
        Verdict.REGRESSION,
        Verdict.IMPROVEMENT,
    ]


def test_the_session_with_both_is_taken_before_a_larger_one() -> None:
    history = with_code(["a", "b", "c"])
    history.timings = session(history, "1", {0: 1.0, 1: 1.0}) + session(history, "0", {1: 1.0, 2: 1.0})
    assert places(history) == [("c0", "gpu 1", "c1", "gpu 1"), ("c1", "gpu 0", "c2", "gpu 0")]


def test_without_a_common_session_each_has_its_own() -> None:
    history = with_code(["a", "b"])
    history.timings = session(history, "1", {0: 1.0}) + session(history, "2", {1: 1.2})
    assert places(history) == [("c0", "gpu 1", "c1", "gpu 2")]
    assert {f.verdict for f in judge(history).findings if f.evidence == ("timing",)} == {Verdict.PENDING}


def test_what_a_session_skipped_it_says_nothing_of() -> None:
    history = with_code(["a", "b"])
    skipped = [
        replace(t, case=replace(CASE, n_ctx=4096), status=MeasurementStatus.SKIPPED, samples_s=())
        for t in session(history, "1", {0: 1.0, 1: 1.0})
    ]
    history.timings = session(history, "1", {0: 1.0, 1: 1.0}) + skipped
    assert len(places(history)) == 1


def test_a_commit_whose_code_is_not_known_shares_with_nobody() -> None:
    history = with_code(["a", "a"])
    [lost] = [m for m in history.measurements if (m.commit, m.variant) == (history.commits[1].commit, "none")]
    history.measurements.remove(lost)
    history.measurements.append(replace(lost, evidence=None))
    codes = codes_of(history.measurements, TARGET)
    assert set(codes) == {(history.commits[0].commit, HD64)}
    history.timings = session(history, "1", {0: 1.0})
    assert places(history) == []
    assert commits_with_time(history.timings, codes) == {history.commits[0].commit}
