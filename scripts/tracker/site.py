"""The static site: an overview, a page a case, a finding and a release; nothing in it comes from elsewhere.
Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import jinja2
import numpy as np

from scripts.tracker.code_tables import code_tables, number
from scripts.tracker.comment import TEMPLATES
from scripts.tracker.finding_page import confirmation_bars, session_of, stage_tables, telemetry_of
from scripts.tracker.groups import SEVERITY, VERDICT_WORDS, FindingGroup, group_findings
from scripts.tracker.health import NewestRatios, is_confirmed, newest_ratios, standings
from scripts.tracker.measured import History
from scripts.tracker.model import Case, Commit, TimingMeasurement, Verdict
from scripts.tracker.plot_lines import Line, epochs_of, ratio_lines, tflops_lines
from scripts.tracker.policy import read_policy
from scripts.tracker.site_data import NEWEST, backward_data, case_data, script
from scripts.tracker.site_paths import case_name, case_page, code_page, commit_page, finding_page, is_release
from scripts.tracker.site_sources import Sources
from scripts.tracker.steps import Judgement, pairs

SITE = TEMPLATES / "site"
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
    Verdict.NO_CHANGE: "=",
}


def render_site(judgement: Judgement, history: History, sources: Sources) -> Iterator[tuple[str, str]]:
    """(path, text) of every page and data file; the overview last, when all it links to is there."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(SITE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.globals.update(words=VERDICT_WORDS, marks=MARKS, timed_on=history.timed_on())
    groups = group_findings(judgement.findings)[::-1]  # newest first among the equally severe
    groups.sort(key=lambda group: SEVERITY.index(group.verdict))
    named = _named_commits(history, groups)
    environment.globals["commit_page"] = lambda c: commit_page(c) if c in named else None
    newest: NewestRatios = {}
    by_case: dict[Case, list[TimingMeasurement]] = {}
    for t in history.timings:
        by_case.setdefault(t.case, []).append(t)
    timed = sorted(by_case, key=lambda c: (c.head_dim, c.causal, c.dtype, c.n_ctx or 0))
    for case in timed:
        lines = _lines(case, by_case[case], history)
        newest |= newest_ratios(case, lines)
        yield from _case(environment, case, lines, by_case[case], judgement, history)
    for table in code_tables(history):
        page = environment.get_template("code.html").render(root="../", table=table)
        yield code_page(table.target, table.case), page
    for group in groups:
        yield from _finding(environment, group, history, sources)
    for commit in named:
        yield commit_page(commit), _commit(environment, commit, groups, history)
    yield "data/backward.js", script(backward_data(sources, history, named))
    yield "index.html", _index(environment, judgement, history, groups, newest, timed, named, sources)


def _named_commits(history: History, groups: list[FindingGroup]) -> list[Commit]:
    """Commits with a page: releases, and where a finding begins or ends. In the history's order."""
    ends = {c.commit for g in groups for c in (g.before, g.after)}
    named = [c for c in history.commits if is_release(c) or c.commit in ends]
    return named + [g.after for g in groups if g.after.commit not in {c.commit for c in named}]


def _lines(case: Case, timings: list[TimingMeasurement], history: History) -> list[Line]:
    lines = ratio_lines(case, timings, history.commits, history.variants, read_policy().timing)
    flops = history.flops.get((case.n_ctx or 0, case.head_dim, case.causal))
    return lines + (tflops_lines(case, timings, history.commits, flops) if flops else [])


def _case(
    environment: jinja2.Environment,
    case: Case,
    lines: list[Line],
    timings: list[TimingMeasurement],
    judgement: Judgement,
    history: History,
) -> Iterator[tuple[str, str]]:
    groups = _groups_of(judgement, case)
    data = case_data(case, lines, timings, groups, history)
    yield f"data/{case_name(case)}.js", script(data)
    drawn, taken = (sum(len(line.at) for line in lines), sum(line.taken for line in lines))
    yield (
        case_page(case),
        environment.get_template("case.html").render(
            root="../",
            case=case,
            data=f"../data/{case_name(case)}.js",
            candidates=list(dict.fromkeys(line.candidate for line in lines if line.candidate)),
            tables=_newest_values(lines, history),
            epochs=epochs_of(timings, history.commits),
            commits=history.commits,
            groups=groups,
            finding_page=finding_page,
            drawn=drawn,
            taken=taken,
            code_pages=[
                (target, code_page(target, replace(case, n_ctx=None)))
                for target in sorted({m.target for m in history.measurements})
                if any(
                    m.target == target and m.case == replace(case, n_ctx=None) for m in history.measurements
                )
            ],
        ),
    )


def _groups_of(judgement: Judgement, case: Case) -> list[FindingGroup]:
    """Findings about a timed case: its own, and those of its code. Whole groups, since pages show those."""
    wanted = (case, replace(case, n_ctx=None))
    return [g for g in group_findings(judgement.findings) if any(f.case in wanted for f in g.findings)]


