"""Canaries: read from asv, beside the kernels of their session, and what they decide between neighbours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from builders import FACTS, NAN, NEW, OLD, write_asv, write_lists
from lived import commits, of

from scripts.tracker.errors import TrackerError
from scripts.tracker.judge import judge
from scripts.tracker.measured import History, load_history
from scripts.tracker.model import MeasurementStatus, Verdict
from scripts.tracker.results import read_commit_results
from scripts.tracker.steps import Judgement
from scripts.tracker.timed_results import CANARY_BENCHMARK, TIMING_BENCHMARK, canary_measurements
from scripts.tracker.timing_diff import STEADY
from scripts.tracker.workspace import Workspace

BLOCKS = 8


def row(names: list[str], seconds: dict[str, float | None], version: str, started_at: int) -> list[Any]:
    """One benchmark as asv has it: seconds of each name; None failed, NaN skipped."""
    params = [[repr(name) for name in names], ["2048"], ["64"], ["True"], ["'fp16'"]]
    values = [seconds.get(name, 1e-3) for name in names]
    wobble = [1 + 1e-4 * (i % 3) for i in range(BLOCKS)]
    samples = [None if v is None or v != v else [v * w for w in wobble] for v in values]
    return [values, params, version, started_at, None, samples]


def document(
    commit: str, started_at: int, kernels: dict[str, float | None], canaries: dict[str, float | None] | None
) -> dict[str, Any]:
    results = {TIMING_BENCHMARK: row(list(FACTS), kernels, "kernels.method", started_at)}
    if canaries is not None:
        names = ["sdpa_flash", "sdpa_cudnn", "device_copy"]
        results[CANARY_BENCHMARK] = row(names, canaries, "canaries 1", started_at)
    return {
        "commit_hash": commit,
        "params": {"machine": "gpu", "gpu": "H200", "driver": "1"},
        "result_columns": ["result", "params", "version", "started_at", "duration", "samples"],
        "results": results,
        "durations": {},
        "version": 2,
    }


def loaded(
    tmp_path: Path,
    after: dict[str, float | None],
    canaries: dict[str, float | None] | None,
    canaries_before: dict[str, float | None] | None = None,
    driver: str = "1",
) -> History:
    """Two commits, a session each: what the kernels and the canaries took at the newer one."""
    space = Workspace(tmp_path)
    write_lists(space.results)
    before = None if canaries is None else canaries_before or {}
    write_asv(space.results, document(OLD.commit, 1, {}, before))
    newer = document(NEW.commit, 2, after, canaries)
    newer["params"]["driver"] = driver
    write_asv(space.results, newer)
    return load_history(space)


def as_it_stands(judgement: Judgement) -> set[str]:
    """What is said of findings that wait for another session, as one session a side must."""
    assert {f.verdict for f in judgement.findings} == {Verdict.PENDING}
    return {re.findall(r"as it stands ([a-z ]+),", f.explanation)[0] for f in judgement.findings}


def test_they_are_read_and_belong_to_the_session_of_their_kernels(tmp_path: Path) -> None:
    history = loaded(tmp_path, {}, {"device_copy": NAN})
    assert history.problems == []
    assert {(t.session, t.epoch_key) for t in history.canaries} == {
        (t.session, t.epoch_key) for t in history.timings
    }
    statuses = {(t.commit, t.variant): t.status for t in history.canaries}
    assert statuses[NEW.commit, "device_copy"] is MeasurementStatus.SKIPPED
    assert not any("without canaries" in note for note in history.notes)


def test_absent_ones_are_said_and_not_taken_for_still(tmp_path: Path) -> None:
    history = loaded(tmp_path, dict.fromkeys(FACTS, 1.1e-3), None)
    assert judge(history).findings == []  # the machine may be slower: nothing can be said
    assert any("2 commits were timed without canaries" in note for note in history.notes)


def test_all_slower_over_still_canaries_is_the_compiler(tmp_path: Path) -> None:
    judgement = judge(loaded(tmp_path, dict.fromkeys(FACTS, 1.1e-3), {}))
    assert as_it_stands(judgement) == {"compiler wide"}
    assert of(judgement)[0].candidate_change == pytest.approx(0.1, abs=0.001)


def test_all_slower_and_the_canaries_too_is_the_machine(tmp_path: Path) -> None:
    slower = dict.fromkeys(["sdpa_flash", "sdpa_cudnn", "device_copy"], 1.1e-3)
    judgement = judge(loaded(tmp_path, dict.fromkeys(FACTS, 1.1e-3), slower))
    assert {f.verdict for f in judgement.findings} == {Verdict.ENVIRONMENT}
    assert "the machine did" in judgement.findings[0].explanation


def test_a_little_slower_machine_is_no_finding(tmp_path: Path) -> None:
    slower = dict.fromkeys(["sdpa_flash", "sdpa_cudnn", "device_copy"], 1.02e-3)
    judgement = judge(loaded(tmp_path, dict.fromkeys(FACTS, 1.02e-3), slower))
    assert judgement.findings == []
    assert judgement.counts[STEADY] == 2


def test_a_slower_candidate_on_a_slower_machine_is_a_regression(tmp_path: Path) -> None:
    slower = dict.fromkeys(["sdpa_flash", "sdpa_cudnn", "device_copy"], 1.1e-3)
    kernels = dict.fromkeys(FACTS, 1.1e-3) | {"atomic_add": 1.32e-3}
    judgement = judge(loaded(tmp_path, kernels, slower))
    assert as_it_stands(judgement) == {"regression"}
    assert of(judgement)[0].candidate_change == pytest.approx(0.2, abs=0.001)


def test_a_moved_reference_of_another_session_is_named(tmp_path: Path) -> None:
    judgement = judge(loaded(tmp_path, {"store": 0.8e-3}, {}))
    assert [f.reference for f in judgement.findings] == ["store"]
    assert as_it_stands(judgement) == {"reference moved"}


def test_another_driver_under_the_same_machine_name_is_another_epoch(tmp_path: Path) -> None:
    judgement = judge(loaded(tmp_path, {"atomic_add": 2e-3}, {}, driver="2"))
    assert {f.verdict for f in judgement.findings} == {Verdict.ENVIRONMENT}
    assert "driver 2" in judgement.findings[0].explanation


def test_a_damaged_row_names_the_file(tmp_path: Path) -> None:
    broken = document(OLD.commit, 1, {}, {})
    broken["results"][CANARY_BENCHMARK][1] = [["'sdpa_flash'"], ["2048"]]
    broken["results"][CANARY_BENCHMARK][0] = [1e-3]
    broken["results"][CANARY_BENCHMARK][5] = [[1e-3]]
    path = write_asv(tmp_path, broken)
    with pytest.raises(TrackerError, match=f"{path.name}.*2 parameters"):
        canary_measurements(read_commit_results(path))


def test_the_finding_file_stays_whole(tmp_path: Path) -> None:
    from scripts.tracker.report import findings_json

    judgement = judge(loaded(tmp_path, dict.fromkeys(FACTS, 1.1e-3), {}))
    [first, *_] = json.loads(findings_json(judgement))["findings"]
    assert first["verdict"] == "pending"
    assert "candidate_change" not in first


def test_a_canary_with_the_name_of_a_variant_is_refused(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    write_lists(space.results)
    broken = document(OLD.commit, 1, {}, {})
    broken["results"][CANARY_BENCHMARK][1][0][0] = "'store'"
    write_asv(space.results, broken)
    history = load_history(space)
    assert {t.variant for t in history.canaries} == {"sdpa_cudnn", "device_copy"}
    assert "store: a canary has the name of a variant" in str(history.problems)


def test_a_history_from_files_is_searched_over_the_canaries(tmp_path: Path) -> None:
    """Thirty commits on a machine that gets slower at the tenth; at the twentieth all variants do."""
    space = Workspace(tmp_path)
    order = commits(30)
    write_lists(space.results, order)
    for i, commit in enumerate(order):
        machine = 1.08 if i >= 10 else 1.0
        canaries = dict.fromkeys(["sdpa_flash", "sdpa_cudnn", "device_copy"], machine * 1e-3)
        kernels = dict.fromkeys(FACTS, machine * (1.1e-3 if i >= 20 else 1e-3))
        write_asv(space.results, document(commit.commit, i, kernels, canaries))
    history = load_history(space)
    assert history.problems == []
    found = {(f.verdict, f.before.label, f.after.label) for f in judge(history).findings}
    assert found == {(Verdict.ENVIRONMENT, "c9", "c10"), (Verdict.COMPILER_WIDE, "c19", "c20")}
