"""Is it real: sessions with known effects get the right answer, and one session alone never decides."""

from __future__ import annotations

import datetime
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import finding

from scripts.tracker.confirmation import (
    CannotCompareError,
    Question,
    confirm,
    read_confirmations,
    with_confirmations,
)
from scripts.tracker.errors import TrackerError
from scripts.tracker.groups import group_findings
from scripts.tracker.model import Commit, Decision, Verdict
from scripts.tracker.policy import read_policy
from scripts.tracker.session_files import SessionFile

POLICY = read_policy()
BEFORE, AFTER = Commit("a" * 40, "1"), Commit("b" * 40, "2")
QUESTION = Question("f" * 12, "atomic_add", "inline_asm", BEFORE, AFTER, "time")


def session(effects: dict[str, float], seed: int = 1, noise: float = 0.003, **changes: Any) -> SessionFile:
    """Ten blocks in which each variant takes 1 ms before and 1 ms times its effect after; clocks drift."""
    rng = random.Random(seed)
    drift = [1 + 0.02 * rng.random() for _ in range(10)]
    subjects = []
    for commit, is_after in ((BEFORE, False), (AFTER, True)):
        for variant, effect in effects.items():
            base_s = 1e-3 * (effect if is_after else 1.0)
            subjects.append(
                {
                    "commit": commit.commit,
                    "label": commit.label,
                    "copy": 1,
                    "variant": variant,
                    "status": "ok",
                    "message": None,
                    "identity": [f"{variant}{is_after}"],
                    "shared_with": None,
                    "kernel_s": [base_s * d * (1 + rng.gauss(0, noise)) for d in drift],
                    "backward_s": [],
                }
            )
    block = {"series": "kernel", "valid": True, "before": {"power_capped": False}}
    document = {
        "schema": 2,
        "complete": True,
        "status": "ok",
        "note": None,
        "target": "cuda:90",
        "case": {"head_dim": 64, "causal": True, "dtype": "fp16", "n_ctx": 2048},
        "device": {"gpu": "NVIDIA H100", "driver": "1", "power_limit_w": 700.0},
        "started_at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).isoformat(),
        "subjects": subjects,
        "canaries": {},
        "blocks": [{**block, "after": {"power_capped": False}}] * 10,
    }
    return msgspec.convert({**document, **changes}, SessionFile)


def decide(sessions: list[SessionFile], question: Question = QUESTION) -> Decision:
    return confirm(question, sessions, POLICY.timing, POLICY.confirm).decision


def test_a_real_change_is_different_after_two_sessions_and_unknown_after_one() -> None:
    found = [session({"atomic_add": 1.2, "inline_asm": 1.0}, seed) for seed in (1, 2)]
    assert decide(found[:1]) is Decision.UNKNOWN
    assert decide(found) is Decision.DIFFERENT


def test_repeats_inside_one_session_never_decide() -> None:
    # mssql-rs 434: four repeats in one session were all +6 %, the next session 0 %.
    lucky = session({"atomic_add": 1.06, "inline_asm": 1.0}, noise=0.0001)
    assert decide([lucky]) is Decision.UNKNOWN
    others = [session({"atomic_add": 1.0, "inline_asm": 1.0}, seed) for seed in (2, 3)]
    answer = confirm(QUESTION, [lucky, *others], POLICY.timing, POLICY.confirm)
    assert answer.legs[0].effect.change < 0.03


def test_no_change_is_the_same() -> None:
    found = [session({"atomic_add": 1.0, "inline_asm": 1.0}, seed) for seed in (1, 2)]
    assert decide(found) is Decision.SAME


def test_a_change_at_the_threshold_stays_unknown() -> None:
    least = POLICY.confirm.min_relative_change
    found = [session({"atomic_add": 1 + 0.95 * least, "inline_asm": 1.0}, seed) for seed in (1, 2)]
    assert decide(found) is Decision.UNKNOWN


def test_a_claim_about_the_reference_is_asked_of_the_ratio() -> None:
    found = [session({"atomic_add": 1.0, "inline_asm": 0.8}, seed) for seed in (1, 2)]
    assert decide(found) is Decision.SAME
    answer = confirm(replace(QUESTION, of="ratio"), found, POLICY.timing, POLICY.confirm)
    assert answer.decision is Decision.DIFFERENT
    assert answer.ratio.change == pytest.approx(0.25, abs=0.01)
    assert [leg.variant for leg in answer.legs] == ["atomic_add", "inline_asm"]
    assert answer.legs[1].after_s == pytest.approx(0.8e-3, rel=0.03)


