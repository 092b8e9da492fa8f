"""The Markdown of a comment. Pure: the only I/O is its template.

Everything that was not written by us (labels, messages of compilers, paths) stands in a code span, so
that no text of another machine becomes a link, a mention or markup.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import jinja2

from scripts.tracker.groups import VERDICT_WORDS, FindingGroup, group_findings
from scripts.tracker.measured import History
from scripts.tracker.model import CodegenMeasurement, Finding, Stage, Verdict

TEMPLATES = Path(__file__).resolve().parent / "templates"
MAX_COMMENT_CHARACTERS = 60_000  # GitHub's limit is 65,536


def code(text: object) -> str:
    """A Markdown code span that cannot be left from inside; safe in a table cell."""
    words = " ".join(str(text).split()).replace("|", "\\|")
    fence = "`" * (max(map(len, re.findall("`+", words)), default=0) + 1)
    pad = " " if "`" in words else ""
    return f"{fence}{pad}{words}{pad}{fence}"


def block(text: str) -> str:
    """A fenced block that cannot be left from inside; as a difference, so that lines are coloured."""
    fence = "`" * max(3, max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence}diff\n{text}\n{fence}"


def render_all(findings: list[Finding], history: History) -> dict[str, str]:
    """{file name: Markdown}: one comment a group; every finding that others are told of is in exactly one."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=False,  # noqa: S701 - Markdown, not HTML; `code` is its escape
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = code
    environment.filters["block"] = block
    template = environment.get_template("comment.md")
    return {
        f"{group.slug}.md": _limit(template.render(**_context(group, history)))
        for group in group_findings([f for f in findings if f.is_public])
    }


def _context(group: FindingGroup, history: History) -> dict[str, object]:
    subjects = [group.candidate]
    if group.verdict is Verdict.REFERENCE_MOVED:
        subjects = sorted({f.reference for f in group.findings})
    return {
        "group": group,
        "headline": VERDICT_WORDS[group.verdict],
        "timed_on": history.timed_on() if any("timing" in f.evidence for f in group.findings) else [],
        "words": VERDICT_WORDS,
        "confirmed": [line for verdict in group.verdicts for line in group.confirmations_of(verdict)],
        "paths": [path for subject in subjects for path in _paths(group, subject, history)],
        "inexact": sorted(v for v in {f.reference for f in group.findings} if not history.variants[v].exact),
        "unmeasured": max(f.unmeasured_commits for f in group.findings),
    }


def _paths(group: FindingGroup, variant: str, history: History) -> list[dict[str, object]]:
    """dQ's path of a variant, stage by stage, before and after, for the first case of the group."""
    case = replace(group.findings[0].case, n_ctx=None)  # code does not depend on it
    sides = [
        _measurement(history, commit, variant, case, group.target)
        for commit in (group.before.commit, group.after.commit)
    ]
    evidence = [side.evidence if side else None for side in sides]
    if evidence[0] is None or evidence[1] is None:
        return []
    stages = []
    for stage in Stage:
        old, new = (_path_words(e.dq_path(stage)) for e in evidence if e is not None)
        stages.append({"stage": stage.value, "before": old, "after": new, "same": old == new})
    return [{"variant": variant, "case": str(case), "stages": stages}]


def _measurement(
    history: History, commit: str, variant: str, case: object, target: str
) -> CodegenMeasurement | None:
    for m in history.measurements:
        if (m.commit, m.variant, m.case, m.target) == (commit, variant, case, target):
            return m
    return None


def _path_words(counts: dict[str, int]) -> str:
    return "; ".join(f"{n} x {name}" for name, n in sorted(counts.items())) or "nothing"


def _limit(markdown: str) -> str:
    """Cut at a line, saying so. The worst stands first, so the end is what matters least."""
    if len(markdown) <= MAX_COMMENT_CHARACTERS:
        return markdown
    notice = "\n\n*Cut here: the comment was too long. `flag_regressions --format json` has all of it.*\n"
    kept = markdown[: MAX_COMMENT_CHARACTERS - len(notice)]
    return kept[: kept.rfind("\n")] + notice
