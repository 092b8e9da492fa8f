"""What may be claimed: other sessions outweigh everything, counts are exact, and what is over is over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import COMMITS, LONGER, NARROWER, NEW, OLD, THEIRS, finding, history, measured
from github_builders import answer, group_of, timed, times

from scripts.tracker.groups import FindingGroup
from scripts.tracker.measured import History
from scripts.tracker.model import Commit, Decision, Verdict
from scripts.tracker.policy import read_policy
from scripts.tracker.recovery import Measured, ratios, recovered_at
from scripts.tracker.standing import State, group_key, standing

POLICY = read_policy()


def state(group: FindingGroup, *answers: object, past: History | None = None) -> State:
    known = {a.finding: a for a in answers}  # type: ignore[attr-defined]
    return standing(group, known, Measured(past or history()), POLICY).state


@pytest.mark.parametrize(
    ("decision", "change", "sessions", "expected"),
    [
        (Decision.DIFFERENT, 0.38, 2, State.CONFIRMED),
        (Decision.DIFFERENT, 0.38, 1, State.SUSPECTED),
        (Decision.DIFFERENT, -0.38, 2, State.SUSPECTED),
        (Decision.SAME, 0.001, 2, State.NOT_REPRODUCED),
        (Decision.UNKNOWN, 0.38, 6, State.SUSPECTED),
    ],
)
def test_a_claim_about_time_wants_other_sessions(
    decision: Decision, change: float, sessions: int, expected: State
) -> None:
    found = timed()
    said = state(group_of(found), answer(found, decision, change, sessions))
    # A change the other way is as good as none: it contradicts.
    assert said is (State.NOT_REPRODUCED if change < 0 else expected)


def test_without_an_answer_a_time_is_suspected() -> None:
    assert state(group_of(timed())) is State.SUSPECTED


def test_one_shape_that_is_confirmed_confirms_the_group() -> None:
    a, b = timed(), timed(reference="store")
    assert state(group_of(a, b), answer(a), answer(b, Decision.SAME, 0.0)) is State.CONFIRMED


def test_an_answer_about_another_verdict_of_the_group_does_not_count() -> None:
    worst, other = timed(), timed(Verdict.REFERENCE_MOVED, reference="store")
    assert state(group_of(worst, other), answer(other)) is State.SUSPECTED


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([finding(Verdict.REGRESSION, NARROWER)], State.EXACT),
        ([finding(Verdict.REGRESSION, *LONGER[:1])], State.SUSPECTED),  # weak evidence by policy.toml
        ([finding(Verdict.REGRESSION, THEIRS)], State.SUSPECTED),  # the reference's change
        ([finding(Verdict.REFERENCE_MOVED, THEIRS)], State.EXACT),
        ([finding(Verdict.NO_VALID_DATA)], State.EXACT),
    ],
)
def test_counts_of_the_code_are_exact(findings: list[object], expected: State) -> None:
    assert state(group_of(*findings)) is expected  # type: ignore[arg-type]


def test_other_sessions_outweigh_the_code() -> None:
    found = replace(timed(), evidence=("codegen", "timing"), codegen_changes=(NARROWER,))
    assert state(group_of(found)) is State.EXACT
    assert state(group_of(found), answer(found, Decision.SAME, 0.0)) is State.NOT_REPRODUCED


def test_a_ratio_is_read_where_the_ratio_was_asked() -> None:
    found = timed(Verdict.REFERENCE_MOVED)
    asked = answer(found)
    assert state(group_of(found), replace(asked, of="ratio")) is State.CONFIRMED


@pytest.mark.parametrize(
    ("own_s", "since"),
    [
        ([1.0, 1.4], None),  # nothing later is measured
        ([1.0, 1.4, 1.4, 1.4], None),
        ([1.0, 1.4, 1.0, 1.0], COMMITS[2]),
        ([1.0, 1.4, 1.4, 0.9], COMMITS[3]),
        ([1.0, 1.4, 1.0, 1.4], None),  # it came back
        ([1.0, 1.4, 1.03, 1.04], COMMITS[2]),  # within what policy.toml calls relevant
        ([1.0, 1.4, 1.06, 1.06], None),
    ],
)
@pytest.mark.parametrize("one_session", [True, False])
def test_recovered_since(own_s: list[float], since: Commit | None, one_session: bool) -> None:
    past = times([1e-3 * s for s in own_s])
    if not one_session:
        past.timings = [replace(t, session=f"s {t.commit}") for t in past.timings]
    found = replace(timed(), ratio_before=1.0)
    assert recovered_at(group_of(found), Measured(past), POLICY) == since
    confirmed = standing(group_of(found), {found.id: answer(found)}, Measured(past), POLICY)
    assert confirmed.state is (State.RECOVERED if since else State.CONFIRMED)
    assert confirmed.recovered == since


def test_a_slower_reference_is_no_recovery() -> None:
    past = times([1e-3, 1.4e-3, 1.4e-3])
    past.timings = [
        replace(t, samples_s=tuple(2 * s for s in t.samples_s))
        if t.variant == "inline_asm" and t.commit == COMMITS[2].commit
        else t
        for t in past.timings
    ]
    assert recovered_at(group_of(replace(timed(), ratio_before=1.0)), Measured(past), POLICY) is None


@pytest.mark.parametrize(("width", "since"), [(4, COMMITS[2]), (2, None), (8, COMMITS[2])])
def test_code_that_is_back_is_a_recovery(width: int, since: Commit | None) -> None:
    past = history()
    past.measurements.append(measured(COMMITS[2], "atomic_add", {"dq_vector_width": width}))
    assert recovered_at(group_of(finding(Verdict.REGRESSION, NARROWER)), Measured(past), POLICY) == since


def test_only_regressions_recover() -> None:
    past = times([1e-3, 1.4e-3, 1e-3])
    assert recovered_at(group_of(timed(Verdict.COMPILER_WIDE)), Measured(past), POLICY) is None


def test_ratios_are_within_one_session_each() -> None:
    past = times([1e-3, 1.4e-3, 1.2e-3])
    assert [(p.commit, round(p.ratio, 6)) for p in ratios(timed(), Measured(past))] == [
        (COMMITS[0], 1.0),
        (COMMITS[1], 1.4),
        (COMMITS[2], 1.2),
    ]
    past.timings = [t for t in past.timings if (t.commit, t.variant) != (COMMITS[2].commit, "inline_asm")]
    assert len(ratios(timed(), Measured(past))) == 2


def test_a_group_keeps_its_key_when_verdict_and_labels_change() -> None:
    a = group_of(timed())
    relabelled = timed(Verdict.IMPROVEMENT, before=Commit(OLD.commit, "x"), after=Commit(NEW.commit, "y"))
    assert group_key(a) == group_key(group_of(relabelled))
    assert group_key(a) != group_key(group_of(timed(after=COMMITS[2])))
