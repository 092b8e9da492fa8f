"""What asv is told, and when a commit needs no more work."""

import json
from pathlib import Path
from typing import Any

import json5
import pytest
from builders import (
    NAN,
    NEW,
    OLD,
    SUITE,
    TABLE,
    TARGET,
    asv_document,
    record_document,
    write_asv,
    write_record,
)

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import (
    derive_config,
    is_complete,
    record_failure,
    register_machine,
)
from scripts.tracker.results import BuildFailure, read_commit_results, read_failures
from scripts.tracker.store import EvidenceStore

REAL = Path(__file__).resolve().parents[2] / "asv.conf.json"
# ---- what asv is told ----------------------------------------------------------------------------------


def test_the_derived_config_differs_in_places_only(tmp_path: Path) -> None:
    real = json5.loads(REAL.read_text())
    derived = derive_config(REAL, tmp_path / "releases.git", tmp_path / "staging")
    assert derived.pop("repo") == str(tmp_path / "releases.git")
    assert derived.pop("results_dir") == str(tmp_path / "staging")
    del real["repo"], real["results_dir"]
    for key in ("benchmark_dir", "env_dir", "html_dir"):
        assert derived.pop(key) == str(REAL.parent / real.pop(key))
    [command], [derived_command] = real.pop("build_command"), derived.pop("build_command")
    assert derived_command == command.replace("{conf_dir}", str(REAL.parent)) != command
    assert derived == real


def test_a_first_machine_is_registered(machines: Path) -> None:
    register_machine("codegen-cuda-90", TARGET)
    written = json.loads(machines.read_text())
    assert written["version"] == 1
    assert written["codegen-cuda-90"]["target"] == TARGET
    # What asv would fill in from this host must be fixed, or the next kernel update makes a new machine.
    assert {"arch", "cpu", "num_cpu", "os", "ram", "machine"} <= set(written["codegen-cuda-90"])


def test_other_machines_stay_as_they_are(machines: Path) -> None:
    mine = {"machine": "laptop", "cpu": "old", "note": ["é", None]}
    machines.write_text(json.dumps({"version": 1, "laptop": mine, "codegen-cuda-90": {"cpu": "stale"}}))
    register_machine("codegen-cuda-90", TARGET)
    written = json.loads(machines.read_text())
    assert written["laptop"] == mine
    assert written["codegen-cuda-90"]["cpu"] == "any"
    before = machines.stat().st_mtime_ns, machines.stat().st_ino
    register_machine("codegen-cuda-90", TARGET)
    assert (machines.stat().st_mtime_ns, machines.stat().st_ino) == before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff"])
def test_a_damaged_list_of_machines_is_left_alone(machines: Path, content: bytes) -> None:
    machines.write_bytes(content)
    with pytest.raises(TrackerError, match=r"asv-machine\.json.* damaged .*; delete it"):
        register_machine("codegen-cuda-90", TARGET)
    assert machines.read_bytes() == content


# ---- what counts as done -------------------------------------------------------------------------------


def complete(folder: Path, record: dict[str, Any] | None = None, **changes: Any) -> bool:
    """Whether a result with these changes to its document or table is complete, beside this record."""
    table = changes.pop("table", TABLE)
    if record is not None:
        write_record(folder / "evidence", record)
    document = asv_document(OLD, table, **changes)
    results = read_commit_results(write_asv(folder, document))
    return is_complete(results, SUITE, EvidenceStore(folder / "evidence"))


def test_what_is_complete(tmp_path: Path) -> None:
    assert complete(tmp_path, record_document())
    assert not complete(tmp_path, version="fingerprint-0")
    assert not complete(tmp_path, head_dims=(64, 128))
    assert not complete(tmp_path, target="cuda:80")
    assert not complete(tmp_path, table={"atomic_add": {"dq_writes": 8.0}})
    skipped: dict[str, dict[str, float | None]] = {"atomic_add": {"dq_writes": NAN, "registers": NAN}}
    assert not complete(tmp_path, table=skipped)
    assert complete(tmp_path, record_document(status="unsupported"), table=skipped)


def test_a_number_needs_its_evidence(tmp_path: Path) -> None:
    assert not complete(tmp_path)
    assert not complete(tmp_path, record_document(fingerprint="fingerprint-0"))
    text = "ab" * 32
    assert not complete(tmp_path, record_document(objects={"ptx": text}))
    stored = tmp_path / "evidence" / "objects" / text[:2] / f"{text}.zst"
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"only that it is there")
    assert complete(tmp_path, record_document(objects={"ptx": text}))


def test_a_benchmark_that_is_null_as_a_whole_is_missing(tmp_path: Path) -> None:
    document = asv_document(OLD, TABLE)
    document["results"][SUITE.benchmarks[0]] = None
    results = read_commit_results(write_asv(tmp_path, document))
    assert not is_complete(results, SUITE, EvidenceStore(tmp_path / "evidence"))


def test_a_null_needs_the_compilers_refusal(tmp_path: Path) -> None:
    failed: dict[str, dict[str, float | None]] = {"atomic_add": {"dq_writes": None, "registers": None}}
    store = tmp_path / "evidence"
    assert not complete(tmp_path, table=failed)
    write_record(store, record_document(status="ok"))
    assert not complete(tmp_path, table=failed)
    write_record(store, record_document(status="failed", message="ptxas: boom"))
    assert complete(tmp_path, table=failed)
    # A refusal of other kernels is no refusal of these.
    write_record(store, record_document(status="failed", fingerprint="fingerprint-0"))
    assert not complete(tmp_path, table=failed)


def test_a_damaged_refusal_is_asked_for_again(tmp_path: Path) -> None:
    failed: dict[str, dict[str, float | None]] = {"atomic_add": {"dq_writes": None, "registers": None}}
    path = write_record(tmp_path / "evidence", record_document(status="failed", message="ptxas: boom"))
    assert complete(tmp_path, table=failed)
    path.write_bytes(path.read_bytes()[:-9])
    assert not complete(tmp_path, table=failed)


def test_a_row_of_a_benchmark_that_is_gone_does_not_matter(tmp_path: Path) -> None:
    document = asv_document(OLD, TABLE)
    [name, *_] = SUITE.benchmarks
    older = [*document["results"][name][:2], "fingerprint-0", *document["results"][name][3:]]
    document["results"]["codegen.CodeGeneration.track_gone"] = older
    results = read_commit_results(write_asv(tmp_path, document))
    write_record(tmp_path / "evidence", record_document())
    assert is_complete(results, SUITE, EvidenceStore(tmp_path / "evidence"))


def test_failures_are_remembered_and_forgotten(tmp_path: Path) -> None:
    no_wheel, no_network = BuildFailure("no wheel", False), BuildFailure("no network", True)
    record_failure(tmp_path, TARGET, OLD.commit, None)
    assert not (tmp_path / "failures.json").exists()
    record_failure(tmp_path, TARGET, OLD.commit, no_network)
    record_failure(tmp_path, TARGET, OLD.commit, no_wheel)
    record_failure(tmp_path, "cuda:80", NEW.commit, no_network)
    assert read_failures(tmp_path) == {
        TARGET: {OLD.commit: no_wheel},
        "cuda:80": {NEW.commit: no_network},
    }
    record_failure(tmp_path, TARGET, OLD.commit, None)
    assert read_failures(tmp_path)[TARGET] == {}
    assert read_failures(tmp_path)["cuda:80"] == {NEW.commit: no_network}
