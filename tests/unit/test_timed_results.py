"""Times in asv's files: a value and its samples that cannot both be true are refused, by name."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from builders import OLD, TIMED_VARIANTS, timed_document, write_asv

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import MeasurementStatus
from scripts.tracker.results import read_commit_results
from scripts.tracker.timed_results import TIMING_BENCHMARK, timing_measurements

VARIANT = TIMED_VARIANTS[0]


def file(folder: Path, value: float, samples: list[float]) -> Path:
    document = timed_document(OLD, {(VARIANT, 2048): samples})
    document["results"][TIMING_BENCHMARK][0][0] = value
    return write_asv(folder, document)


@pytest.mark.parametrize("value", [1e-3, 1.5e-3, 2e-3])
def test_a_value_among_its_samples_is_read(tmp_path: Path, value: float) -> None:
    times = timing_measurements(read_commit_results(file(tmp_path, value, [2e-3, 1e-3])))
    assert [t.samples_s for t in times if t.status is MeasurementStatus.OK] == [(2e-3, 1e-3)]


@pytest.mark.parametrize("value", [1.5, 1.5e-6, 2.1e-3, 0.9e-3])
def test_a_value_in_other_units_than_its_samples_is_refused(tmp_path: Path, value: float) -> None:
    path = file(tmp_path, value, [2e-3, 1e-3])
    with pytest.raises(
        TrackerError, match=r"lies outside its samples, 0\.001 to 0\.002 s.*delete it"
    ) as caught:
        timing_measurements(read_commit_results(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("samples", [[], [1e-3, 0.0], [-1e-3], [1e-3, math.inf]])
def test_a_value_without_samples_above_zero_is_refused(tmp_path: Path, samples: list[float]) -> None:
    with pytest.raises(TrackerError, match=r"samples|numbers"):
        timing_measurements(read_commit_results(file(tmp_path, 1e-3, samples)))
