"""A judgement on the terminal, as JSON and as a page: nothing is hidden, nothing hostile gets out."""

import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from builders import (
    FACTS,
    FINDINGS,
    NARROWER,
    NEW,
    OLD,
    asv_document,
    finding,
    history,
    measured,
    write_asv,
    write_lists,
)
from rich.console import Console

import scripts.report
from scripts.tracker.errors import TrackerError
from scripts.tracker.measured import History
from scripts.tracker.model import Commit, Finding, Role, VariantFacts, Verdict
from scripts.tracker.report import findings_json, print_summary, print_table, render_html
from scripts.tracker.steps import Judgement
from scripts.tracker.workspace import Workspace

ALL = [f for group in FINDINGS.values() for f in group]
HOSTILE = "<script>alert(1)</script> \" onload='x' [/] [bold red]@me[/] & {{ 7 * 7 }}"


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
    assert "1 findings. Measured: 2 commits, 3 variants and cases compiled" in text
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


class Page(HTMLParser):
    """Collects tags, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += [data.strip()] if data.strip() else []


def page_with(text: str) -> Page:
    """A page in which everything that other machines can write is ``text``."""
    past: Any = history()
    past.commits[:2] = [Commit(OLD.commit, text), Commit(NEW.commit, text)]
    past.variants = {**FACTS, text: VariantFacts(Role.CONTROL, True, text)}
    past.failures["cuda:90"][OLD.commit] = replace(
        past.failures["cuda:90"][past.commits[2].commit], reason=text
    )
    past.notes.append(text)
    past.problems.append(TrackerError(text))
    past.measurements.append(measured(NEW, text, {text: 4}))
    found = finding(
        Verdict.REGRESSION, replace(NARROWER, meaning=text), before=past.commits[0], explanation=text
    )
    return Page(render_html(Judgement([found]), past))


def test_hostile_text_stays_inert_in_the_page() -> None:
    hostile, harmless = page_with(HOSTILE), page_with("harmless")
    assert hostile.tags == harmless.tags
    assert hostile.attributes == harmless.attributes
    assert HOSTILE in hostile.text
    assert hostile.tags["script"] == 0


def test_the_page_loads_nothing_from_elsewhere() -> None:
    page = Page(render_html(Judgement(ALL), history()))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not {"href", "src"} & {name for name, _ in page.attributes}


def test_the_page_shows_findings_values_and_what_is_missing() -> None:
    page = Page(render_html(Judgement(ALL, Counter({"pairs compared": 3})), history()))
    text = " ".join(page.text)
    assert "Likely regression" in text
    assert "3 pairs compared" in text
    assert "no wheel of triton==3.3.0" in text
    assert {"ok", "skipped", "failed", "not measured"} <= set(page.text)
    assert page.text.index("Likely regression:") < page.text.index("Likely improvement:")


def test_the_page_marks_only_what_differs_from_the_last_value() -> None:
    past = history()
    past.measurements = [
        measured(commit, "atomic_add", {"width": width, "registers": 255})
        for commit, width in zip(past.commits, (4.0, None, 1.0, 1.0), strict=True)
    ]
    html = render_html(Judgement(), past)
    row = html[html.index("<td>width</td>") : html.index("<td>registers</td>")]
    assert row.count('<td class="number">4</td>') == 1
    assert row.count('<td class="number">n/a</td>') == 1
    assert row.count('<td class="number changed">1</td>') == 1
    assert row.count('<td class="number">1</td>') == 1
    assert "None." in html[html.index("Findings</h2>") :][:100]


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
