"""From samples to columns: one value a session, the median of a commit's sessions, an epoch at a time."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from builders import FACTS
from lived import BLOCKS, CASE, commits, lived, timed

from scripts.tracker.series import ORPHANED, build_panels, hodges_lehmann, median, middle, session_values
from scripts.tracker.timing import hodges_lehmann as plain_hodges_lehmann


def test_medians_leave_out_what_is_not_valid() -> None:
    rows = np.array([[3.0, 1.0, math.nan, 2.0], [math.nan] * 4, [1.0, 2.0, 3.0, 10.0]])
    assert median(rows).tolist()[0] == 2.0
    assert math.isnan(median(rows)[1])
    assert median(rows)[2] == 2.5
    assert [middle(row) for row in rows[[0, 2]]] == [2.0, 2.5]
    assert math.isnan(middle(rows[1]))


def test_the_centre_is_that_of_timing() -> None:
    values = [0.0, 1.0, 5.0, 2.0, 100.0]
    assert float(hodges_lehmann(np.array(values))) == plain_hodges_lehmann(values)


def test_what_a_block_does_to_all_is_taken_out() -> None:
    """Blocks that wander by a half leave the ratio exact."""
    blocks = [1.0, 1.5, 0.7, 1.2, 2.0]
    values = session_values({"a": [2e-3 * b for b in blocks], "b": [1e-3 * b for b in blocks]})
    assert values["a"] - values["b"] == pytest.approx(math.log(2))


def test_other_numbers_of_blocks_are_not_aligned_and_still_count() -> None:
    values = session_values({"a": [2e-3] * 5, "b": [1e-3] * 5, "c": [4e-3] * 3})
    assert values["c"] - values["b"] == pytest.approx(math.log(4))


def test_a_commit_measured_again_has_the_median_of_its_sessions() -> None:
    history = lived({"atomic_add": [1.0, (1.0, 1.3, 1.02), 1.0]}, 3)
    [panel] = build_panels(history.timings, [], history.commits, "t", {}, Counter())
    assert panel.commit_of.tolist() == [0, 1, 1, 1, 2]
    ratio = panel.log_s[0, panel.variant("atomic_add")] - panel.log_s[0, panel.variant("store")]
    assert np.exp(panel.by_commit(ratio)) == pytest.approx([1.0, 1.02, 1.0], abs=0.004)


def test_the_same_session_twice_is_one_point() -> None:
    history = lived({}, 2)
    [panel] = build_panels(2 * history.timings, [], history.commits, "t", {}, Counter())
    assert panel.commit_of.tolist() == [0, 1]


def test_commits_stand_in_the_order_of_the_history_and_others_are_counted() -> None:
    order = commits(4)
    timings = [timed(order[i], v, 1.0, f"s{i}") for i in (3, 0, 2) for v in FACTS]
    counts: Counter[str] = Counter()
    [panel] = build_panels(timings, [], [order[0], order[1], order[2]], "t", {}, counts)
    assert [c.label for c in panel.commits] == ["c0", "c2"]
    assert panel.positions.tolist() == [0, 2]
    assert counts[ORPHANED] == 1


@pytest.mark.parametrize("field", ["machine", "setup", "version"])
def test_what_makes_an_epoch(field: str) -> None:
    history = lived({}, 4)
    late = {c.commit for c in history.commits[2:]}
    timings = [replace(t, **{field: "other"}) if t.commit in late else t for t in history.timings]  # type: ignore[arg-type]
    panels = build_panels(timings, [], history.commits, "t", {}, Counter())
    assert [[c.label for c in p.commits] for p in panels] == [["c0", "c1"], ["c2", "c3"]]


def test_canaries_are_rows_of_the_same_sessions() -> None:
    history = lived({}, 3, canary=[1.0, 1.1, 1.2])
    [panel] = build_panels(history.timings, history.canaries, history.commits, "t", {}, Counter())
    assert panel.canaries == ("sdpa_cudnn",)
    over = panel.log_s[0, panel.variant("atomic_add")] - panel.canary_level()[0]
    assert np.exp(over[0] - over) == pytest.approx([1.0, 1.1, 1.2], abs=0.005)


def test_equal_code_has_equal_numbers_and_unknown_code_none() -> None:
    history = lived({}, 3)
    bare = replace(CASE, n_ctx=None)
    known = {(history.commits[i].commit, "store", bare): (name,) for i, name in enumerate("aba")}
    [panel] = build_panels(history.timings, [], history.commits, "t", known, Counter())
    first, second, third = panel.codes[0, panel.variant("store")]
    assert first == third != second
    assert set(panel.codes[0, panel.variant("none")]) == {-1}


def test_no_valid_sample_is_no_value_and_no_listing_is_neither() -> None:
    history = lived({"store": [1.0, None]}, 2)
    last = history.commits[-1].commit
    history.timings = [t for t in history.timings if (t.commit, t.variant) != (last, "none")]
    [panel] = build_panels(history.timings, [], history.commits, "t", {}, Counter())
    assert np.isnan(panel.log_s[0, panel.variant("store"), 1])
    assert panel.listed[0, panel.variant("store"), 1]
    assert not panel.listed[0, panel.variant("none"), 1]
    assert len(history.timings[0].samples_s) == BLOCKS
