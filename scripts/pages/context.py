"""What every page of the site is made of, worked out once. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from scripts.pages.code_tables import number
from scripts.pages.paths import commit_page, finding_page, is_release
from scripts.pages.sources import Sources
from scripts.tracker.groups import SEVERITY, VERDICT_WORDS, FindingGroup, group_findings
from scripts.tracker.measured import History
from scripts.tracker.model import CodegenMeasurement, Commit, TimingMeasurement, Verdict
from scripts.tracker.results import BuildFailure
from scripts.tracker.steps import Judgement

SITE = Path(__file__).resolve().parent / "templates"
# What a selector offers and a list shows of a long history; all is in the results.
NEWEST = 30
_TRITON = "https://github.com/triton-lang/triton"
_SHA = re.compile(r"[0-9a-f]{7,64}")
# Shapes beside words and colours: a verdict is never told by colour alone.
MARKS = {
    Verdict.REGRESSION: "▲",
    Verdict.IMPROVEMENT: "▼",
    Verdict.NO_VALID_DATA: "✕",
    Verdict.PENDING: "?",
    Verdict.UNSTABLE: "≈",
    Verdict.COMPILER_WIDE: "◆",
    Verdict.REFERENCE_MOVED: "◇",
    Verdict.ENVIRONMENT: "○",
    Verdict.NO_CHANGE: "✓",
}


@dataclass(frozen=True, slots=True)
class Site:
    """``groups``: findings, worst first, the newest first among the equally severe. ``paged``: commits with a
    page of their own, in the history's order: what was tried, and where findings begin or end. ``named``: of
    them those that a list offers: releases, ends of findings, and the newest. ``compiled``, ``timed``,
    ``failed``: of each commit. ``ended``: how many groups end at it."""

    judgement: Judgement
    history: History
    sources: Sources
    groups: list[FindingGroup]
    paged: list[Commit]
    named: list[Commit]
    compiled: dict[str, list[CodegenMeasurement]]
    timed: dict[str, list[TimingMeasurement]]
    failed: dict[str, list[tuple[str, BuildFailure]]]
    ended: Counter[str]
    environment: jinja2.Environment

    def page(self, template: str, root: str, **values: Any) -> str:
        """``root``: the way from the page to the site's folder, empty or "../"."""
        return self.environment.get_template(template).render(root=root, **values)


def site_of(judgement: Judgement, history: History, sources: Sources) -> Site:
    groups = group_findings(judgement.findings)[::-1]
    groups.sort(key=lambda group: SEVERITY.index(group.verdict))
    compiled: dict[str, list[CodegenMeasurement]] = defaultdict(list)
    timed: dict[str, list[TimingMeasurement]] = defaultdict(list)
    failed: dict[str, list[tuple[str, BuildFailure]]] = defaultdict(list)
    for m in history.measurements:
        compiled[m.commit].append(m)
    for t in history.timings:
        timed[t.commit].append(t)
    for target, failures in history.failures.items():
        for sha, failure in failures.items():
            failed[sha].append((target, failure))
    ends = {c.commit: c for g in groups for c in (g.before, g.after)}
    tried = ends.keys() | compiled.keys() | timed.keys() | failed.keys()
    known = {c.commit for c in history.commits}
    paged = [c for c in history.commits if c.commit in tried or is_release(c)]
    paged += [c for sha, c in ends.items() if sha not in known]
    newest = {c.commit for c in paged[-NEWEST:]}
    named = [c for c in paged if is_release(c) or c.commit in ends or c.commit in newest]
    environment = _environment({c.commit for c in paged}, history)
    ended = Counter(group.after.commit for group in groups)
    return Site(
        judgement, history, sources, groups, paged, named, compiled, timed, failed, ended, environment
    )


def _environment(paged: set[str], history: History) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(SITE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.globals.update(
        words=VERDICT_WORDS,
        marks=MARKS,
        timed_on=history.timed_on(),
        commit_page=lambda c: commit_page(c) if c.commit in paged else None,
        finding_page=finding_page,
        on_github=_on_github,
    )
    return environment


def _on_github(commit: str, pr: int | None = None) -> str | None:
    """A link for people to follow; the pages load nothing from it. None for what is no commit."""
    if pr is not None:
        return f"{_TRITON}/pull/{int(pr)}"
    return f"{_TRITON}/commit/{commit}" if _SHA.fullmatch(commit) else None
