"""A judgement on the terminal, as JSON and as a page: nothing is hidden, nothing hostile gets out."""

import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builders import (
    FINDINGS,
    NARROWER,
    NEW,
    OLD,
    asv_document,
    finding,
    history,
    write_asv,
    write_lists,
)
from rich.console import Console

import scripts.report
from scripts.tracker.errors import TrackerError
from scripts.tracker.measured import History
from scripts.tracker.model import Commit, Finding, Verdict
from scripts.tracker.report import findings_json, print_summary, print_table
from scripts.tracker.steps import Judgement
from scripts.tracker.terminal import terminal
from scripts.tracker.workspace import Workspace

ALL = [f for group in FINDINGS.values() for f in group]


def printed(show: Callable[..., None], findings: list[Finding], past: History, width: int = 80) -> str:
    stream = io.StringIO()
    show(Console(file=stream, width=width, color_system=None), Judgement(findings, Counter(pairs=3)), past)
    return stream.getvalue()


@pytest.mark.parametrize("verdict", FINDINGS)
def test_json_has_exactly_the_fields_of_the_design(verdict: str) -> None:
    document = json.loads(findings_json(Judgement(FINDINGS[verdict])))
    assert set(document) == {"schema", "findings"}
    assert document["schema"] == 1
    for found in document["findings"]:
        assert set(found) == {
            "id", "verdict", "evidence", "candidate", "reference", "case", "target", "before", "after",
            "ratio_before", "ratio_after", "change", "interval", "minimum_detectable_change",
            "first_changed_stage", "codegen_changes", "suspects", "unmeasured_commits", "explanation",
            "excerpt", "confirmation",
        }  # fmt: skip
        assert found["verdict"] == verdict


def test_json_values() -> None:
    [found] = json.loads(findings_json(Judgement(FINDINGS["improvement"])))["findings"]
    assert found["evidence"] == ["codegen"]
    assert found["before"] == {"commit": OLD.commit, "label": "3.1.0"}
    assert found["case"] == {
        "head_dim": 64, "causal": True, "dtype": "fp16", "n_ctx": None, "batch": None, "heads": None,
    }  # fmt: skip
    assert found["first_changed_stage"] == "llir"
    assert found["unmeasured_commits"] == 2
    assert found["codegen_changes"][0] == {
        "variant": "atomic_add", "metric": "dq_vector_width", "before": 1, "after": 4,
        "meaning": "wider writes of dQ",
    }  # fmt: skip


def test_json_never_holds_what_json_has_no_word_for() -> None:
    endless = finding(Verdict.REGRESSION, replace(NARROWER, after=float("inf")))
    with pytest.raises(ValueError, match="not JSON compliant"):
        findings_json(Judgement([endless]))


def test_no_findings_is_an_empty_list_in_json() -> None:
    assert json.loads(findings_json(Judgement())) == {"schema": 1, "findings": []}


def test_no_findings_is_said() -> None:
    assert printed(print_table, [], history()) == "No findings.\n"


def test_the_table_is_as_it_is_read(golden: Callable[[str, str], None]) -> None:
    text = "\n".join(line.rstrip() for line in printed(print_table, ALL, history()).splitlines())
    golden("table.txt", text + "\n")


@pytest.mark.parametrize("width", [80, 60, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    wide = Commit("a" * 40, "nightly-2026-12-01-" + "x" * 90)
    long = finding(Verdict.NO_VALID_DATA, after=wide, explanation="word " * 100 + "y" * 200)
    text = printed(print_table, [*ALL, long], history(), width)
    assert max(map(len, text.splitlines())) <= width
    assert "word" in text


def test_hostile_labels_and_messages_are_printed_as_they_are() -> None:
    label = Commit("a" * 40, "[/][red]x")
    hostile = finding(Verdict.NO_VALID_DATA, after=label, explanation="[/bold] ptxas [link=x]")
    text = printed(print_table, [hostile], history(), 200)
    assert "[/][red]x" in text
    assert "[/bold] ptxas [link=x]" in text


def test_the_summary_says_what_was_not_measured() -> None:
    past = history()
    past.notes.append("2 commits were measured with other kernels")
    past.problems.append(TrackerError("results/x.json: cut short"))
    text = " ".join(printed(print_summary, ALL[:1], past).split())
    assert "1 findings in 1 rows (each of a candidate, a reference and a case). Measured: 2 commits" in text
    assert "3 variants and cases compiled" in text
    assert "1 skipped (the operation is not there), 1 failed." in text
    assert "3 pairs" in text
    assert "not measured for cuda:90: 3.3.0: no wheel of triton==3.3.0" in text
    assert "note: 2 commits were measured with other kernels" in text
    assert "error: results/x.json: cut short" in text


def test_the_summary_prints_hostile_text_as_it_is() -> None:
    past = history()
    past.notes.append("[/] note")
    past.problems.append(TrackerError("[/nothing] problem"))
    text = printed(print_summary, [], past)
    assert "[/] note" in text
    assert "[/nothing] problem" in text


def test_a_page_of_half_a_history_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    space = Workspace(tmp_path)
    write_lists(space.results)
    damaged = write_asv(space.results, asv_document(OLD, {"atomic_add": {"registers": 1.0}}))
    write_asv(space.results, asv_document(NEW, {"atomic_add": {"registers": 1.0}}))
    damaged.write_text("{")
    monkeypatch.setattr(scripts.report, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["report"])
    assert scripts.report.main() == 2
    assert damaged.name in capsys.readouterr().err
    assert (space.report / "index.html").exists()


def test_a_target_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    terminal().print("Triton releases for cuda:100: 3.6.0")
    assert "cuda:100: 3.6.0" in capsys.readouterr().out
