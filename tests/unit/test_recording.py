"""Session files become asv results: samples with asv's statistics, and never a made-up number."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from builders import FACTS, TARGET, record_document, write_lists, write_record

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite
from scripts.tracker.model import Commit, MeasurementStatus
from scripts.tracker.recording import record_sessions
from scripts.tracker.releases import known_releases
from scripts.tracker.results import read_flops, read_results
from scripts.tracker.session_files import read_sessions
from scripts.tracker.store import EvidenceStore
from scripts.tracker.timed_results import timing_measurements

RELEASE = Commit("ab" * 20, known_releases()[1].version)
SUITE = Suite(
    version="timing-1",
    benchmarks=[f"attention_backward.AttentionBackward.track_{name}" for name in ("kernel", "backward")],
    params=[["'atomic_add'", "'inline_asm'", "'store'", "'none'"], ["2048"], ["64"], ["True"], ["'fp16'"]],
    param_names=["variant", "n_ctx", "head_dim", "causal", "dtype"],
    variants=FACTS,
    flops=[{"n_ctx": 2048, "head_dim": 64, "causal": True, "flops": 4.0e10}],
)


def subject(variant: str, **changes: Any) -> dict[str, Any]:
    entry = {
        "commit": RELEASE.commit,
        "label": RELEASE.label,
        "variant": variant,
        "status": "ok",
        "message": None,
        "identity": ["code 1"],
        "shared_with": None,
        "kernel_s": [1e-3, 9e-3, 2e-3, 3e-3],
        "backward_s": [4e-3],
    }
    return {**entry, **changes}


def document(subjects: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """One case of a session; its second kernel block was throttled."""
    kernel_blocks = [{"series": "kernel", "valid": valid} for valid in (True, False, True, True)]
    whole = {
        "schema": 1,
        "complete": True,
        "target": TARGET,
        "case": {"head_dim": 64, "causal": True, "dtype": "fp16", "n_ctx": 2048, "batch": 4, "heads": 8},
        "device": {"gpu": "NVIDIA H200", "driver": "580.1", "power_limit_w": 700.0},
        "started_at": "2026-12-01T13:00:00+00:00",
        "subjects": subjects,
        "blocks": [*kernel_blocks, {"series": "backward", "valid": True}],
    }
    return {**whole, **changes}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    sessions, history, results = (tmp_path / name for name in ("sessions", "history", "results"))
    sessions.mkdir()
    write_lists(history, [RELEASE])
    return sessions, history, results


def record(folders: tuple[Path, Path, Path], *documents: dict[str, Any]) -> dict[str, Any]:
    """Record the documents and read the result back: {variant: measurement}."""
    sessions, history, results = folders
    for number, content in enumerate(documents):
        (sessions / f"hd{number}.json").write_text(json.dumps(content))
    for variant in FACTS:
        write_record(history / "evidence", record_document(RELEASE, variant))
    evidence = EvidenceStore(history / "evidence")
    record_sessions(read_sessions(sessions), SUITE, evidence, history, results, "gpu")
    [found], errors = read_results(results)
    assert errors == []
    return {m.variant: m for m in timing_measurements(found)}


def test_samples_reach_asv_without_the_throttled_block(folders: tuple[Path, Path, Path]) -> None:
    found = record(folders, document([subject("atomic_add")]))
    assert found["atomic_add"].samples_s == (1e-3, 2e-3, 3e-3)
    path = next(folders[2].glob("gpu/*-*.json"))
    rows = json.loads(path.read_text())
    columns = rows["result_columns"]
    row = dict(zip(columns, rows["results"][SUITE.benchmarks[0]], strict=False))
    assert row["result"][0] == statistics.median([1e-3, 2e-3, 3e-3])
    assert row["stats_ci_99_a"][0] < row["result"][0] < row["stats_ci_99_b"][0]
    assert row["version"] == "timing-1"


def test_a_shared_timing_has_the_samples_of_the_kernel_it_shares(folders: tuple[Path, Path, Path]) -> None:
    shared = subject("store", shared_with=[RELEASE.commit, "atomic_add"], kernel_s=[], backward_s=[])
    found = record(folders, document([subject("atomic_add"), shared]))
    assert found["store"].samples_s == found["atomic_add"].samples_s


def test_unsupported_failed_wrong_and_unplanned_stay_apart(folders: tuple[Path, Path, Path]) -> None:
    none = {"kernel_s": [], "backward_s": []}
    found = record(
        folders,
        document(
            [
                subject("atomic_add", status="unsupported", message="no such operation", **none),
                subject("inline_asm", status="wrong", message="wrong gradients", **none),
                subject("store", status="failed", message="faulted", **none),
            ]
        ),
    )
    assert found["atomic_add"].status is MeasurementStatus.SKIPPED
    assert found["inline_asm"].status is MeasurementStatus.FAILED
    assert found["store"].status is MeasurementStatus.FAILED
    assert found["none"].status is MeasurementStatus.SKIPPED  # no plan asked for it


def test_all_blocks_throttled_is_failed_and_not_zero(folders: tuple[Path, Path, Path]) -> None:
    blocks = [{"series": "kernel", "valid": False}] * 4 + [{"series": "backward", "valid": True}]
    found = record(folders, document([subject("atomic_add")], blocks=blocks))
    assert found["atomic_add"].status is MeasurementStatus.FAILED


def test_the_folder_says_device_and_flops(folders: tuple[Path, Path, Path]) -> None:
    record(folders, document([subject("atomic_add")]))
    machine = json.loads((folders[2] / "gpu" / "machine.json").read_text())
    assert (machine["gpu"], machine["driver"]) == ("NVIDIA H200", "580.1")
    assert read_flops(folders[2]) == {(2048, 64, True): 4.0e10}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not a session file"),
        (json.dumps({"complete": True}), "not a session file"),
        (json.dumps(document([], complete=False)), "did not finish"),
    ],
)
def test_a_session_file_that_is_not_whole_is_named(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "hd64.json").write_text(content)
    with pytest.raises(TrackerError, match=reason) as caught:
        read_sessions(tmp_path)
    assert "hd64.json" in str(caught.value)


def test_two_devices_are_not_joined(folders: tuple[Path, Path, Path]) -> None:
    other = document([], device={"gpu": "NVIDIA H100", "driver": "580.1", "power_limit_w": 700.0})
    with pytest.raises(TrackerError, match="different devices"):
        record(folders, document([]), other)


def test_no_session_at_all(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="holds no session file"):
        read_sessions(tmp_path)


def test_a_commit_outside_the_history_is_refused(folders: tuple[Path, Path, Path]) -> None:
    with pytest.raises(TrackerError, match="run make track first"):
        record(folders, document([subject("atomic_add", commit="cd" * 20, label="9.9.9")]))


def test_a_nan_sample_is_not_taken_for_a_time(folders: tuple[Path, Path, Path]) -> None:
    with pytest.raises(TrackerError, match="not above zero"):
        record(folders, document([subject("atomic_add", kernel_s=[math.nan] * 4)]))


def test_a_kernel_that_is_not_todays_is_refused(folders: tuple[Path, Path, Path]) -> None:
    with pytest.raises(TrackerError, match="what the session timed is not in"):
        record(folders, document([subject("atomic_add", identity=["other code"])]))
