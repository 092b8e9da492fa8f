"""Files that decide whether something is posted: read strictly, a damaged one stops everything."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import msgspec
import pytest
from builders import NEW, OLD
from github_builders import answer, timed

from scripts.tracker.confirmation import read_confirmations
from scripts.tracker.errors import TrackerError
from scripts.tracker.ledger import SCHEMA, Entry, Kind, Ledger, Progress, Told

NOW = datetime.datetime(2026, 12, 1, 12, tzinfo=datetime.UTC)
TOLD = Told("k", "atomic_add", "cuda:90", OLD, NEW, "regression")
ENTRY = Entry(SCHEMA, Kind.ISSUE, "someone/atomwatch", 0, "ab12", Progress.SAID, NOW, 7, told=(TOLD,))


def test_an_entry_comes_back_as_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert (ledger.get("ab12"), ledger.entries()) == (None, [])
    ledger.put(ENTRY)
    assert (ledger.get("ab12"), ledger.entries()) == (ENTRY, [ENTRY])
    ledger.drop("ab12")
    ledger.drop("ab12")
    assert ledger.entries() == []


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": 2},
        {"key": "other"},
        {"progress": "perhaps"},
        {"claimed_at": "yesterday"},
        {"claimed_at": "2026-12-01T12:00:00"},
        {"id": "7"},
        {"told": [{}]},
        {"note": "x" * 1_000_001},
    ],
)
def test_a_damaged_entry_names_the_file_and_posts_nothing(tmp_path: Path, changed: dict[str, object]) -> None:
    ledger = Ledger(tmp_path)
    document = json.loads(msgspec.json.encode(ENTRY)) | changed
    path = tmp_path / "ab12.json"
    path.write_text(json.dumps(document))
    for read in (lambda: ledger.get("ab12"), ledger.entries):
        with pytest.raises(TrackerError, match="nothing is posted without it") as caught:
            read()
        assert str(path) in str(caught.value)


def write(folder: Path, name: str, content: bytes) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_bytes(content)
    return path


def test_answers_are_read_by_finding(tmp_path: Path) -> None:
    assert read_confirmations(tmp_path / "none") == {}
    found = answer(timed())
    write(tmp_path, found.finding, msgspec.json.encode(found))
    assert read_confirmations(tmp_path) == {found.finding: found}


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": 2},
        {"finding": "another"},
        {"decision": "MAYBE"},
        {"ratio": {"change": 0.5, "low": 0.6, "high": 0.7}},
        {"ratio": {"change": 1e400, "low": 0.6, "high": 0.7}},
        {"gpu": "x" * 200_000},
        {"sessions": "2"},
        {"legs": []},
    ],
)
def test_an_answer_that_is_none_names_the_file(tmp_path: Path, changed: dict[str, object]) -> None:
    found = answer(timed())
    document = json.loads(msgspec.json.encode(found)) | changed
    path = write(tmp_path, found.finding, json.dumps(document).replace("Infinity", "1e999").encode())
    with pytest.raises(TrackerError, match=r"not an answer of scripts.confirm") as caught:
        read_confirmations(tmp_path)
    assert str(path) in str(caught.value)
