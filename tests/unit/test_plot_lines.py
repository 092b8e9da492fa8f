"""Lines of plots: right values and intervals, no line over a gap or an epoch, no spike lost by thinning."""

import math

import numpy as np
import pytest
from builders import FACTS, HD64

from scripts.pages.plot_lines import MOST_POINTS, epochs_of, ratio_lines, tflops_lines, thinned
from scripts.tracker.model import Case, Commit, MeasurementStatus, TimingMeasurement
from scripts.tracker.policy import read_policy
from scripts.tracker.timing import hodges_lehmann

CASE = Case(64, True, "fp16", 2048)
HISTORY = [Commit(f"{n:040x}", f"c{n}") for n in range(6)]
TIMING = read_policy().timing


def timed(at: int, variant: str, samples: tuple[float, ...], machine: str = "h200") -> TimingMeasurement:
    status = MeasurementStatus.OK if samples else MeasurementStatus.FAILED
    return TimingMeasurement(
        HISTORY[at].commit, variant, CASE, status, f"{machine} {at}", samples, "1", machine
    )


def test_a_ratio_is_taken_block_by_block_with_its_interval() -> None:
    ours, theirs = (2.0, 4.2, 8.0), (1.0, 2.0, 4.0)  # the machine drifts, the ratio hardly does
    [line] = ratio_lines(
        CASE, [timed(1, "atomic_add", ours), timed(1, "inline_asm", theirs)], HISTORY, FACTS, TIMING
    )
    logs = [math.log(a / b) for a, b in zip(ours, theirs, strict=True)]
    centre = hodges_lehmann(logs)
    half = 1.96 * math.hypot(np.std(logs, ddof=1) / math.sqrt(3), TIMING.session_spread)
    assert (line.candidate, line.name, line.at.tolist(), line.taken) == ("atomic_add", "inline_asm", [1], 1)
    assert line.value[0] == pytest.approx(math.exp(centre))
    assert line.low[0] == pytest.approx(math.exp(centre - half))
    assert line.high[0] == pytest.approx(math.exp(centre + half))


def test_sessions_of_other_lengths_are_each_taken_whole() -> None:
    timings = [
        timed(at, variant, (seconds,) * blocks)
        for at, blocks in ((0, 3), (1, 5))
        for variant, seconds in (("atomic_add", 3.0), ("inline_asm", 2.0))
    ]
    [line] = ratio_lines(CASE, timings, HISTORY, FACTS, TIMING)
    assert line.value.tolist() == pytest.approx([1.5, 1.5])


def test_what_has_no_valid_time_breaks_the_line_and_is_no_point() -> None:
    timings = [timed(at, "inline_asm", (1.0, 1.0)) for at in range(4)]
    timings += [timed(at, "atomic_add", () if at == 2 else (2.0, 2.0)) for at in range(4)]
    [line] = ratio_lines(CASE, timings, HISTORY, FACTS, TIMING)
    assert line.at.tolist() == [0, 1, 3]
    assert line.gap.tolist() == [False, False, True]


def test_epochs_are_never_joined() -> None:
    timings = [
        timed(at, variant, (1.0, 1.0), machine)
        for at, machine in ((0, "h100"), (1, "h100"), (2, "h200"))
        for variant in ("atomic_add", "inline_asm")
    ]
    lines = ratio_lines(CASE, timings, HISTORY, FACTS, TIMING)
    assert [line.at.tolist() for line in lines] == [[0, 1], [2]]
    assert epochs_of(timings, HISTORY) == [("h100 version 1", 0, 1), ("h200 version 1", 2, 2)]


def test_a_commit_outside_the_history_is_not_drawn() -> None:
    stray = TimingMeasurement(
        "f" * 40, "store", CASE, MeasurementStatus.OK, "h200 1", (1.0, 1.0), "1", "h200"
    )
    assert tflops_lines(CASE, [stray], HISTORY, 1e12) == []
    assert epochs_of([stray], HISTORY) == []


def test_tflops_are_of_the_median() -> None:
    [line] = tflops_lines(CASE, [timed(0, "store", (0.5, 1.0, 4.0))], HISTORY, 1e12)
    assert line.value.tolist() == pytest.approx([1.0])
    assert line.low[0] < 1.0 < line.high[0]


def test_another_case_is_left_out() -> None:
    assert tflops_lines(HD64, [timed(0, "store", (1.0, 1.0))], HISTORY, 1e12) == []


def test_thinning_keeps_ends_and_every_extreme() -> None:
    values = np.sin(np.arange(5000) / 300)
    values[1234], values[4321] = 9.0, -9.0
    kept = thinned(values)
    assert len(kept) <= MOST_POINTS
    assert {0, 1234, 4321, 4999} <= set(kept.tolist())
    assert thinned(values[:MOST_POINTS]).tolist() == list(range(MOST_POINTS))
