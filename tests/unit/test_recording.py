"""Session files become asv results: samples with asv's statistics, and never a made-up number."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from asv.results import Results
from builders import (
    DEVICE,
    FACTS,
    block_document,
    record_document,
    session_document,
    subject_document,
    write_lists,
    write_record,
)

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite
from scripts.tracker.model import Commit, MeasurementStatus, TimingMeasurement
from scripts.tracker.recording import record_sessions
from scripts.tracker.releases import known_releases
from scripts.tracker.results import read_flops, read_results
from scripts.tracker.session_files import Device, read_sessions
from scripts.tracker.store import EvidenceStore
from scripts.tracker.timed_results import CANARY_BENCHMARK, timing_measurements

RELEASE = Commit("ab" * 20, known_releases()[1].version)
OTHER = Commit("cd" * 20, known_releases()[2].version)
MACHINE = "h200-580.1"
NAMES = ["variant", "n_ctx", "head_dim", "causal", "dtype"]
SUITE = Suite(
    version="timing-1",
    benchmarks=[f"attention_backward.AttentionBackward.track_{name}" for name in ("kernel", "backward")],
    params=[["'atomic_add'", "'inline_asm'", "'store'", "'none'"], ["2048"], ["64"], ["True"], ["'fp16'"]],
    param_names=NAMES,
    variants=FACTS,
    flops=[{"n_ctx": 2048, "head_dim": 64, "causal": True, "flops": 4.0e10}],
)
CANARIES = Suite(
    version="timing-1",
    benchmarks=[CANARY_BENCHMARK],
    params=[["'sdpa_flash'", "'device_copy'"], ["2048"], ["64"], ["True"], ["'fp16'"]],
    param_names=["canary", *NAMES[1:]],
    variants=FACTS,
)
Folders = tuple[Path, Path, Path]


def subject(variant: str, commit: Commit = RELEASE, **changes: Any) -> dict[str, Any]:
    samples = {"kernel_s": [1e-3, 9e-3, 2e-3, 3e-3], "backward_s": [4e-3]}
    return {**subject_document(commit, variant, []), **samples, **changes}


def document(subjects: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """One case of a session; its second kernel block was throttled."""
    kernel_blocks = [block_document("kernel", valid) for valid in (True, False, True, True)]
    return session_document(subjects, **{"blocks": [*kernel_blocks, block_document("backward")], **changes})


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    sessions, history, results = (tmp_path / name for name in ("sessions", "history", "results"))
    sessions.mkdir()
    write_lists(history, [RELEASE, OTHER])
    return sessions, history, results


def write_all(folders: Folders, *documents: dict[str, Any]) -> None:
    sessions, history, results = folders
    for number, content in enumerate(documents):
        (sessions / f"hd{number}.json").write_text(json.dumps(content))
    for variant in FACTS:
        for commit in (RELEASE, OTHER):
            write_record(history / "evidence", record_document(commit, variant))
    evidence = EvidenceStore(history / "evidence")
    machine, _ = record_sessions(read_sessions(sessions), [SUITE, CANARIES], evidence, history, results)
    assert machine == MACHINE


def record(folders: Folders, *documents: dict[str, Any]) -> dict[str, TimingMeasurement]:
    """Record the documents and read the result of one commit back: {variant: measurement}."""
    write_all(folders, *documents)
    [found], errors = read_results(folders[2])
    assert errors == []
    return {m.variant: m for m in timing_measurements(found)}


def asv_row(results: Path, benchmark: str, commit: Commit = RELEASE) -> dict[str, Any]:
    """A benchmark as asv's file has it."""
    rows = json.loads((results / MACHINE / f"{commit.commit[:8]}-session.json").read_text())
    return dict(zip(rows["result_columns"], rows["results"][benchmark], strict=False))


def test_samples_reach_asv_without_the_throttled_block(folders: Folders) -> None:
    found = record(folders, document([subject("atomic_add")]))
    assert found["atomic_add"].samples_s == (1e-3, 2e-3, 3e-3)
    row = asv_row(folders[2], SUITE.benchmarks[0])
    assert row["result"][0] == statistics.median([1e-3, 2e-3, 3e-3])
    assert row["stats_ci_99_a"][0] < row["result"][0] < row["stats_ci_99_b"][0]
    assert row["version"] == "timing-1"
    assert asv_row(folders[2], SUITE.benchmarks[1])["samples"][0] == [4e-3]


def test_a_shared_timing_has_the_samples_of_the_kernel_it_shares(folders: Folders) -> None:
    shared = subject("store", shared_with=[RELEASE.commit, "atomic_add"], kernel_s=[], backward_s=[])
    found = record(folders, document([subject("atomic_add"), shared]))
    assert found["store"].samples_s == found["atomic_add"].samples_s


def test_a_timing_is_shared_across_commits(folders: Folders) -> None:
    shared = subject("store", OTHER, shared_with=[RELEASE.commit, "atomic_add"], kernel_s=[], backward_s=[])
    write_all(folders, document([subject("atomic_add"), shared]))
    samples = asv_row(folders[2], SUITE.benchmarks[0], OTHER)["samples"]
    assert samples[2] == [1e-3, 2e-3, 3e-3]


