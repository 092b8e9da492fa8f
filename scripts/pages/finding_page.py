"""The page of a finding: what changed, in which code, whether it is real, who may have done it. Pure but for
the texts that the reader reads."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.pages.code_sides import SideReader
from scripts.pages.context import Site
from scripts.pages.data import script
from scripts.pages.finding_parts import (
    code_sides,
    confirmation_bars,
    session_of,
    stage_tables,
    telemetry_of,
)
from scripts.pages.paths import case_page, finding_page, is_release
from scripts.tracker.groups import FindingGroup


def finding_files(site: Site, group: FindingGroup, reader: SideReader) -> Iterator[tuple[str, str]]:
    """Its page, and its data if there is something to draw."""
    bars = confirmation_bars(group)
    ends = (group.before.commit, group.after.commit)
    measurements = [m for sha in ends for m in site.compiled.get(sha, ())]
    timings = [t for sha in ends for t in site.timed.get(sha, ())]
    sessions = session_of(group, timings)
    readings = telemetry_of(sessions, site.sources.telemetry)
    data = f"data/finding_{group.slug}.js"
    if bars or readings:
        yield data, script({"confirmations": bars, "telemetry": readings})
    timed = {t.case for t in site.history.timings}
    cases = sorted(
        {f.case for f in group.findings if f.case in timed}, key=lambda c: (c.head_dim, c.n_ctx or 0)
    )
    page = site.page(
        "finding.html",
        "../",
        group=group,
        data=f"../{data}" if bars or readings else None,
        bars=bars,
        readings=readings,
        sessions=sessions,
        stages=stage_tables(group, measurements),
        sides=code_sides(group, measurements, reader),
        cases=[(case, f"../{case_page(case)}#{group.candidate}") for case in sorted(cases)],
        of_releases=is_release(group.before) and is_release(group.after),
        one=max(group.findings, key=lambda f: (f.confirmation is not None, abs(f.change or 0.0))),
    )
    yield finding_page(group), page
