"""The static site: an overview, a page a case, a finding and a commit; nothing in it comes from elsewhere.
Pure, but for the evidence's texts, which are read where a finding shows them."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.pages.case_page import case_files
from scripts.pages.code_sides import SideReader
from scripts.pages.code_tables import code_tables
from scripts.pages.commit_pages import commit_list, commit_text
from scripts.pages.context import SITE, site_of
from scripts.pages.data import backward_data, script
from scripts.pages.finding_page import finding_files
from scripts.pages.health import NewestRatios, newest_ratios
from scripts.pages.index_page import index_text
from scripts.pages.paths import code_page, commit_page
from scripts.pages.plot_lines import Line, ratio_lines, tflops_lines
from scripts.pages.sources import Sources
from scripts.tracker.measured import History
from scripts.tracker.model import Case, TimingMeasurement
from scripts.tracker.policy import read_policy
from scripts.tracker.steps import Judgement

__all__ = ["SITE", "render_site"]


def render_site(judgement: Judgement, history: History, sources: Sources) -> Iterator[tuple[str, str]]:
    """(path, text) of every page and data file; the overview last: it says what could not be read."""
    site = site_of(judgement, history, sources)
    newest: NewestRatios = {}
    by_case: dict[Case, list[TimingMeasurement]] = {}
    for t in history.timings:
        by_case.setdefault(t.case, []).append(t)
    timed = sorted(by_case, key=lambda c: (c.head_dim, c.causal, c.dtype, c.n_ctx or 0))
    for case in timed:
        lines = _lines(case, by_case[case], history)
        newest |= newest_ratios(case, lines)
        yield from case_files(site, case, lines, by_case[case])
    for table in code_tables(history):
        yield code_page(table.target, table.case), site.page("code.html", "../", table=table)
    reader = SideReader(sources.text)
    for group in site.groups:
        yield from finding_files(site, group, reader)
    for commit in site.paged:
        yield commit_page(commit), commit_text(site, commit)
    yield "commits.html", commit_list(site)
    yield "data/backward.js", script(backward_data(site))
    yield "index.html", index_text(site, newest, timed)


def _lines(case: Case, timings: list[TimingMeasurement], history: History) -> list[Line]:
    lines = ratio_lines(case, timings, history.commits, history.variants, read_policy().timing)
    flops = history.flops.get((case.n_ctx or 0, case.head_dim, case.causal))
    return lines + (tflops_lines(case, timings, history.commits, flops) if flops else [])
