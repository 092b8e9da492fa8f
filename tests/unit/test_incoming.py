"""What a machine that ran other people's code hands in: everything that was not asked for is refused."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from builders import (
    COMMITS,
    FACTS,
    NEW,
    OLD,
    asv_document,
    block_document,
    record_document,
    session_document,
    subject_document,
    timed_document,
    write_asv,
    write_lists,
    write_object,
    write_record,
)
from github_builders import answer, timed

from scripts.check_incoming import main
from scripts.tracker import incoming
from scripts.tracker.incoming import Asked, check_incoming

FINDING = timed()
ASKED = Asked({OLD.commit, NEW.commit}, {FINDING.id})
TABLE = {variant: {"dq_writes": 8.0} for variant in FACTS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All that a worker may hand in."""
    results = tmp_path / "results"
    (write_asv(results, asv_document(OLD, TABLE)).parent / "machine.json").write_text("{}")
    document = timed_document(OLD, {("atomic_add", 2048): [1e-3, 2e-3]})
    (write_asv(results, document).parent / "machine.json").write_text('{"gpu": "NVIDIA H200"}')
    (results / "flops.json").write_text("[]")
    subjects = [subject_document(OLD, "atomic_add", [1e-3])]
    (tmp_path / "sessions" / "abc").mkdir(parents=True)
    session = tmp_path / "sessions" / "abc" / "hd64-causal-fp16-n2048-b4-h8.json"
    session.write_text(json.dumps(session_document(subjects, [block_document()])))
    (results / "failures.json").write_text('{"cuda:90": {}}')
    digest = write_object(tmp_path / "evidence", b"text")
    write_record(tmp_path / "evidence", record_document(objects={"ptx": digest}))
    (tmp_path / "confirmations").mkdir()
    (tmp_path / "confirmations" / f"{FINDING.id}.json").write_bytes(msgspec.json.encode(answer(FINDING)))
    return tmp_path


def test_what_was_asked_for_is_let_in(folder: Path) -> None:
    assert check_incoming(folder, ASKED) == []


def edit(pattern: str, content: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        [path] = folder.glob(pattern)
        path.write_text(content)

    return change


def add(name: str, content: str = "{}") -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    return change


def link(name: str, target: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).symlink_to(target)

    return change


def unplanned(folder: Path) -> None:
    write_asv(folder / "results", asv_document(COMMITS[2], TABLE))


def renamed(folder: Path) -> None:
    """A result of an unplanned commit under a planned one's name."""
    path = write_asv(folder / "results", asv_document(COMMITS[2], TABLE))
    path.rename(path.with_name(f"{OLD.commit[:8]}-virtualenv-py3.11.json"))


def unplanned_record(folder: Path) -> None:
    write_record(folder / "evidence", record_document(commit=COMMITS[2]))


def session_of_another(folder: Path) -> None:
    [path] = folder.glob("sessions/abc/*.json")
    path.write_text(path.read_text().replace(OLD.commit, COMMITS[2].commit))


def markup(folder: Path) -> None:
    """asv writes the values of "params" into its pages."""
    document = asv_document(OLD, TABLE)
    document["params"]["ram"] = "\u003cscript>"
    write_asv(folder / "results", document)


@pytest.mark.parametrize(
    ("poison", "words"),
    [
        (unplanned, "planned commits"),
        (renamed, "not the one in its name"),
        (unplanned_record, "planned commits"),
        (edit("results/codegen-*/0*.json", "{"), "results/codegen-cuda-90/"),
        (add("results/commits.json"), "no file of a worker"),
        (add("results/variants.json"), "no file of a worker"),
        (add("results/benchmarks.json"), "no file of a worker"),
        (edit("results/h200/*-*.json", '{"commit_hash": "00000001'), "not a whole asv result file"),
        (edit("results/h200/machine.json", '{"gpu": "<img src=x>"}'), "no plain word"),
        (edit("results/h200/machine.json", '{"../../gpu": "x"}'), "no plain word"),
        (edit("results/flops.json", '["no flops"]'), "flops.json"),
        (edit("sessions/abc/*.json", "{}"), "not a session file"),
        (session_of_another, "planned commits"),
        (markup, "no plain word"),
        (edit("results/failures.json", '{"cuda:90": 1}'), "failures.json"),
        (edit("confirmations/*.json", "{}"), "not an answer"),
        (add("confirmations/0123456789ab.json"), "nobody asked"),
        (add("results/ledger/0123456789abcdef.json"), "no file of a worker"),
        (add("results/x.sh", "rm -rf /"), "no file of a worker"),
        (add(".github/workflows/x.yml"), "no file of a worker"),
        (add("results/codegen-cuda-90/.git/config"), "no file of a worker"),
        (add("evidence/objects/ab/abcd.zst"), "no file of a worker"),
        (link("results/a", "/etc/passwd"), "a link"),
        (link("results/benchmarks.json", "/etc/passwd"), "a link"),
        (link("results/outside", "/etc"), "a link"),
    ],
)
def test_what_was_not_asked_for_is_refused(folder: Path, poison: Callable[[Path], None], words: str) -> None:
    poison(folder)
    problems = check_incoming(folder, ASKED)
    assert any(words in problem for problem in problems), problems


def test_a_pipe_is_not_read(folder: Path) -> None:
    (folder / "results" / "failures.json").unlink()
    os.mkfifo(folder / "results" / "failures.json")  # its reader would wait for ever
    assert "a link or a device" in check_incoming(folder, ASKED)[0]


def test_too_much_is_refused_before_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "MAX_FILE_BYTES", 10)
    assert any("too much" in problem for problem in check_incoming(folder, ASKED))
    monkeypatch.setattr(incoming, "MAX_FILE_BYTES", 10**9)
    monkeypatch.setattr(incoming, "MAX_TOTAL_BYTES", 1000)
    assert any("too much" in problem for problem in check_incoming(folder, ASKED))


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["check_incoming", *map(str, arguments)])
    return main()


def test_the_command(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = tmp_path_factory.mktemp("aside")
    plan = aside / "shard-001.txt"
    plan.write_text(f"{OLD.commit}\n")
    (aside / f"{FINDING.id}.json").write_text("{}")
    assert call(monkeypatch, folder, "--planned", plan, "--requests", aside) == 0
    assert call(monkeypatch, folder, "--planned", plan) == 2
    write_asv(folder / "results", asv_document(NEW, TABLE))
    assert call(monkeypatch, folder, "--planned", plan, "--requests", aside) == 2
    # The order of commits has all of main in it, so being there is not enough: measured ones may come.
    known = aside / "results"
    write_lists(known)
    assert call(monkeypatch, folder, "--planned", plan, "--requests", aside, "--known", known) == 2
    write_asv(known, asv_document(NEW, TABLE))
    assert call(monkeypatch, folder, "--planned", plan, "--requests", aside, "--known", known) == 0
