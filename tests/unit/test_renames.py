"""Renamed series go on; without an entry one ends and another begins, and nothing is said to have changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import OLD
from test_canaries import document

from scripts.tracker.errors import TrackerError
from scripts.tracker.renames import AddedParameter, Renamed, Renames, read_renames, renamed
from scripts.tracker.results import CommitResults, read_commit_results
from scripts.tracker.timed_results import TIMING_BENCHMARK, timing_measurements


@pytest.fixture
def results(tmp_path: Path) -> CommitResults:
    from builders import write_asv

    return read_commit_results(write_asv(tmp_path, document(OLD.commit, 1, {"store": 2e-3}, None)))


def test_the_shipped_map_is_read_and_changes_nothing(results: CommitResults) -> None:
    assert renamed(results, read_renames()) == results


def test_a_renamed_benchmark_is_found_under_todays_name(results: CommitResults) -> None:
    old = replace(results, benchmarks={"old.name": results.benchmarks[TIMING_BENCHMARK]})
    assert timing_measurements(old) == []
    today = renamed(old, Renames(benchmark=(Renamed("old.name", TIMING_BENCHMARK),)))
    assert timing_measurements(today) == timing_measurements(results)


def test_a_renamed_variant_goes_on(results: CommitResults) -> None:
    today = renamed(results, Renames(variant=(Renamed("store", "plain_store"),)))
    times = {t.variant: t.samples_s[0] for t in timing_measurements(today)}
    assert times["plain_store"] == 2e-3
    assert "store" not in times


def test_a_parameter_that_came_later_has_the_value_of_then(results: CommitResults) -> None:
    row = results.benchmarks[TIMING_BENCHMARK]
    old = replace(results, benchmarks={TIMING_BENCHMARK: replace(row, params=row.params[:-1])})
    with pytest.raises(TrackerError, match="4 parameters"):
        timing_measurements(old)
    added = AddedParameter("attention_backward.", 4, 5, "'fp16'")
    assert timing_measurements(renamed(old, Renames(parameter=(added,)))) == timing_measurements(results)
    # What has it already is left as it is.
    assert renamed(results, Renames(parameter=(added,))) == results


def test_one_file_with_both_names_is_refused(results: CommitResults) -> None:
    row = results.benchmarks[TIMING_BENCHMARK]
    both = replace(results, benchmarks={"old.name": row, TIMING_BENCHMARK: row})
    with pytest.raises(TrackerError, match=f"{results.path.name}.*two names"):
        renamed(both, Renames(benchmark=(Renamed("old.name", TIMING_BENCHMARK),)))
    with pytest.raises(TrackerError, match=f"{results.path.name}.*two names"):
        renamed(results, Renames(variant=(Renamed("store", "none"),)))


@pytest.mark.parametrize(
    "text", ["[[variant]]\nold = 1\nnew = 'b'", "[[variants]]\n", "{", "[[parameter]]\nposition = -1"]
)
def test_a_damaged_map_names_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "renames.toml"
    path.write_text(text)
    with pytest.raises(TrackerError, match=r"renames\.toml.*git"):
        read_renames(path)