def test_unsupported_failed_wrong_and_unplanned_stay_apart(folders: Folders) -> None:
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


def test_all_blocks_throttled_is_failed_and_not_zero(folders: Folders) -> None:
    blocks = [block_document("kernel", valid=False)] * 4 + [block_document("backward")]
    found = record(folders, document([subject("atomic_add")], blocks=blocks))
    assert found["atomic_add"].status is MeasurementStatus.FAILED


def test_a_session_without_valid_data_is_asvs_null_in_every_series(folders: Folders) -> None:
    """Also where some blocks were valid: they were too few."""
    unsupported = subject("store", status="unsupported", kernel_s=[], backward_s=[])
    canaries = {"sdpa_flash": {"message": None, "kernel_s": [1e-4] * 4}}
    content = document(
        [subject("atomic_add"), unsupported],
        status="no_valid_data",
        note="the GPU throttled (heat or hardware) in 1 of 4 blocks",
        canaries=canaries,
    )
    record(folders, content)
    for benchmark in SUITE.benchmarks:
        row = asv_row(folders[2], benchmark)
        assert row["result"][0] is None
        assert math.isnan(row["result"][2])  # this Triton has no such operation, whatever the GPU did
    assert asv_row(folders[2], CANARY_BENCHMARK)["result"][0] is None


def test_a_series_that_no_plan_asked_for_is_skipped_and_not_failed(folders: Folders) -> None:
    blocks = [block_document()] * 4
    record(folders, document([subject("atomic_add", backward_s=[])], blocks=blocks))
    assert math.isnan(asv_row(folders[2], SUITE.benchmarks[1])["result"][0])


def test_canaries_are_the_same_for_all_commits_of_a_session(folders: Folders) -> None:
    canaries = {
        "sdpa_flash": {"message": None, "kernel_s": [1e-4, 7e-4, 2e-4, 3e-4]},
        "device_copy": {"message": "canary hung", "kernel_s": []},
    }
    write_all(folders, document([subject("atomic_add"), subject("atomic_add", OTHER)], canaries=canaries))
    for commit in (RELEASE, OTHER):
        row = asv_row(folders[2], CANARY_BENCHMARK, commit)
        assert row["samples"][0] == [1e-4, 2e-4, 3e-4]  # the throttled block is left out here too
        assert row["result"][0] == 2e-4
        assert math.isnan(row["result"][1])
        assert row["params"][0] == ["'sdpa_flash'", "'device_copy'"]


def test_a_canary_that_no_plan_asked_for_is_skipped(folders: Folders) -> None:
    write_all(folders, document([subject("atomic_add")]))
    assert all(math.isnan(value) for value in asv_row(folders[2], CANARY_BENCHMARK)["result"])


def test_a_note_and_used_again_samples_change_no_number(folders: Folders) -> None:
    content = document([subject("atomic_add")], note="stopped by the budget of 9 s", reused_from="earlier")
    assert record(folders, content)["atomic_add"].samples_s == (1e-3, 2e-3, 3e-3)


def test_the_folder_says_device_flops_and_benchmarks(folders: Folders) -> None:
    record(folders, document([subject("atomic_add")]))
    machine = json.loads((folders[2] / MACHINE / "machine.json").read_text())
    assert (machine["gpu"], machine["driver"]) == ("NVIDIA H200", "580.1")
    assert read_flops(folders[2]) == {(2048, 64, True): 4.0e10}
    benchmarks = json.loads((folders[2] / "benchmarks.json").read_text())
    assert set(benchmarks) == {*SUITE.benchmarks, CANARY_BENCHMARK, "version"}


@pytest.mark.parametrize(
    ("gpu", "driver", "name"),
    [
        ("NVIDIA H200", "580.159.04", "h200-580.159.04"),
        ("NVIDIA H100 80GB HBM3", "550.1", "h100-80gb-hbm3-550.1"),
        ("NVIDIA", "1", "gpu-1"),
    ],
)
def test_a_machine_is_named_by_gpu_and_driver(gpu: str, driver: str, name: str) -> None:
    assert Device(gpu, driver, 700.0).machine == name


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not a session file"),
        ("[]", "not a session file"),
        (json.dumps({"complete": True}), "not a session file"),
        (json.dumps(document([], schema=1)), "schema 1, this program reads 2"),
        (json.dumps(document([], complete=False)), "did not finish this case .interrupted."),
        (json.dumps(document([], complete=False, note="stopped by the budget of 9 s")), "by the budget"),
        (json.dumps(document([], status="fine")), "not a session file"),
        (json.dumps(document([subject("store", kernel_s=[1e-3])])), "store has samples of other blocks"),
        (json.dumps(document([subject("store", backward_s=[])])), "store has samples of other blocks"),
        (
            json.dumps(document([], canaries={"device_copy": {"message": None, "kernel_s": [1e-3]}})),
            "device_copy has samples of other blocks",
        ),
        (
            json.dumps(document([subject("store", shared_with=["ab", "none"])])),
            "store shares a timing that is not there",
        ),
    ],
)
def test_a_session_file_that_is_not_whole_is_named(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "hd64.json").write_text(content)
    with pytest.raises(TrackerError, match=reason) as caught:
        read_sessions(tmp_path)
    assert "hd64.json" in str(caught.value)


