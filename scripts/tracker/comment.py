"""The Markdown of a comment. Pure: the only I/O is its template.

Everything that was not written by us (labels, messages of compilers, paths) stands in a code span, so
that no text of another machine becomes a link, a mention or markup.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import jinja2

from scripts.tracker.chart import chart_of, worst_of
from scripts.tracker.groups import VERDICT_WORDS, ChangeRow, FindingGroup, group_findings
from scripts.tracker.ledger import Kind
from scripts.tracker.measured import History
from scripts.tracker.model import CodegenMeasurement, Confirmation, Decision, Finding, Stage, Verdict
from scripts.tracker.posts import Judged, Post, TakenBack, Text, Trouble, marker, name_of
from scripts.tracker.recovery import Measured
from scripts.tracker.reproduce import UPSTREAM, commands, commit_links
from scripts.tracker.standing import Standing, State, group_key

_TEMPLATES = Path(__file__).resolve().parent / "templates"
MAX_COMMENT_CHARACTERS = 60_000  # GitHub's limit is 65,536
_MAX_TITLE_CHARACTERS = 200
_MOST_ANSWERS = 5
_MOST_CLOSING = "\n```\n\n</details>"
_NOT_CHECKED = Standing(State.SUSPECTED)


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


def pull_link(number: int) -> str:
    """A pull request of Triton's, without a trace in its timeline."""
    return f"[{int(number)}]({UPSTREAM}/pull/{int(number)})"


def render_all(
    findings: list[Finding], history: History, standings: Mapping[str, Standing] | None = None
) -> dict[str, str]:
    """{file name: Markdown}: one comment a group; every finding that others are told of is in exactly one.
    ``standings``: by group key; without them nothing counts as checked."""
    renderer = Renderer(history, Measured(history))
    known = standings or {}
    comments = {}
    for group in group_findings([f for f in findings if f.verdict.is_public]):
        key = group_key(group)
        text = renderer.group(group, known.get(key, _NOT_CHECKED))
        comments[f"{group.slug}.md"] = _limit(f"{marker(key)}\n{text}")
    return comments


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """How a candidate's time over one reference moved, where it moved most. All in words."""

    reference: str
    before: str
    after: str
    change: str
    interval: str
    alone: str
    where: str


class Renderer:
    """Markdown of groups and threads. ``home``: our repository, "" if it has no name."""

    def __init__(self, history: History, measured: Measured, home: str = "") -> None:
        self._history, self._measured, self._home = history, measured, home
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_TEMPLATES),
            autoescape=False,  # noqa: S701 - Markdown, not HTML; `code` is its escape
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {"code": code, "block": block, "pull": pull_link}

    def thread(self, post: Post) -> Text:
        """All that one comment or issue says, the worst first."""
        body = f"{marker(post.key)}\n" + "\n---\n\n".join(map(self._part, post.parts))
        footer = self._environment.get_template("footer.md").render(
            home=self._home, is_issue=post.kind is Kind.ISSUE
        )
        return Text(_title(post), _limit(body, footer))

    def _part(self, part: Judged | TakenBack | Trouble) -> str:
        if isinstance(part, Judged):
            return self.group(part.group, part.standing)
        if isinstance(part, TakenBack):
            return f"### Taken back: {code(name_of(part.told))}\n\n**No longer claimed**: {code(part.why)}.\n"
        if not part.why:
            return "### atomwatch works again\n\nIt could not judge for a while; now it does.\n"
        return (
            "### atomwatch cannot judge\n\nNothing that it said is confirmed, changed or taken back until "
            f"this is mended:\n\n> {code(part.why)}\n"
        )

    def group(self, group: FindingGroup, standing: Standing) -> str:
        return self._environment.get_template("comment.md").render(**self._context(group, standing))

    def _context(self, group: FindingGroup, standing: Standing) -> dict[str, object]:
        subjects = [group.candidate]
        if group.verdict is Verdict.REFERENCE_MOVED:
            subjects = sorted({f.reference for f in group.findings})
        timed = [f for f in group.findings if "timing" in f.evidence]
        least = max((f.minimum_detectable_change or 0.0 for f in timed), default=0.0)
        return {
            "group": group,
            "headline": headline(group.verdict, standing),
            "lead": _lead(standing, group),
            "baselines": _of_group(group, _baselines),
            "code_changes": _of_group(group, _code_changes),
            "chart": chart_of(group, self._measured),
            "answers": [_answer_words(a) for a in standing.answers[:_MOST_ANSWERS]],
            "links": commit_links(group),
            "reproduce": commands(group, (worst_of(group) or group.findings[0]).id),
            "least": f"{least:.1%}",
            "timed_on": self._history.timed_on() if timed else [],
            "limits": _limits(self._history) if timed else "",
            "words": VERDICT_WORDS | {group.verdict: _words(group.verdict, standing)},
            "paths": [path for subject in subjects for path in _paths(group, subject, self._history)],
            "inexact": sorted(
                v for v in {f.reference for f in group.findings} if not self._history.variants[v].exact
            ),
            "unmeasured": max(f.unmeasured_commits for f in group.findings),
        }


def headline(verdict: Verdict, standing: Standing) -> str:
    """A verdict as sure as it is."""
    words = _words(verdict, standing)
    if standing.state in (State.RECOVERED, State.NOT_REPRODUCED):
        return f"{standing.state.value.capitalize()}: {words.removeprefix('likely ')}"
    return words.capitalize()


