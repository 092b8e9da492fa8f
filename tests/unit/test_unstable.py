"""Two values at random are told from noise, spikes, steps and their recoveries."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scripts.tracker.series import FloatArray
from scripts.tracker.unstable import turns, unstable_windows


def windows(row: FloatArray) -> list[tuple[int, int]]:
    return unstable_windows(row[None], np.array([0.02]))[0]


def at_random(n: int, gap: float, seed: int = 0, share: float = 0.5) -> FloatArray:
    random = np.random.default_rng(seed)
    return np.where(random.random(n) < share, gap, 0.0) + random.normal(0, gap / 10, n)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("seed", range(4))
def test_two_values_at_random(seed: int, share: float) -> None:
    assert windows(at_random(60, 0.2, seed, share))


def test_a_short_series_is_enough() -> None:
    assert windows(at_random(20, 0.2))


def test_a_gap_too_small_to_matter_is_not() -> None:
    assert windows(at_random(60, 0.015)) == []


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_not(seed: int) -> None:
    assert windows(np.random.default_rng(seed).standard_t(4, 2000) * 0.05) == []


@pytest.mark.parametrize(
    "cuts", [(30,), (20, 40), (10, 20, 30), (10, 20, 30, 40)], ids=["step", "recovery", "three", "two pulses"]
)
def test_steps_are_not(cuts: tuple[int, ...]) -> None:
    row = np.random.default_rng(0).normal(0, 0.002, 60)
    for cut in cuts:
        row[cut:] = 0.1 - row[cut:]
    assert windows(row) == []


def test_spikes_are_not() -> None:
    row = np.random.default_rng(0).normal(0, 0.002, 60)
    row[[5, 17, 30, 44]] += 0.2
    assert windows(row) == []


def test_only_the_restless_part_is_named() -> None:
    row = np.concatenate([np.zeros(200), at_random(100, 0.2)])
    found = windows(row)
    assert found[-1][1] == 300
    assert 140 <= found[0][0] <= 220


def test_gaps_are_no_turns() -> None:
    row = at_random(60, 0.2)
    row[::7] = math.nan
    assert windows(row)
    assert not set(turns(row).tolist()) & set(range(0, 60, 7))


def test_turns_are_where_the_value_changes() -> None:
    assert turns(np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0])).tolist() == [2, 4, 5]
