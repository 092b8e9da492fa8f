"""asv's files: measured, skipped, refused and never measured stay four things, and damage is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import NAN, NEW, OLD, asv_document, write_asv, write_lists

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Commit, MeasurementStatus
from scripts.tracker.results import (
    codegen_measurements,
    read_commit_results,
    read_commits,
    read_failures,
    read_results,
    read_variants,
)

FULL = {"atomic_add": {"dq_writes": 8.0, "registers": 255.0}}
BENCHMARK = "codegen.CodeGeneration.track_dq_writes"


def statuses(path: Path) -> dict[str, MeasurementStatus]:
    return {m.variant: m.status for m in codegen_measurements(read_commit_results(path))}


def refused(path: Path) -> str:
    """The message for a file that must not be read; it always names the file and what to do."""
    with pytest.raises(TrackerError) as caught:
        codegen_measurements(read_commit_results(path))
    message = str(caught.value)
    assert str(path) in message
    assert "delete it" in message
    return message


def write_changed(folder: Path, **changed: Any) -> Path:
    return write_asv(folder, {**asv_document(OLD, FULL), **changed})


def test_ok_skipped_failed_and_not_measured_are_four_things(tmp_path: Path) -> None:
    table = {
        "atomic_add": {"dq_writes": 8.0, "registers": 255.0},
        "descriptor_add": {"dq_writes": NAN, "registers": NAN},
        "inline_asm": {"dq_writes": None, "registers": None},
    }
    path = write_asv(tmp_path, asv_document(OLD, table))
    assert "NaN" in path.read_text()  # bare, as asv writes it and JSON forbids
    assert statuses(path) == {
        "atomic_add": MeasurementStatus.OK,
        "descriptor_add": MeasurementStatus.SKIPPED,
        "inline_asm": MeasurementStatus.FAILED,
    }


def test_a_metric_that_does_not_apply_is_no_number_and_no_failure(tmp_path: Path) -> None:
    path = write_asv(tmp_path, asv_document(OLD, {"none": {"dq_vector_width": NAN, "registers": 200.0}}))
    [measurement] = codegen_measurements(read_commit_results(path))
    assert measurement.status is MeasurementStatus.OK
    assert measurement.metrics == {"dq_vector_width": None, "registers": 200.0}


def test_a_failed_measurement_has_no_metrics(tmp_path: Path) -> None:
    path = write_asv(tmp_path, asv_document(OLD, {"store": {"dq_writes": None, "registers": 200.0}}))
    [measurement] = codegen_measurements(read_commit_results(path))
    assert (measurement.status, measurement.metrics) == (MeasurementStatus.FAILED, {})


def test_values_belong_to_the_case_that_asv_wrote_them_for(tmp_path: Path) -> None:
    document = asv_document(OLD, {"atomic_add": {"dq_writes": 0.0}, "store": {}}, head_dims=(64, 128))
    document["results"][BENCHMARK][0] = [1.0, 2.0, 3.0, 4.0]
    path = write_asv(tmp_path, document)
    found = {
        (m.variant, m.case.head_dim): m.metrics["dq_writes"]
        for m in codegen_measurements(read_commit_results(path))
    }
    assert found == {
        ("atomic_add", 64): 1.0,
        ("atomic_add", 128): 2.0,
        ("store", 64): 3.0,
        ("store", 128): 4.0,
    }


def test_a_benchmark_that_failed_as_a_whole_failed_for_every_case(tmp_path: Path) -> None:
    document = asv_document(OLD, {"atomic_add": {"dq_writes": 1.0}, "store": {"dq_writes": 1.0}})
    document["results"][BENCHMARK][0] = None
    found = statuses(write_asv(tmp_path, document))
    assert found == {"atomic_add": MeasurementStatus.FAILED, "store": MeasurementStatus.FAILED}


def test_setup_time_is_of_setup_alone(tmp_path: Path) -> None:
    assert read_commit_results(write_asv(tmp_path, asv_document(OLD, FULL))).setup_duration_s == 41.5


def test_a_file_without_our_benchmarks_has_no_measurements(tmp_path: Path) -> None:
    results = read_commit_results(write_changed(tmp_path, results={"other.time_it": None}))
    assert codegen_measurements(results) == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1.0, 2.0], "2 results for 1 parameters"),
        (["fast"], "'fast'"),
        ([True], "True"),
        ([float("inf")], "inf"),
        ([10**400], "no number"),
        (7, ""),
    ],
)
def test_a_row_that_is_no_row_of_numbers(tmp_path: Path, row: Any, words: str) -> None:
    document = asv_document(OLD, FULL)
    document["results"][BENCHMARK][0] = row
    assert words in refused(write_asv(tmp_path, document))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"commit_hash": NEW.commit}, NEW.commit),
        ({"version": 3}, "format 3"),
        ({"results": []}, "results"),
        ({"results": {BENCHMARK: 5}}, "results"),
        ({"commit_hash": None}, "commit_hash"),
        ({"commit_hash": OLD.commit[:8] + " --> @everyone"}, "no commit"),
    ],
)
def test_a_file_that_is_not_this_commit_in_this_format(
    tmp_path: Path, changed: dict[str, Any], words: str
) -> None:
    path = write_asv(tmp_path, asv_document(OLD, FULL))
    path.write_text(json.dumps({**asv_document(OLD, FULL), **changed}))
    assert words in refused(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"commit_hash": "00000001',
        b"[1, 2]",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"version": ' + b"[" * 100_000,
    ],
    ids=["empty", "cut short", "a list", "not UTF-8", "deep", "deep inside"],
)
def test_a_file_that_is_no_json_of_asv(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"{OLD.commit[:8]}-env.json"
    path.write_bytes(content)
    refused(path)


def test_a_real_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = write_asv(tmp_path, asv_document(OLD, FULL))
    whole = path.read_text()
    for length in range(0, len(whole) - 1, 97):
        path.write_text(whole[:length])
        refused(path)


@pytest.mark.parametrize("key", [1, 2], ids=["parameters", "version"])
def test_benchmarks_of_different_runs_are_refused(tmp_path: Path, key: int) -> None:
    document = asv_document(OLD, FULL)
    other = {1: [["'store'"], *document["results"][BENCHMARK][1][1:]], 2: "fingerprint-2"}
    document["results"][BENCHMARK][key] = other[key]
    assert "different runs" in refused(write_asv(tmp_path, document))


@pytest.mark.parametrize(
    ("axis", "word"),
    [
        (0, "atomic_add"),  # a name, not a literal
        (0, "'-->@everyone'"),
        (0, "'../../x'"),
        (1, "[64]"),
        (1, "None"),
        (1, "(" * 5000),
        (3, "'fp16|`'"),
        (4, "'cuda:90 @x'"),
    ],
)
def test_parameters_that_are_no_plain_words(tmp_path: Path, axis: int, word: str) -> None:
    document = asv_document(OLD, FULL)
    for row in document["results"].values():
        row[1][axis] = [word]
    assert word[:100] in refused(write_asv(tmp_path, document))


def test_an_axis_too_few_is_refused(tmp_path: Path) -> None:
    document = asv_document(OLD, FULL)
    for row in document["results"].values():
        row[1] = row[1][:4]
    assert "4 parameters" in refused(write_asv(tmp_path, document))


def test_one_damaged_file_does_not_hide_the_others(tmp_path: Path) -> None:
    good, bad = (write_asv(tmp_path, asv_document(c, FULL)) for c in (OLD, NEW))
    bad.write_text("{")
    (bad.parent / "machine.json").write_text("{}")  # asv's own, and no result
    found, errors = read_results(tmp_path)
    assert [r.path for r in found] == [good]
    assert len(errors) == 1
    assert str(bad) in str(errors[0])


def test_no_results_folder_is_no_results(tmp_path: Path) -> None:
    assert read_results(tmp_path / "none") == ([], [])
    assert read_commits(tmp_path) == []
    assert read_variants(tmp_path) == {}
    assert read_failures(tmp_path) == {}


def test_our_own_files(tmp_path: Path) -> None:
    (tmp_path / "commits.json").write_text('[{"commit": "ab", "label": "3.1.0"}]')
    (tmp_path / "failures.json").write_text('{"cuda:90": {"ab": {"reason": "no wheel", "transient": false}}}')
    assert read_commits(tmp_path) == [Commit("ab", "3.1.0")]
    assert not read_failures(tmp_path)["cuda:90"]["ab"].transient


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("commits.json", read_commits),
        ("variants.json", read_variants),
        ("failures.json", read_failures),
    ],
)
@pytest.mark.parametrize("content", [b"", b"{", b"7", b"\xff", b'{"a": {"role": "king"}}'])
def test_our_own_files_damaged(tmp_path: Path, name: str, read: Any, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TrackerError, match=name) as caught:
        read(tmp_path)
    assert "run make track again" in str(caught.value)


@pytest.mark.parametrize("label", ["", "3.2.0; rm -rf /", "$(id)", "-x", "a" * 80, "3.2.0\n"])
def test_a_label_that_is_no_plain_word_is_refused(tmp_path: Path, label: str) -> None:
    write_lists(tmp_path, [Commit("ab" * 20, label)])
    with pytest.raises(TrackerError, match=r"commits\.json"):
        read_commits(tmp_path)
