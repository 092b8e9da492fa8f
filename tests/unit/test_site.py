"""The pages of the site: what is missing is said, nothing hostile gets out, every link leads somewhere."""

import json
import posixpath
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from builders import COMMITS, FINDINGS, NEW, OLD, history, measured
from site_builders import HOSTILE, hostile_site, long_history, site, slower, telemetry

from scripts.tracker.model import Case, Commit, Finding
from scripts.tracker.plot_lines import MOST_POINTS
from scripts.tracker.site_data import plot_text

ALL = [f for group in FINDINGS.values() for f in group]


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

    def links(self) -> Iterator[str]:
        yield from (
            v for n, v in self.attributes if n in ("href", "src") and v and not v.startswith(("#", "data:"))
        )


def pages(files: dict[str, str]) -> dict[str, Page]:
    return {name: Page(text) for name, text in files.items() if name.endswith(".html")}


def data_of(script: str) -> Any:
    start, end = "var atomwatch = ", ";\n"
    assert script.startswith(start)
    assert script.endswith(end)
    return json.loads(script[len(start) : -len(end)])


def test_hostile_text_stays_inert_in_every_page() -> None:
    hostile, harmless = hostile_site(HOSTILE), hostile_site("harmless")
    assert len(hostile) == len(harmless)
    for (name, there), here in zip(pages(hostile).items(), pages(harmless).values(), strict=True):
        assert there.tags == here.tags, name
        assert [n for n, _ in there.attributes] == [n for n, _ in here.attributes], name
    assert any(HOSTILE in page.text for page in pages(hostile).values())


def test_hostile_text_is_no_markup_in_the_plots_either() -> None:
    for name, text in hostile_site(HOSTILE).items():
        if name.startswith("data/"):
            labels = str(data_of(text).get("labels", ""))
            assert "<script" not in labels
            assert "\u2028" not in text
    assert plot_text("<a href='x'>&") == "&lt;a href='x'&gt;&amp;"


@pytest.mark.parametrize("findings", [ALL, [slower()], []], ids=["code", "time", "none"])
def test_every_link_leads_to_a_file_of_the_site(findings: list[Finding]) -> None:
    files = site(findings, seen=telemetry())
    assets = {"assets/site.css", "assets/site.js", "assets/plotly.min.js"}
    for name, page in pages(files).items():
        for link in page.links():
            assert "://" not in link, (name, link)
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link.split("#")[0]))
            assert target in files.keys() | assets, (name, link)


def test_the_overview_says_how_it_stands_since_when_and_what_is_missing() -> None:
    page = Page(site([slower()])["index.html"])
    text = " ".join(page.text)
    assert "1 of 1 cases, confirmed in one or more atomic_add against inline_asm 2.00 to 2.00" in text
    assert "likely regression since 3.2.0" in text
    assert "confirmed" not in site([slower(confirmation=None)])["index.html"]
    assert "not measured atomic_add against store not timed" in text
    assert "3 pairs compared" in text
    assert "no wheel of triton==3.3.0" in text
    assert {"ok", "skipped", "failed"} <= set(Page(site([])[commit_page_of(NEW)]).text)


def commit_page_of(commit: Commit) -> str:
    return f"commits/{commit.label}_{commit.commit[:12]}.html"


def test_the_page_of_a_release_that_was_not_measured_says_why() -> None:
    text = " ".join(Page(site([])[commit_page_of(COMMITS[2])]).text)
    assert "Not measured for cuda:90: no wheel of triton==3.3.0" in text
    assert "Not timed." in text


def test_nothing_found_and_nothing_timed_is_said() -> None:
    text = " ".join(Page(site([], history())["index.html"]).text)
    assert "Findings None." in text
    assert "No case is timed." in text
    assert "what it costs in time is not measured here" in text


def test_findings_stand_worst_first() -> None:
    text = " ".join(Page(site(ALL)["index.html"]).text)
    text = text[text.index("Findings verdict") :]
    assert text.index("likely regression") < text.index("compiler-wide") < text.index("likely improvement")


def test_a_finding_page_has_difference_confirmation_telemetry_and_commands() -> None:
    found = slower(excerpt="-REDG\n+ATOMG\n CCTL")
    files = site([found], seen=telemetry())
    name = "3.1.0_3.2.0_atomic_add_cuda-90"
    html = files[f"findings/{name}.html"]
    assert (
        '<span class="cut">-REDG</span>\n<span class="add">+ATOMG</span>\n<span class="same"> CCTL</span>'
        in html
    )
    text = " ".join(Page(html).text)
    assert "+25.00 %" in text
    assert "+20.00 to +30.00 %" in text
    assert f"scripts.confirm {found.id}" in text
    assert "Left out for throttling: 1." in text
    # dQ's path, from the records: in LLVM IR 8 wide atomics became 32 scalar ones.
    assert "atom.add.v4.f32 8 0" in text
    assert "atom.add.f32 0 32" in text
    data = data_of(files[f"data/finding_{name}.js"])
    assert data["telemetry"][0]["left_out"] == [1]
    assert data["confirmations"][0]["change"] == [25.0, 25.0]


