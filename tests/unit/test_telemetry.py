"""Telemetry of sessions: found by the session's start and the case, damage said with the file's name."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.pages.telemetry import read_telemetry
from scripts.tracker.model import Case
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
READING = {"sm_clock_mhz": 1980, "temperature_c": 50, "power_w": 400.5, "power_capped": True}


def session(n_ctx: int, started_at: str) -> dict[str, Any]:
    blocks = [{"series": "kernel", "valid": valid, "after": READING} for valid in (True, False)]
    case = {"head_dim": 64, "causal": True, "dtype": "fp16", "n_ctx": n_ctx}
    return {"case": case, "started_at": started_at, "blocks": blocks}


def write(folder: Path, name: str, document: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(document))


def test_all_cases_of_a_session_carry_its_first_start(tmp_path: Path) -> None:
    write(tmp_path / "one", "hd64-a.json", session(2048, "2026-12-01T00:00:01+00:00"))
    write(tmp_path / "one", "hd64-b.json", session(4096, "2026-12-01T00:00:00+00:00"))
    found, errors = read_telemetry([tmp_path])
    assert errors == []
    assert set(found) == {(1_796_083_200_000, Case(64, True, "fp16", n)) for n in (2048, 4096)}
    one = found[1_796_083_200_000, Case(64, True, "fp16", 2048)]
    assert (one.file, one.clock_mhz, one.valid, one.capped) == (
        "one/hd64-a.json", (1980, 1980), (True, False), (True, True),
    )  # fmt: skip


@pytest.mark.parametrize("text", ["{", "[]", '{"case": 1}', "[" * 100_000, "\x00"])
def test_a_damaged_file_is_named_and_the_others_are_read(tmp_path: Path, text: str) -> None:
    write(tmp_path / "one", "hd64-a.json", session(2048, "2026-12-01T00:00:00+00:00"))
    (tmp_path / "one" / "hd64-b.json").write_text(text)
    found, [error] = read_telemetry([tmp_path])
    assert len(found) == 1
    assert "hd64-b.json" in str(error)


def test_nothing_there_is_nothing() -> None:
    assert read_telemetry([Path("/nowhere")]) == ({}, [])


def test_the_recorded_sweep_is_found_by_the_session_of_the_recorded_results() -> None:
    workspace = Workspace(ROOT)
    found, errors = read_telemetry([workspace.recorded_sessions])
    assert errors == []
    path = next(workspace.recorded.glob("*/*-session.json"))
    document = json.loads(path.read_text())
    columns = document["result_columns"]
    row = document["results"]["attention_backward.AttentionBackward.track_kernel"]
    started_ms = row[columns.index("started_at")]
    assert (started_ms, Case(64, True, "fp16", 8192)) in found
