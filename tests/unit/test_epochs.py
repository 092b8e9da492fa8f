"""Code and time of a long history make one finding; epochs and sessions are chosen, never mixed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from builders import FACTS
from history_builders import DAY_ONE, LOWERING
from lived import judged, lived, of, told

from scripts.tracker.epochs import HARMLESS, split_epochs
from scripts.tracker.history import FileHistory, LandedCommit
from scripts.tracker.judge import judge
from scripts.tracker.measured import History
from scripts.tracker.model import Verdict
from scripts.tracker.policy import read_policy

POLICY = read_policy().detection
N = 60


def step(at: int, size: float) -> list[float]:
    return [1.0] * at + [1 + size] * (N - at)


def with_code(series: dict[str, list[float]], changed_at: int) -> History:
    """atomic_add's writes of dQ become narrow at a commit."""
    names = {v: ["same"] * N for v in FACTS}
    names["atomic_add"] = ["wide"] * changed_at + ["narrow"] * (N - changed_at)
    history = lived(series, N, code=names)
    history.measurements = [
        replace(
            m, metrics={"dq_vector_width": 1.0 if m.evidence and m.evidence.identity == ("narrow",) else 4.0}
        )
        for m in history.measurements
    ]
    return history


def test_code_and_time_are_one_finding() -> None:
    judgement = judge(with_code({"atomic_add": step(40, 0.2)}, 40))
    assert told(judgement) == [(Verdict.REGRESSION, "c39", "c40")]
    [finding] = of(judgement)
    assert finding.evidence == ("codegen", "timing")
    assert [c.metric for c in finding.codegen_changes] == ["dq_vector_width"]
    assert "narrower writes of dQ" in finding.explanation


def test_code_that_costs_nothing_is_counted() -> None:
    judgement = judge(with_code({}, 40))
    assert judgement.findings == []
    assert judgement.counts[HARMLESS] == 2  # a pair each


@pytest.mark.parametrize("size", [0.0, 0.2])
def test_code_of_another_target_is_a_finding_of_its_own(size: float) -> None:
    history = with_code({"atomic_add": step(40, size)}, 40)
    alone = judge(history)
    history.measurements += [replace(m, target="cuda:100") for m in history.measurements]
    both = judge(history)
    assert [f for f in both.findings if f.target != "cuda:100"] == alone.findings
    assert {f.evidence for f in both.findings if f.target == "cuda:100"} == {("codegen",)}
    assert both.counts[HARMLESS] == alone.counts[HARMLESS]


def test_a_creep_names_no_suspects_and_leaves_a_change_of_code_its_own_finding() -> None:
    history = with_code({"atomic_add": [1 + 0.002 * i for i in range(N)]}, 58)
    order = history.commits
    parents = [(), *((c.commit,) for c in order)]
    landed = [
        LandedCommit(c.commit, parents[i], DAY_ONE + timedelta(days=i), f"Change atomics (#{i})", LOWERING)
        for i, c in enumerate(order)
    ]
    history.triton = FileHistory(landed, {}, "history")
    found = {f.evidence: f for f in of(judge(history))}
    crept = found["timing",]
    assert (crept.before, crept.after) == (order[0], order[-1])
    assert crept.suspects == ()
    assert "none of them is singled out" in crept.attribution
    assert found["codegen",].suspects != ()


def test_code_too_new_for_its_time_stays_a_finding_of_code() -> None:
    judgement = judge(with_code({}, 58))
    assert {f.evidence for f in judgement.findings} == {("codegen",)}


def test_code_whose_time_is_not_confirmed_stays_beside_it() -> None:
    judgement = judge(with_code({"atomic_add": step(58, 0.2)}, 58))
    assert {(f.verdict, f.evidence[0]) for f in of(judgement)} == {
        (Verdict.PENDING, "codegen"),
        (Verdict.REGRESSION, "codegen"),
    }


def test_a_history_needs_commits_and_sessions_of_their_own() -> None:
    history = lived({}, POLICY.min_commits)
    assert split_epochs(history.timings, POLICY) == (history.timings, [])
    few = [t for t in history.timings if t.commit != history.commits[0].commit]
    assert split_epochs(few, POLICY) == ([], few)
    one = [replace(t, session="one") for t in history.timings]
    assert split_epochs(one, POLICY) == ([], one)


def test_two_machines_side_by_side_are_no_new_epoch() -> None:
    history = lived({}, N)
    others = lived(dict.fromkeys(FACTS, [2.0] * N), N).timings
    history.timings += [replace(t, machine="other", session=f"other {t.session}") for t in others]
    assert judge(history).findings == []


def test_findings_come_in_the_order_of_their_commits() -> None:
    judgement = judged([1.0] * 30 + [1.3] * 20 + [1.1] * 30)
    assert [f.after.label for f in judgement.findings] == ["c30", "c30", "c50", "c50"]