def _newest_values(lines: list[Line], history: History) -> list[dict[str, object]]:
    """The newest commits' values as tables, which need neither a mouse nor scripts."""
    tables: list[dict[str, object]] = []
    for title, of in (
        ("Ratio", [x for x in lines if x.candidate]),
        ("TFLOP/s", [x for x in lines if not x.candidate]),
    ):
        places = sorted({int(at) for line in of for at in line.at})[-NEWEST:]
        rows: dict[str, dict[int, tuple[float, float, float]]] = {}
        for line in of:
            name = f"{line.candidate} / {line.name}" if line.candidate else line.name
            ends = zip(line.value.tolist(), line.low.tolist(), line.high.tolist(), strict=True)
            rows.setdefault(name, {}).update(zip(line.at.tolist(), ends, strict=True))
        if places:
            cells = [(name, [values.get(at) for at in places]) for name, values in rows.items()]
            tables.append({"title": title, "commits": [history.commits[at] for at in places], "rows": cells})
    return tables


def _finding(
    environment: jinja2.Environment, group: FindingGroup, history: History, sources: Sources
) -> Iterator[tuple[str, str]]:
    bars = confirmation_bars(group)
    sessions = session_of(group, history)
    readings = telemetry_of(sessions, sources.telemetry)
    data = f"data/finding_{group.slug}.js"
    if bars or readings:
        yield data, script({"confirmations": bars, "telemetry": readings})
    page = environment.get_template("finding.html").render(
        root="../",
        group=group,
        data=f"../{data}" if bars or readings else None,
        bars=bars,
        readings=readings,
        sessions=sessions,
        stages=stage_tables(group, history),
        cases=[
            (case, f"../{case_page(case)}#{group.candidate}")
            for case in sorted(
                {f.case for f in group.findings if f.case.n_ctx is not None},
                key=lambda c: (c.head_dim, c.n_ctx or 0),
            )
            if any(t.case == case for t in history.timings)
        ],
        one=max(group.findings, key=lambda f: (f.confirmation is not None, abs(f.change or 0.0))),
    )
    yield finding_page(group), page


def _commit(
    environment: jinja2.Environment, commit: Commit, groups: list[FindingGroup], history: History
) -> str:
    measured = [m for m in history.measurements if m.commit == commit.commit]
    speeds: dict[str, dict[Case, float]] = {}
    for t in history.timings:
        flops = history.flops.get((t.case.n_ctx or 0, t.case.head_dim, t.case.causal))
        if t.commit == commit.commit and t.samples_s and flops:
            speeds.setdefault(t.variant, {})[t.case] = flops / float(np.median(t.samples_s)) / 1e12
    cases = sorted({c for of in speeds.values() for c in of}, key=lambda c: (c.head_dim, c.n_ctx or 0))
    return environment.get_template("commit.html").render(
        root="../",
        commit=commit,
        came=[g for g in groups if g.after == commit],
        went=[g for g in groups if g.before == commit],
        finding_page=finding_page,
        measured=sorted(measured, key=lambda m: (m.target, m.case)),
        failures=[
            (target, of[commit.commit].reason)
            for target, of in history.failures.items()
            if commit.commit in of
        ],
        cases=[(case, f"../{case_page(case)}") for case in cases],
        speeds=[(variant, [of.get(case) for case in cases]) for variant, of in speeds.items()],
    )


def _index(
    environment: jinja2.Environment,
    judgement: Judgement,
    history: History,
    groups: list[FindingGroup],
    newest: NewestRatios,
    timed: list[Case],
    named: list[Commit],
    sources: Sources,
) -> str:
    of_pairs = pairs({name: fact.role for name, fact in history.variants.items()})
    measured = {m.commit for m in history.measurements} | {t.commit for t in history.timings}
    pages = {id(f): finding_page(g) for g in groups for f in g.findings}
    return environment.get_template("index.html").render(
        root="",
        standings=standings(of_pairs, judgement.findings, newest, history.commits),
        page_of=lambda found: pages[id(found)],
        is_confirmed=is_confirmed,
        newest=next((c for c in reversed(history.commits) if c.commit in measured), None),
        groups=groups,
        finding_page=finding_page,
        counts=sorted(judgement.counts.items()),
        timed=[(case, case_page(case)) for case in timed],
        code=[
            (target, case, code_page(target, case))
            for target, case in sorted({(m.target, m.case) for m in history.measurements})
        ],
        facts=history.variants,
        named=named[::-1],
        has_backward=bool(sources.backward),
        issue=sources.issue,
        failures=[
            (target, history.label(commit), failure.reason)
            for target, failures in history.failures.items()
            for commit, failure in failures.items()
        ],
        problems=[*map(str, history.problems), *history.notes, *judgement.notes],
    )