def _words(verdict: Verdict, standing: Standing) -> str:
    words = VERDICT_WORDS[verdict]
    return words.removeprefix("likely ") if standing.state is State.CONFIRMED else words


def _lead(standing: Standing, group: FindingGroup) -> str:
    """What has become of it; nothing where the finding speaks for itself."""
    if standing.state is State.RECOVERED and standing.recovered:
        return (
            f"**Recovered in {code(standing.recovered.label)}.** From there on, at every commit measured, it "
            f"is as good as at {code(group.before.label)} or better. What was said stands below."
        )
    if standing.state is State.NOT_REPRODUCED:
        return (
            "**Not reproduced.** Sessions that were to confirm it, each a fresh process, saw no such change. "
            "What was said is taken back; it stands below."
        )
    worst = worst_of(group)
    own = worst.candidate_change if worst else None
    if worst is None or own is None or group.verdict not in (Verdict.REGRESSION, Verdict.IMPROVEMENT):
        return ""
    return (
        f"**{code(worst.candidate)} alone takes {abs(own):.1%} {'more' if own > 0 else 'less'} time** "
        f"({code(worst.case)}, where it moved most)."
    )


def _title(post: Post) -> str:
    """Of an issue. A title has no code spans, so only plain characters of a label are let in."""
    if not post.told:
        return "atomwatch cannot judge"
    told, *more = post.told
    verdict = next((VERDICT_WORDS[v] for v in Verdict if v.value == told.verdict), "finding")
    words = f"{verdict.removeprefix('likely ').capitalize()}: {name_of(told)}"
    plain = "".join(c if c.isascii() and (c.isalnum() or c in " .,:+-_") else "-" for c in words)
    return plain[:_MAX_TITLE_CHARACTERS] + (f" and {len(more)} more" if more else "")


def _of_group(group: FindingGroup, rows: Callable[[FindingGroup, Verdict], object]) -> object:
    return lambda verdict: rows(group, verdict)


def _baselines(group: FindingGroup, verdict: Verdict) -> list[BaselineRow]:
    rows = []
    for reference in group.references_of(verdict):
        timed = [f for f in group.of(verdict) if f.reference == reference and f.change is not None]
        if timed:
            rows.append(_baseline(max(timed, key=lambda f: abs(f.change or 0.0)), len(timed)))
    return rows


def _baseline(worst: Finding, shapes: int) -> BaselineRow:
    low, high = worst.interval or (0.0, 0.0)
    where = f"head_dim {worst.case.head_dim}, n_ctx {worst.case.n_ctx}"
    return BaselineRow(
        reference=worst.reference,
        before=f"{worst.ratio_before:.3f}",
        after=f"{worst.ratio_after:.3f}",
        change=f"{worst.change:+.1%}",
        interval=f"{low:+.1%} to {high:+.1%}",
        alone="unknown" if worst.candidate_change is None else f"{worst.candidate_change:+.1%}",
        where=where + (f", worst of {shapes}" if shapes > 1 else ""),
    )


def _code_changes(group: FindingGroup, verdict: Verdict) -> list[ChangeRow]:
    """The rows about code; time has a table of its own."""
    return [row for row in group.changes_of(verdict) if not row.metric.startswith("GPU time")]


def _answer_words(answer: Confirmation) -> str:
    """What other sessions said of one finding."""
    legs = [
        f"{code(leg.variant)} {leg.before_s * 1e3:.3f} -> {leg.after_s * 1e3:.3f} ms, "
        f"{leg.effect.change:+.1%} ({leg.effect.low:+.1%} to {leg.effect.high:+.1%})"
        for leg in answer.legs[:2]
    ]
    said = {Decision.DIFFERENT: "different", Decision.SAME: "the same", Decision.UNKNOWN: "undecided"}
    return (
        f"{said[answer.decision]} in {answer.sessions} sessions of a process each ({code(answer.finding)}, "
        f"{code(answer.gpu)}, driver {code(answer.driver)}): {'; '.join(legs)}"
    )


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


def _limits(history: History) -> str:
    """What held the clocks: the power limit, and a lock where the machine's file names one."""
    machines = [history.machines.get(name, {}) for name in sorted({t.machine for t in history.timings})]
    watts = sorted({str(facts["power_limit_w"]) for facts in machines if "power_limit_w" in facts})
    clocks = sorted({str(facts["clocks"]) for facts in machines if "clocks" in facts})
    words = [f"power limit {', '.join(watts)} W"] if watts else []
    return "; ".join([*words, f"clocks {', '.join(clocks) if clocks else 'not locked by atomwatch'}"])


def _limit(markdown: str, footer: str = "") -> str:
    """Cut at a line, saying so. The worst stands first, so the end is what matters least."""
    if len(markdown) + len(footer) <= MAX_COMMENT_CHARACTERS:
        return markdown + footer
    notice = "\n\n*Cut here: the comment was too long. `flag_regressions --format json` has all of it.*\n"
    room = MAX_COMMENT_CHARACTERS - len(notice) - len(footer) - len(_MOST_CLOSING)
    kept = markdown[:room]
    kept = kept[: kept.rfind("\n")]
    return kept + _closing(kept) + notice + footer


def _closing(kept: str) -> str:
    """What a cut left open."""
    fence = "\n```" if kept.count("\n```") % 2 else ""
    return fence + ("\n\n</details>" if kept.count("<details>") > kept.count("</details>") else "")