def test_a_session_whose_file_is_not_here_is_said() -> None:
    html = site([slower()])["findings/3.1.0_3.2.0_atomic_add_cuda-90.html"]
    assert "telemetry is not shown" in html


def test_a_case_has_its_lines_and_markers_that_link() -> None:
    files = site([slower()])
    data = data_of(files["data/hd64-causal-fp16-n2048.js"])
    [ratio] = [line for line in data["lines"] if line["candidate"]]
    assert (ratio["candidate"], ratio["name"], ratio["at"]) == ("atomic_add", "inline_asm", [0, 1])
    assert ratio["value"] == [1.0, 2.0]
    assert ratio["low"][1] < 2.0 < ratio["high"][1]
    speeds = {line["name"]: line["value"] for line in data["lines"] if not line["candidate"]}
    assert speeds["atomic_add"] == pytest.approx([1 / 1.002, 0.5 / 1.002], rel=1e-4)
    [mark] = data["findings"]
    assert (mark["at"], mark["value"], mark["verdict"]) == (1, 2.0, "regression")
    assert mark["page"].removeprefix("../") in files
    text = " ".join(Page(files["cases/hd64-causal-fp16-n2048.html"]).text)
    assert "atomic_add / inline_asm 1 0.9951 to 1.005 2 1.99 to 2.01" in text


def test_the_backward_table_offers_what_is_timed() -> None:
    data = data_of(site([])["data/backward.js"])
    assert data["commits"] == [[OLD.commit, "3.1.0"], [NEW.commit, "3.2.0"]]
    assert data["tflops"]["64"][OLD.commit] == {"atomic_add": [100.0]}
    assert data["issue"]["tflops"] == {"atomic_add": [76.0, 96.0]}


def test_codegen_findings_mark_the_cases_of_their_code() -> None:
    data = data_of(site(FINDINGS["regression"])["data/hd64-causal-fp16-n2048.js"])
    [mark] = data["findings"]
    assert mark["value"] == 2.0  # no ratio of its own: where the line is
    assert Case(128, True, "fp16").slug not in str(data)


def test_the_code_page_marks_only_what_differs_from_the_last_value() -> None:
    past = history()
    past.measurements = [
        measured(commit, "atomic_add", {"width": width, "registers": 255})
        for commit, width in zip(past.commits, (4.0, None, 1.0, 1.0), strict=True)
    ]
    html = site([], past)["code/cuda-90_hd64-causal-fp16.html"]
    row = html[html.index("<td>width</td>") : html.index("<td>registers</td>")]
    assert row.count('<td class="number">4</td>') == 1
    assert row.count('<td class="number">n/a</td>') == 1
    assert row.count('<td class="number changed">1</td>') == 1
    assert row.count('<td class="number">1</td>') == 1


def test_a_long_code_table_keeps_the_ends_and_what_differs_and_says_so() -> None:
    past = history()
    past.commits = [Commit(f"{n:040x}", f"c{n}") for n in range(100)]
    past.measurements = [
        measured(commit, "atomic_add", {"width": 1.0 if n < 50 else 4.0})
        for n, commit in enumerate(past.commits)
    ]
    html = site([], past)["code/cuda-90_hd64-causal-fp16.html"]
    table = html[: html.index("</table>")]
    labels = ("c0", "c1", "c49", "c50", "c51", "c99")
    assert [label for label in labels if f"<th>{label}</th>" in table] == ["c0", "c50", "c99"]
    assert "(3 of\n100 commits" in table


def test_a_long_history_is_thinned_and_says_so_and_its_spike_stays() -> None:
    files = site([], long_history())
    data = data_of(files["data/hd64-causal-fp16-n2048.js"])
    [ratio] = [line for line in data["lines"] if line["candidate"]]
    assert len(ratio["at"]) <= MOST_POINTS
    assert ratio["value"][ratio["at"].index(1234)] == 3.0
    text = " ".join(" ".join(Page(files["cases/hd64-causal-fp16-n2048.html"]).text).split())
    drawn = sum(len(line["at"]) for line in data["lines"])
    assert f"Drawn are {drawn} of 6000 points" in text
    # Only releases and ends of findings have a page: nobody reads thousands.
    assert not [name for name in files if name.startswith("commits/")]


def test_what_is_drawn_whole_is_not_called_thinned() -> None:
    assert "Drawn are" not in site([slower()])["cases/hd64-causal-fp16-n2048.html"]
