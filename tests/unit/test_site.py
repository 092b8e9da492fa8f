"""The pages of the site: what is missing is said, nothing hostile gets out, every link leads somewhere."""

import datetime
import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from builders import COMMITS, FINDINGS, NEW, OLD, TARGET, VERSION, evidence, history, measured
from site_builders import HOSTILE, hostile_site, long_history, site, slower, telemetry, timed_history

from scripts.pages.context import NEWEST
from scripts.pages.data import plot_text
from scripts.pages.plot_lines import MOST_POINTS
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import LandedCommit
from scripts.tracker.model import Case, Commit, Evidence, Finding, Kernel, MeasurementStatus, Suspect, Verdict
from scripts.tracker.results import BuildFailure

NAME = "3.1.0_3.2.0_atomic_add_cuda-90"
SASS = (
    "        /*0000*/                   MOV R1, R2 ;\n"
    "        /*0010*/                   {} [R2.64], R4 ;\n"
    "        /*0020*/                   EXIT ;\n"
)
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


def code_record(commit: Commit, digest: str) -> Evidence:
    kernel = Kernel("backward", "code", {}, {"sass": digest})
    return Evidence(commit.commit, commit.label, VERSION, "atomic_add", "ok", None, (kernel,))


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
            if link.startswith("https://github.com/triton-lang/triton/"):
                continue  # for people to follow
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


def test_a_case_lists_what_is_about_it_alone() -> None:
    """A group of both head_dims has one page; head_dim 64's case tells of head_dim 64."""
    here, other = slower(), replace(slower(), id="other", case=replace(slower().case, head_dim=128))
    files = site([here, other, replace(other, id="wide", verdict=Verdict.COMPILER_WIDE)])
    text = " ".join(Page(files["cases/hd64-causal-fp16-n2048.html"]).text)
    assert "likely regression" in text
    assert "head_dim 128" not in text
    assert "compiler-wide" not in text


def test_a_release_lists_what_did_not_compile_and_counts_the_rest() -> None:
    past = history()
    past.measurements = [replace(m, evidence=evidence(NEW, m.variant)) for m in past.measurements]
    past.measurements += [measured(NEW, "descriptor_add", status=MeasurementStatus.SKIPPED)]
    page = site([], past)[commit_page_of(NEW)]
    [table] = re.findall(r"<h2>Code</h2>.*", page, re.S)
    assert "descriptor_add" in table
    assert "variants and cases compiled (ok) for cuda:90" in table
    assert not re.search(r"<td>ok</td>", table)


def cards_of(html: str) -> str:
    start = html.index('<div class="cards">')
    return " ".join(" ".join(Page(html[start : html.index("</div>", start)]).text).split())


def test_a_card_says_of_each_candidate_how_it_is_and_since_when() -> None:
    bad = cards_of(site([slower(candidate_change=1.0)])["index.html"])
    assert bad.startswith(
        "atomic_add ▲ likely regression since 3.2.0 against inline_asm; its own time +100 %"
    )
    assert "confirmed in fresh GPU sessions now takes 2.00 to 2.00 times its references' time" in bad
    good = cards_of(site([])["index.html"])
    assert "✓ healthy: nothing open since 3.1.0, the first measured" in good
    past = timed_history()
    past.timings, past.measurements = [], []
    assert cards_of(site([], past)["index.html"]) == "atomic_add not measured GPU time: not measured"


def test_a_file_that_could_not_be_read_is_said_before_anything_else() -> None:
    past = timed_history()
    past.problems.append(TrackerError("results/x.json: not a whole asv result file; delete it"))
    text = " ".join(" ".join(Page(site([], past)["index.html"]).text).split())
    assert "Incomplete: 1 file could not be read" in text
    assert text.index("results/x.json") < text.index("atomic_add")
    assert "Incomplete" not in site([])["index.html"]


