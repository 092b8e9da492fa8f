"""A range is closed to the one that changed something, or as far as can be told, and never farther."""

import pytest
from history_builders import sha

from scripts.tracker.bisection import Answer, Bisection, Outcome, Probe, Probed, close_range
from scripts.tracker.model import Commit

COMMITS = [Commit(sha(n), str(n)) for n in range(12)]


class World:
    """Commits that change at one of them. ``wrong``: answers that an attempt gets instead of the truth."""

    def __init__(
        self,
        culprit: int,
        broken: tuple[int, ...] = (),
        stored: tuple[int, ...] = (),
        wrong: dict[tuple[int, int], Answer] | None = None,
    ) -> None:
        self.culprit, self.broken, self.stored = culprit, broken, stored
        self.wrong = wrong or {}
        self.asked: list[tuple[int, bool]] = []

    def ask(self, commit: Commit, fresh: bool) -> Probed:
        n = int(commit.label)
        attempt = sum(m == n for m, _ in self.asked)
        self.asked.append((n, fresh))
        if n in self.broken:
            return Probed(Answer.SKIPPED, "does not build")
        truth = Answer.NEW if n >= self.culprit else Answer.OLD
        return Probed(self.wrong.get((n, attempt), truth), "a value")

    def costs(self, commit: Commit) -> bool:
        return int(commit.label) not in self.stored

    def close(self, budget: int = 100, verify: bool = True) -> Bisection:
        return close_range(COMMITS, Probe(self.ask, self.costs), budget, verify)


@pytest.mark.parametrize("culprit", range(1, 12))
def test_the_culprit_is_found_and_verified_with_its_parent(culprit: int) -> None:
    world = World(culprit)
    found = world.close()
    assert found.outcome is Outcome.CULPRIT
    assert (found.last_old.label, found.first_new.label) == (str(culprit - 1), str(culprit))
    assert found.between == ()
    assert world.asked[-3:] == [(culprit - 1, True), (culprit, True), (culprit - 1, True)]
    # Two ends, three of the sandwich, and halving: never all of the range.
    assert len(world.asked) <= 2 + 3 + 4


def test_both_ends_are_asked_before_anything_else() -> None:
    world = World(5)
    world.close()
    assert world.asked[:2] == [(0, False), (11, False)]


@pytest.mark.parametrize("culprit", [0, 12])
def test_an_end_that_does_not_reproduce_stops_it_at_once(culprit: int) -> None:
    world = World(culprit)
    found = world.close()
    assert found.outcome is Outcome.NOT_REPRODUCED
    assert len(world.asked) <= 2
    assert "should be" in found.why


def test_an_end_that_does_not_build_is_not_reproduced_either() -> None:
    assert World(5, broken=(11,)).close().outcome is Outcome.NOT_REPRODUCED


def test_a_commit_that_does_not_build_is_skipped_and_not_blamed() -> None:
    found = World(4, broken=(5, 6, 7)).close()
    assert found.outcome is Outcome.CULPRIT
    assert found.first_new.label == "4"


def test_skipped_commits_beside_the_culprit_leave_a_range() -> None:
    found = World(6, broken=(5, 6)).close()
    assert found.outcome is Outcome.RANGE
    assert (found.last_old.label, found.first_new.label) == ("4", "7")
    assert [c.label for c in found.between] == ["5", "6"]
    assert "5: does not build; 6: does not build" in found.why


def test_all_between_broken_is_the_whole_range() -> None:
    found = World(6, broken=tuple(range(1, 11))).close()
    assert found.outcome is Outcome.RANGE
    assert len(found.between) == 10


@pytest.mark.parametrize(("flaky", "culprit"), [(5, 3), (5, 8), (8, 7), (2, 4)])
@pytest.mark.parametrize("lie", [Answer.OLD, Answer.NEW])
def test_one_wrong_answer_is_caught_by_asking_once_more(flaky: int, culprit: int, lie: Answer) -> None:
    found = World(culprit, wrong={(flaky, 0): lie}).close()
    if found.outcome is Outcome.CULPRIT:
        assert found.first_new.label == str(culprit)
    else:
        assert found.outcome is Outcome.RANGE
        assert int(found.last_old.label) < culprit <= int(found.first_new.label)


def test_a_flaky_end_is_not_reproduced() -> None:
    found = World(1, wrong={(0, 1): Answer.NEW}).close()
    assert found.outcome is Outcome.NOT_REPRODUCED
    assert "does not answer the same twice" in found.why


def test_a_parent_that_changes_its_mind_at_the_third_time_is_caught() -> None:
    found = World(5, wrong={(4, 2): Answer.NEW}).close()
    assert found.outcome is Outcome.RANGE
    assert [c.label for c in found.between] == ["4"]


def test_what_is_stored_is_asked_first() -> None:
    world = World(5, stored=(0, 3, 4, 6, 11))
    found = world.close(verify=False)
    assert (found.outcome, found.first_new.label) == (Outcome.UNVERIFIED, "5")
    assert [n for n, _ in world.asked if n not in world.stored] == [5]


def test_an_empty_budget_leaves_an_honest_range() -> None:
    world = World(5, stored=(0, 3, 8, 11))
    found = world.close(budget=1)
    assert found.outcome is Outcome.RANGE
    assert found.why == "no more commits may be built"
    assert int(found.last_old.label) < 5 <= int(found.first_new.label)
    assert sum(n not in world.stored for n, _ in world.asked) == 1


def test_without_budget_for_the_sandwich_the_culprit_is_not_verified() -> None:
    found = World(5, stored=tuple(range(12))).close(budget=2)
    assert (found.outcome, found.first_new.label) == (Outcome.UNVERIFIED, "5")
    assert "no more commits may be built" in found.why


def test_every_step_is_told_and_kept() -> None:
    told = []
    world = World(5)
    found = close_range(COMMITS, Probe(world.ask, world.costs), 100, True, told.append)
    assert tuple(told) == found.steps
    assert [(int(s.commit.label), s.fresh) for s in found.steps] == world.asked


def test_a_range_has_two_ends() -> None:
    with pytest.raises(ValueError, match="two ends"):
        close_range(COMMITS[:1], Probe(World(0).ask, World(0).costs), 1, True)


def test_an_end_that_may_not_be_built_leaves_the_whole_range() -> None:
    world = World(5, stored=(0,))
    found = world.close(budget=0)
    assert found.outcome is Outcome.RANGE
    assert found.why == "11 was not asked: no more commits may be built"
    assert world.asked == [(0, False)]