@pytest.mark.parametrize("time_s", [math.nan, math.inf, 0.0, -1e-3])
def test_what_is_no_time_is_not_taken_for_one(folders: Folders, time_s: float) -> None:
    with pytest.raises(TrackerError, match="of no launch"):
        record(folders, document([subject("atomic_add", kernel_s=[time_s] * 4)]))
    with pytest.raises(TrackerError, match="of no launch"):
        record(folders, document([], canaries={"device_copy": {"message": None, "kernel_s": [time_s] * 4}}))


@pytest.mark.parametrize(
    "change",
    [
        {"case": {}},
        {"case": {"head_dim": "64", "causal": True, "dtype": "fp16", "n_ctx": 2048}},
        {"device": {"gpu": "NVIDIA", "power_limit_w": 1.0}},
        {"device": {**DEVICE, "driver": ".."}},
        {"device": {**DEVICE, "gpu": "H[/]200"}},
        {"started_at": "2026-12-01T13:00:00"},
        {"subjects": [subject("atomic_add", status="weird")]},
        {"subjects": [subject("atomic_add", kernel_s=[3601.0] * 4)]},
        {
            "subjects": [
                subject("atomic_add"),
                subject("store", identity=["other"], shared_with=[RELEASE.commit, "atomic_add"]),
            ]
        },
        {"subjects": [subject("atomic_add", shared_with=[RELEASE.commit, "atomic_add"])]},
    ],
)
def test_what_is_no_session_is_refused_before_it_becomes_a_path_or_a_number(
    folders: Folders, change: dict[str, Any]
) -> None:
    with pytest.raises(TrackerError, match=r"hd0\.json"):
        record(folders, document(**{"subjects": [subject("atomic_add")], **change}))
    assert not folders[2].exists()


def test_a_full_disk_leaves_what_was_recorded(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """asv writes in place; it may only do so where nothing is yet."""
    record(folders, document([subject("atomic_add")]))
    before = {path: path.read_bytes() for path in folders[2].rglob("*.json")}

    def cut_short(self: Results, folder: str) -> None:
        path = Path(folder) / MACHINE / f"{RELEASE.commit[:8]}-session.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{")
        raise OSError("No space left on device")

    monkeypatch.setattr(Results, "save", cut_short)
    with pytest.raises(OSError, match="No space left"):
        record(folders, document([subject("atomic_add", kernel_s=[2e-3] * 4)]))
    assert {path: path.read_bytes() for path in folders[2].rglob("*.json")} == before


def test_a_case_that_stands_there_twice_is_refused(folders: Folders) -> None:
    with pytest.raises(TrackerError, match="holds a case twice"):
        record(folders, document([subject("atomic_add")]), document([subject("atomic_add")]))


def test_two_devices_are_not_joined(folders: Folders) -> None:
    other = document([], device={**DEVICE, "gpu": "NVIDIA H100"})
    with pytest.raises(TrackerError, match="different devices"):
        record(folders, document([]), other)


def test_cases_spread_over_cards_of_one_kind_are_joined(folders: Folders) -> None:
    case = {**document([])["case"], "n_ctx": 4096}
    other = document([subject("atomic_add")], device={**DEVICE, "uuid": "GPU-2"}, case=case)
    assert record(folders, document([subject("atomic_add")]), other)["atomic_add"].samples_s


def test_no_session_at_all(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="holds no session file"):
        read_sessions(tmp_path)


@pytest.mark.parametrize("label", ["again", RELEASE.label])
def test_a_commit_that_was_timed_twice_is_refused(folders: Folders, label: str) -> None:
    twice = [subject("atomic_add"), subject("atomic_add", copy=2, label=label)]
    with pytest.raises(TrackerError, match="timed twice"):
        record(folders, document(twice))
    assert not folders[2].exists()


def test_a_commit_outside_the_history_is_refused(folders: Folders) -> None:
    with pytest.raises(TrackerError, match="run make track first"):
        record(folders, document([subject("atomic_add", Commit("ef" * 20, "9.9.9"))]))


def test_a_commit_that_is_no_release_is_refused(folders: Folders) -> None:
    write_lists(folders[1], [Commit(RELEASE.commit, "9.9.9")])
    with pytest.raises(TrackerError, match=r"9\.9\.9: not in scripts/releases\.toml"):
        record(folders, document([subject("atomic_add")]))


def test_a_session_of_asvs_has_labels_of_its_own(folders: Folders) -> None:
    found = record(folders, document([subject("atomic_add", label=RELEASE.commit[:10])]))
    assert found["atomic_add"].samples_s


def test_a_kernel_that_is_not_todays_is_refused(folders: Folders) -> None:
    with pytest.raises(TrackerError, match="what the session timed is not in"):
        record(folders, document([subject("atomic_add", identity=["other code"])]))