def test_expected_changes_are_shown_with_their_reason_and_count_as_no_finding() -> None:
    reason = "Triton gave up speed for a memory model that is right"
    page = Page(site([], expected=[(slower(), reason)])["index.html"])
    text = " ".join(" ".join(page.text).split())
    assert f"3.1.0 → 3.2.0: likely regression against inline_asm. {reason}" in text
    assert "Findings None." in text
    assert "quiets nothing here" in site([])["index.html"]


def test_the_list_of_commits_tells_every_way_to_lack_a_measurement_apart() -> None:
    sha = "d" * 40
    landed = {sha: LandedCommit(sha, (), datetime.datetime.now(datetime.UTC), "Fix a typo (#1)", ())}
    past = timed_history()
    past.failures[TARGET][COMMITS[2].commit] = BuildFailure("no network", True)
    files = site([slower()], past, not_applicable={sha: ("documents",)}, landed=landed)
    text = " ".join(" ".join(Page(files["commits.html"]).text).split())
    assert "3.4.0 not measured not timed none" in text
    assert "3.3.0 failed for cuda:90: no network; it is tried again not timed none" in text
    assert "3.2.0 2 ok, 1 skipped, 1 failed 1 cases 1" in text
    assert "Not applicable" in text
    assert "dddddddddd (documents) Fix a typo (#1)" in text
    assert "1 more cannot change this code and were not measured" in " ".join(files["index.html"].split())


def test_only_what_is_a_commit_links_to_github() -> None:
    past = timed_history()
    past.commits[0] = Commit("javascript:alert(1)", "odd")
    past.measurements.append(measured(past.commits[0], "atomic_add"))
    [page] = [text for name, text in site([], past).items() if name.startswith("commits/odd")]
    assert "javascript:alert(1)" not in [value for _, value in Page(page).attributes]
    found = slower(attribution="one of two", suspects=(Suspect("e" * 40, 4971, 0.5, "why", "subject"),))
    html = site([found])[f"findings/{NAME}.html"]
    assert f'href="https://github.com/triton-lang/triton/commit/{"e" * 40}"' in html
    assert 'href="https://github.com/triton-lang/triton/pull/4971"' in html


def test_a_finding_page_shows_both_sides_of_the_code_with_dqs_path() -> None:
    past = timed_history()
    past.measurements = [
        measured(c, "atomic_add", {"dq_writes": 1}, found=code_record(c, digest))
        for c, digest in ((OLD, "old"), (NEW, "new"))
    ]
    files = site(
        [slower()],
        past,
        text={"old": SASS.format("REDG.E.ADD.F32"), "new": SASS.format("ATOMG.E.ADD.F32")}.get,
    )
    html = files[f"findings/{NAME}.html"]
    [row] = re.findall(r'<tr class="on differs">(.*?)</tr>', html)
    cells = [Page(cell).text for cell in re.findall(r"<td.*?</td>", row)]
    assert cells == [["≠ 2"], ["REDG.E.ADD.F32 [R2.64], R4"], ["≠ 2"], ["ATOMG.E.ADD.F32 [R2.64], R4"]]
    text = " ".join(" ".join(Page(html).text).split())
    assert "SASS : differs on dQ's path" in text
    assert "PTX : the evidence store has no text of both sides." in text
    assert "zstdcat .cache/evidence/objects/ol/old.zst # sass of 3.1.0" in text


def test_without_records_there_is_no_code_and_that_is_said() -> None:
    past = timed_history()
    past.measurements = []
    assert "there is no code to show" in site([slower()], past)[f"findings/{NAME}.html"]


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
    name = NAME
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
    first, second = (
        f"{low:.4g} to {high:.4g}" for low, high in zip(ratio["low"], ratio["high"], strict=True)
    )
    assert f"atomic_add / inline_asm 1 {first} 2 {second}" in text


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
    # Every commit has a page and a line in the list; the overview lists the newest.
    assert len([name for name in files if name.startswith("commits/")]) == 2000
    assert files["commits.html"].count('<a href="commits/') == 2000
    assert files["index.html"].count('<a href="commits/') == NEWEST


def test_what_is_drawn_whole_is_not_called_thinned() -> None:
    assert "Drawn are" not in site([slower()])["cases/hd64-causal-fp16-n2048.html"]
