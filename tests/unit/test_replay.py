"""The replay: known truth goes in, the shipped detector's figures come out, the same every time."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders import FACTS
from lived import lived
from rich.console import Console

from scripts.tracker.detect import detect
from scripts.tracker.model import Verdict
from scripts.tracker.policy import read_policy
from scripts.tracker.replay import play
from scripts.tracker.replay_report import print_speed, recorded_facts, same_code_pairs
from scripts.tracker.speed import VARIANTS, long_history, measure
from scripts.tracker.steps import Judgement
from scripts.tracker.workspace import Workspace
from scripts.tracker.worlds import EXPECTED, ROLES, Kind, head, make_world

POLICY = read_policy().detection


def test_a_world_is_the_same_every_time() -> None:
    one, two, other = (make_world(Kind.STEP, 0.1, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.panel.log_s, two.panel.log_s)
    assert (one.at, one.cases) == (two.at, two.cases)
    assert not np.array_equal(one.panel.log_s, other.panel.log_s)


def test_the_detector_sees_no_more_than_there_was() -> None:
    """An alarm of a commit does not change with what came after it."""
    world = make_world(Kind.STEP, 0.3, 3, commits=120, cases=2)
    whole = list(play(world, POLICY))
    first = whole[0]
    short = replace(world, panel=head(world.panel, first.seen + 1))
    assert next(iter(play(short, POLICY))) == first
    assert all(alarm.seen >= alarm.at for alarm in whole)


@pytest.mark.parametrize("kind", EXPECTED)
def test_what_happened_is_called_by_its_name(kind: Kind) -> None:
    world = make_world(kind, 0.3, 7)
    findings = detect(world.panel, ROLES, POLICY, Judgement())
    said = {f.verdict for f in findings if world.panel.cases.index(f.case) in world.cases}
    assert EXPECTED[kind] in said
    accusing = {Verdict.REGRESSION, Verdict.IMPROVEMENT} - {EXPECTED[kind]}
    assert not said & accusing


def test_a_step_is_told_in_time_and_nothing_is_told_without_one() -> None:
    step = [a for a in play(make_world(Kind.STEP, 0.5, 11, cases=2), POLICY) if a.verdict.is_public]
    world = make_world(Kind.STEP, 0.5, 11, cases=2)
    assert {a.verdict for a in step} == {Verdict.REGRESSION}
    assert all(0 <= a.seen - world.at <= 3 for a in step)


def test_a_long_history_costs_no_more_than_it_should() -> None:
    """Counted, not timed: the figures of README come from `scripts.replay --speed 5000`."""
    panel = long_history(300)
    assert panel.log_s.shape == (40, 9, 300)
    speed = measure(300, POLICY, beside_asv=False)
    assert speed.findings == len(detect(panel, VARIANTS, POLICY, Judgement()))
    assert speed.findings > 100
    assert speed.peak_mib > 0
    console = Console(record=True, width=100, file=io.StringIO())
    print_speed(console, speed)
    assert f"{speed.findings} findings" in console.export_text()


def test_nothing_recorded_is_said(tmp_path: Path) -> None:
    assert recorded_facts(Workspace(tmp_path)) is None


def test_the_same_code_timed_anew_is_an_a_a_pair() -> None:
    same = {v: ["same", "same"] for v in FACTS}
    pairs = same_code_pairs(lived({}, 2, code=same))
    assert sorted((c, r) for c, r, *_ in pairs) == [("atomic_add", "inline_asm"), ("atomic_add", "store")]
    assert same_code_pairs(lived({}, 2, code=same | {"atomic_add": ["old", "new"]})) == []
    assert same_code_pairs(lived({}, 2)) == []  # unknown code is not the same code


def test_a_kernel_whose_time_is_shared_says_nothing_of_noise() -> None:
    history = lived({}, 2, code={v: ["same", "same"] for v in FACTS})
    first = {t.variant: t.samples_s for t in history.timings[: len(FACTS)]}
    history.timings = [replace(t, samples_s=first[t.variant]) for t in history.timings]
    assert same_code_pairs(history) == []
