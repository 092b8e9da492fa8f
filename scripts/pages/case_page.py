"""The page of a timed case: ratios and TFLOP/s over the commits. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scripts.pages.context import NEWEST, Site
from scripts.pages.data import case_data, script
from scripts.pages.paths import case_name, case_page, code_page
from scripts.pages.plot_lines import Line, epochs_of
from scripts.tracker.groups import FindingGroup
from scripts.tracker.model import Case, TimingMeasurement


def case_files(
    site: Site, case: Case, lines: list[Line], timings: list[TimingMeasurement]
) -> Iterator[tuple[str, str]]:
    """Its page and its data."""
    history, data = site.history, f"data/{case_name(case)}.js"
    wanted = (case, replace(case, n_ctx=None))
    # Its own and those of its code.
    groups = [g for g in site.groups if any(f.case in wanted for f in g.findings)]
    yield data, script(case_data(case, lines, timings, groups, history))
    page = site.page(
        "case.html",
        "../",
        case=case,
        data=f"../{data}",
        candidates=list(dict.fromkeys(line.candidate for line in lines if line.candidate)),
        tables=_newest_values(lines, site),
        epochs=epochs_of(timings, history.commits),
        commits=history.commits,
        groups=[_of_case(group, wanted) for group in groups],
        drawn=sum(len(line.at) for line in lines),
        taken=sum(line.taken for line in lines),
        missing=_missing(site, timings),
        code_pages=[
            (target, code_page(target, wanted[1]))
            for target in sorted({m.target for m in history.measurements if m.case == wanted[1]})
        ],
    )
    yield case_page(case), page


def _of_case(group: FindingGroup, wanted: tuple[Case, Case]) -> FindingGroup:
    """What of a group is about this case; its page shows the whole."""
    return replace(group, findings=tuple(f for f in group.findings if f.case in wanted))


def _missing(site: Site, timings: list[TimingMeasurement]) -> tuple[int, int]:
    """(how many commits of the history, how many of them have no time of this case)."""
    timed = {t.commit for t in timings if t.samples_s}
    commits = site.history.commits
    return len(commits), sum(c.commit not in timed for c in commits)


def _newest_values(lines: list[Line], site: Site) -> list[dict[str, object]]:
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
            commits = [site.history.commits[at] for at in places]
            tables.append({"title": title, "commits": commits, "rows": cells})
    return tables
