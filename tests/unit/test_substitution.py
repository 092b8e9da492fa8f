"""What swaps prove, and what they do not: each pattern of values has one answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Stage
from scripts.tracker.substitution import FED, Follows, Proof, Side, Trial, narrow_by_texts, prove, read_trials

VALUES = {Side.BEFORE: 0.0, Side.AFTER: 8.0}
OWN = {Side.BEFORE: ["code of before"], Side.AFTER: ["code of after"]}


def trials_of(tools: Side, fed: list[float | str]) -> list[Trial]:
    """Trials of one side's tools: its own texts come out as they were, the other side's give ``fed``, for
    ttir, ttgir, llir and ptx; a word is the reason of a refusal."""
    found = [Trial(tools, stage, {"m": VALUES[tools]}, OWN[tools]) for stage in FED]
    for stage, value in zip(FED, fed, strict=True):
        if isinstance(value, str):
            found.append(Trial(tools.other, stage, refused=value))
        else:
            found.append(Trial(tools.other, stage, {"m": value}, ["another"]))
    return found


def proof(in_before: list[float | str], in_after: list[float | str]) -> Proof:
    trials = {Side.BEFORE: trials_of(Side.BEFORE, in_before), Side.AFTER: trials_of(Side.AFTER, in_after)}
    return prove("m", VALUES, trials, OWN)


@pytest.mark.parametrize(
    ("guilty", "in_before", "in_after"),
    [
        (Stage.TTIR, [8, 8, 8, 8], [0, 0, 0, 0]),
        (Stage.TTGIR, [0, 8, 8, 8], [8, 0, 0, 0]),
        (Stage.LLIR, [0, 0, 8, 8], [8, 8, 0, 0]),
        (Stage.PTX, [0, 0, 0, 8], [8, 8, 8, 0]),
        (Stage.SASS, [0, 0, 0, 0], [8, 8, 8, 8]),
    ],
)
def test_the_stage_where_the_metric_turns_from_tools_to_text_is_guilty(
    guilty: Stage, in_before: list[float | str], in_after: list[float | str]
) -> None:
    found = proof(in_before, in_after)
    assert found.guilty == (guilty,)
    assert f"m 0 -> 8: {guilty} did it (" in found.explain()
    assert found.explain().endswith("shown both ways.")


def test_a_text_that_is_refused_is_not_innocent() -> None:
    found = proof([0, "unknown op", 8, 8], [8, "unknown op", "no parse", 0])
    assert found.guilty == (Stage.TTGIR, Stage.LLIR)
    assert "one of ttgir, llir did it" in found.explain()
    refused = [swap for swap in found.swaps if swap.stage is Stage.TTGIR]
    assert [swap.follows for swap in refused] == [Follows.UNKNOWN, Follows.UNKNOWN]
    assert refused[0].reason == "cannot be fed: unknown op"


def test_one_way_may_close_what_the_other_leaves_open() -> None:
    found = proof(["x", "x", "x", "x"], [8, 8, 8, 8])
    assert found.guilty == (Stage.SASS,)
    assert found.explain().endswith("shown one way only.")
    assert proof([0, "x", "x", 0], [8, 8, 0, 0]).guilty == ()  # the two ways disagree
    assert proof([0, "x", "x", 8], [8, 8, 0, 0]).guilty == (Stage.LLIR,)


def test_nothing_could_be_fed() -> None:
    found = proof(["x"] * 4, ["x"] * 4)
    assert found.guilty == tuple(Stage)
    assert found.explain() == "m 0 -> 8: nothing is proved, because no text could be swapped."


def test_a_metric_that_moves_in_steps_is_not_one_stages_doing() -> None:
    found = proof([0, 3, 8, 8], [8, 6, 0, 0])
    assert found.guilty == ()
    assert found.parts(Side.BEFORE) == [((Stage.TTGIR,), 3.0), ((Stage.LLIR,), 5.0)]
    assert found.parts(Side.AFTER) == [((Stage.TTGIR,), 2.0), ((Stage.LLIR,), 6.0)]
    assert found.explain() == (
        "m 0 -> 8: not one stage's doing alone. Text by text in the tools of before: ttgir +3, llir +5. "
        "Text by text in the tools of after: ttgir +2, llir +6."
    )


def test_a_part_that_lies_between_two_texts_is_said_of_both_stages() -> None:
    assert proof([0, "x", 4, 8], [8, 8, 0, 0]).parts(Side.BEFORE) == [
        ((Stage.TTGIR, Stage.LLIR), 4.0),
        ((Stage.PTX,), 4.0),
    ]


@pytest.mark.parametrize(
    ("value", "follows"), [(2.0, Follows.TOOLS), (2.1, Follows.NEITHER), (6.0, Follows.TEXT)]
)
def test_a_count_belongs_to_a_side_only_if_it_is_near(value: float, follows: Follows) -> None:
    found = proof([value, 8, 8, 8], [0, 0, 0, 0])
    assert found.swaps[0].follows is follows


@pytest.mark.parametrize(
    "control",
    [
        Trial(Side.BEFORE, Stage.PTX, {"m": 0.0}, ["other code"]),
        Trial(Side.BEFORE, Stage.PTX, refused="ptxas died"),
    ],
)
def test_a_text_of_its_own_that_does_not_come_out_as_it_was_proves_nothing(control: Trial) -> None:
    trials = {side: trials_of(side, [0, 0, 0, 8] if side is Side.BEFORE else ["x"] * 4) for side in Side}
    good = prove("m", VALUES, trials, OWN)
    assert good.guilty == (Stage.PTX,)
    trials[Side.BEFORE] = [
        control if (t.text_of, t.stage) == (Side.BEFORE, Stage.PTX) else t for t in trials[Side.BEFORE]
    ]
    bad = prove("m", VALUES, trials, OWN)
    assert bad.guilty == (Stage.PTX, Stage.SASS)
    assert "its own text cannot be fed back" in bad.swaps[3].reason


def test_the_texts_narrow_what_the_swaps_leave_open_and_nothing_else() -> None:
    several = proof([0, "x", 8, 8], [8, "x", 0, 0])
    assert narrow_by_texts(several, Stage.LLIR) == (
        "m: of these, llir is the first whose text differs on dQ's path."
    )
    assert narrow_by_texts(several, Stage.SASS) is None  # the swaps have cleared it
    assert narrow_by_texts(several, None) is None
    assert narrow_by_texts(proof([0, 0, 8, 8], [8, 8, 0, 0]), Stage.LLIR) is None


def test_the_same_machine_code_is_told() -> None:
    trials = {side: trials_of(side, [8, 8, 8, 8] if side is Side.BEFORE else [0, 0, 0, 0]) for side in Side}
    trials[Side.BEFORE][-1] = Trial(Side.AFTER, Stage.PTX, {"m": 8.0}, OWN[Side.AFTER])
    same = {(s.tools, s.stage) for s in prove("m", VALUES, trials, OWN).swaps if s.same_code}
    assert same == {(Side.BEFORE, Stage.PTX)}


def test_a_trial_that_is_missing_is_unknown() -> None:
    found = prove("m", VALUES, {Side.BEFORE: [], Side.AFTER: []}, OWN)
    assert {swap.follows for swap in found.swaps} == {Follows.UNKNOWN}


def test_trials_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "trials.json"
    written = [
        {"text_of": "before", "stage": "ttir", "metrics": {"m": 1, "n": None}, "identity": ["a"]},
        {"text_of": "after", "stage": "ptx", "refused": "why"},
    ]
    path.write_text(json.dumps(written))
    assert read_trials(path) == [
        Trial(Side.BEFORE, Stage.TTIR, {"m": 1.0, "n": None}, ["a"]),
        Trial(Side.AFTER, Stage.PTX, refused="why"),
    ]


@pytest.mark.parametrize(
    "content", ["", "[", "{}", '[{"stage": "ptx"}]', '[{"text_of": "x", "stage": "ptx"}]']
)
def test_a_damaged_file_of_trials_is_one_clear_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "trials.json"
    path.write_text(content)
    with pytest.raises(TrackerError, match="run prove again") as raised:
        read_trials(path)
    assert str(path) in str(raised.value)