def test_sessions_that_agree_by_luck_are_not_believed_to_the_digit() -> None:
    still = [session({"atomic_add": 1.0, "inline_asm": 1.0}, 1, noise=1e-9)] * 2
    answer = confirm(QUESTION, still, POLICY.timing, POLICY.confirm)
    assert answer.legs[0].effect.high > POLICY.timing.session_spread


def test_a_failed_kernel_is_named_with_its_reason() -> None:
    broken = session({"atomic_add": 1.0, "inline_asm": 1.0})
    broken.subjects[2].status, broken.subjects[2].message = "failed", "did not end within 20 s"
    with pytest.raises(CannotCompareError, match="atomic_add: failed at 2: did not end within 20 s"):
        decide([broken])


def test_a_throttled_session_says_so_whatever_it_holds() -> None:
    throttled = session(
        {"atomic_add": 1.2, "inline_asm": 1.0}, status="no_valid_data", note="12 of 20 blocks"
    )
    with pytest.raises(CannotCompareError, match="no_valid_data: 12 of 20 blocks"):
        decide([throttled])


@pytest.mark.parametrize("truth", [1.0, 1.03])
def test_false_answers_are_rare(truth: float) -> None:
    """At 3 % and at nothing, with the sessions' spread of the policy: 200 sequences of up to six sessions."""
    wrong = 0
    for world in range(200):
        rng = random.Random(world)
        sessions: list[SessionFile] = []
        while len(sessions) < POLICY.confirm.max_sessions:
            luck = 1 + rng.gauss(0, POLICY.timing.session_spread)
            effects = {"atomic_add": truth * luck, "inline_asm": 1.0}
            sessions.append(session(effects, seed=rng.randrange(10**9)))
            if (decision := decide(sessions)) is not Decision.UNKNOWN:
                break
        wrong += decision is (Decision.DIFFERENT if truth == 1.0 else Decision.SAME)
    assert wrong == 0


def answer_of(folder: Path, **changes: Any) -> Path:
    found = [session({"atomic_add": 1.2, "inline_asm": 1.0}, seed) for seed in (1, 2)]
    answer = confirm(QUESTION, found, POLICY.timing, POLICY.confirm)
    path = folder / f"{answer.finding}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode({**asdict(answer), **changes}))
    return path


def test_an_answer_is_read_back(tmp_path: Path) -> None:
    answer_of(tmp_path)
    [(finding, answer)] = read_confirmations(tmp_path).items()
    assert (finding, answer.decision, answer.sessions) == (QUESTION.finding, Decision.DIFFERENT, 2)
    assert answer.asked.change == pytest.approx(0.2, abs=0.01)
    assert read_confirmations(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"legs": []},
        {"decision": "MAYBE"},
        {"finding": "other"},
        {"sessions": 0},
        {"gpu": "H[/]200"},
        {"driver": "\x1b]0;x\x07"},
    ],
)
def test_a_damaged_answer_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    path = answer_of(tmp_path, **change)
    with pytest.raises(TrackerError, match=rf"{path.name}: not an answer of scripts.confirm"):
        read_confirmations(tmp_path)


def test_an_answer_about_other_kernels_says_nothing(tmp_path: Path) -> None:
    answer_of(tmp_path)
    answers = read_confirmations(tmp_path)
    suspicion = replace(finding(Verdict.REGRESSION), id=QUESTION.finding, before=BEFORE, after=AFTER)

    def today(commit: str, variant: str, _case: object) -> tuple[str, ...] | None:
        return (f"{variant}{commit == AFTER.commit}",)

    [confirmed] = with_confirmations([suspicion], answers, today)
    assert confirmed.confirmation == answers[QUESTION.finding]
    [renewed] = with_confirmations([suspicion], answers, lambda *_: ("compiled anew",))
    assert renewed.confirmation is None
    [unknown] = with_confirmations([suspicion], answers, lambda *_: None)
    assert unknown.confirmation is not None


@pytest.mark.parametrize(
    ("effect", "words"),
    [
        (1.2, "confirmed in 2 fresh sessions on NVIDIA H100: alone"),
        (1.0, "not reproduced in 2 fresh sessions on NVIDIA H100: alone"),
    ],
)
def test_the_table_says_what_fresh_sessions_said(effect: float, words: str) -> None:
    found = [session({"atomic_add": effect, "inline_asm": 1.0}, seed) for seed in (1, 2)]
    answer = confirm(QUESTION, found, POLICY.timing, POLICY.confirm)
    [group] = group_findings([replace(finding(Verdict.REGRESSION), confirmation=answer)])
    [line] = group.confirmations_of(Verdict.REGRESSION)
    assert line.startswith(words)
