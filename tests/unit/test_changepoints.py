"""Changes of level: found where they are, in their size, and not in noise, whatever its tail."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from scripts.tracker.changepoints import chance, least_size, scan
from scripts.tracker.policy import DetectionPolicy, read_policy
from scripts.tracker.series import FloatArray
from scripts.tracker.spread import despike, spread

POLICY: DetectionPolicy = read_policy().detection


def found(*rows: FloatArray, relevant: float = 0.02) -> list[list[tuple[int, float]]]:
    """(first column of the new level, size) of every row."""
    result = scan(np.array(rows), np.full(len(rows), relevant), POLICY)
    return [[(s.at, round(s.size, 3)) for s in of] for of in result.shifts]


def noise(seed: int, n: int = 300, sigma: float = 0.005) -> FloatArray:
    return np.random.default_rng(seed).standard_t(4, n) / math.sqrt(2) * sigma


def stairs(*levels: tuple[int, float]) -> FloatArray:
    return np.concatenate([np.full(n, value) for n, value in levels])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (stairs((60, 0.0)), []),
        (stairs((30, 0.0), (30, 0.1)), [(30, 0.1)]),
        (stairs((30, 0.0), (20, 0.7), (30, 0.4)), [(30, 0.7), (50, -0.3)]),
        (stairs((3, 0.0), (60, 0.1)), [(3, 0.1)]),
        (stairs((60, 0.0), (3, 0.1)), [(60, 0.1)]),
        (stairs((60, 0.0), (2, 0.1)), []),  # too few to be a level
        (stairs((40, 0.0), (1, 0.3), (39, 0.0)), []),
        (stairs((40, 0.0), (2, 0.3), (39, 0.0)), []),
    ],
)
def test_levels_without_noise(row: FloatArray, expected: list[tuple[int, float]]) -> None:
    assert found(row) == [expected]


def test_steps_in_noise_are_found_near_their_place() -> None:
    rows = [noise(seed) for seed in range(40)]
    for row in rows:
        row[150:] += 0.03  # six standard deviations
    places = found(*rows)
    assert sum(len(of) == 1 and abs(of[0][0] - 150) <= 2 for of in places) >= 38


def test_noise_is_no_change() -> None:
    """600 series of 300 commits with heavy tails: the false discovery rate lets next to nothing through."""
    rows = np.array([noise(seed) for seed in range(600)])
    result = scan(rows, np.full(len(rows), 0.02), POLICY)
    assert sum(len(of) for of in result.shifts) <= 2
    assert sum(s is not None for s in result.suspects) <= 30  # a fifth of a hundredth would be one


def test_more_series_ask_for_more() -> None:
    few, many = (scan(np.array([noise(s) for s in range(n)]), np.full(n, 0.02), POLICY) for n in (1, 200))
    assert few.accept_p > many.accept_p


def test_gaps_do_not_move_the_place() -> None:
    row = stairs((30, 0.0), (40, 0.1))
    row[[5, 6, 29, 30, 31, 50]] = math.nan
    result = scan(row[None], np.array([0.02]), POLICY)
    [[shift]] = result.shifts
    assert (shift.before, shift.at) == (28, 32)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("value", [0.0, math.nan])
def test_short_and_empty_rows_are_no_trouble(n: int, value: float) -> None:
    result = scan(np.full((3, n), value), np.full(3, 0.02), POLICY)
    assert result.shifts == [[], [], []]
    assert result.suspects == [None, None, None]


def test_no_rows_at_all() -> None:
    assert scan(np.empty((0, 50)), np.empty(0), POLICY).shifts == []


@pytest.mark.parametrize("after", [1, 2])
def test_the_last_values_are_a_suspicion(after: int) -> None:
    result = scan(stairs((58, 0.0), (after, 0.1))[None], np.array([0.02]), POLICY)
    assert result.shifts == [[]]
    [suspect] = result.suspects
    assert suspect is not None
    assert (suspect.at, suspect.points_after) == (58, after)


def test_the_same_series_in_other_company_has_the_same_places() -> None:
    rows = [stairs((30, 0.0), (30, 0.2)), noise(1, 60)]
    assert found(*rows)[0] == found(rows[0])[0]


def test_the_spread_does_not_see_steps_and_has_a_floor() -> None:
    row = noise(3, 400)
    row[200:] += 1.0
    assert spread(row[None], 0.001)[0] == pytest.approx(0.0055, rel=0.3)
    assert spread(stairs((50, 0.0))[None], 0.001)[0] == 0.001


def test_a_slow_wander_widens_the_spread() -> None:
    steps = np.random.default_rng(5).normal(0, 0.001, 500)
    assert spread(np.cumsum(steps)[None], 0.0)[0] > 2 * 0.001


def test_only_a_value_that_leaves_both_neighbours_is_a_spike() -> None:
    row = np.array([[0.0, 0.0, 0.5, 0.0, 0.0, 1.0, 1.0, 1.0]])
    assert despike(row, np.array([0.1])).tolist() == [[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]]


@pytest.mark.parametrize("n", [1, 3, 4, 7, 30])
def test_chance_is_that_of_the_order_statistic(n: int) -> None:
    """Against scipy's own distributions, with the scale of a spread that a MAD measured."""
    size, more = 1.7, 1e12
    sigma_of_t4 = 1.4826 * stats.t.ppf(0.75, 4)
    above = stats.t.sf(size * sigma_of_t4, 4)
    expected = 2 * stats.binom.sf(n // 2, n, above)
    assert chance(size, 1.0, n, int(more)) == pytest.approx(min(expected, 1.0), rel=1e-3)


def test_the_least_size_is_the_inverse_of_chance() -> None:
    for p in (1e-3, 1e-8):
        for n in (3, 10):
            size = least_size(p, n, 30)
            assert chance(size * 1.01, 1.0, n, 30) < p < chance(size * 0.99, 1.0, n, 30)


def test_cost_is_linear_in_commits() -> None:
    """Work, not time: PELT never sees more than a piece, however long or restless the series is."""
    from scripts.tracker import changepoints

    lengths: list[int] = []
    pelt = changepoints._pelt

    def counted(values: FloatArray, policy: DetectionPolicy) -> list[int]:
        lengths.append(len(values))
        return pelt(values, policy)

    totals = []
    for n in (2000, 4000):
        lengths.clear()
        row = np.cumsum(np.random.default_rng(1).normal(0, 0.05, n // 10)).repeat(10)
        row += np.random.default_rng(2).normal(0, 0.001, n)
        changepoints._pelt = counted  # type: ignore[assignment]
        try:
            scan(row[None], np.array([0.02]), POLICY)
        finally:
            changepoints._pelt = pelt
        assert max(lengths) <= 400
        totals.append(sum(lengths))
    assert totals[1] < 2.5 * totals[0]
