"""What a comment or an issue says as a whole, in every situation, word for word."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from builders import FINDINGS, NARROWER, NEW, OLD, history
from github_builders import LIKELY, OURS, THEIRS, answer, group_of, judged, renderer, timed, times
from test_comment import HOSTILE, outside_code, tokens

from scripts.tracker.addressees import Addressees
from scripts.tracker.chart import chart_of
from scripts.tracker.comment import MAX_COMMENT_CHARACTERS
from scripts.tracker.groups import FindingGroup
from scripts.tracker.ledger import Kind, thread_key
from scripts.tracker.measured import History
from scripts.tracker.model import Commit, Decision, Finding, Suspect, Verdict
from scripts.tracker.posts import Judged, Post, TakenBack, Trouble, marker
from scripts.tracker.recovery import Measured
from scripts.tracker.reproduce import commands, commit_links
from scripts.tracker.standing import Standing, State

SLOW = [1e-3, 1.4e-3, 1.39e-3, 1.41e-3]
BUMP = replace(
    LIKELY,
    pr=4942,
    how="merged as this commit, says GitHub",
    subject="[BACKEND] Update LLVM to llvm/llvm-project@61f8a7f618 (#4942)",
    bump="LLVM from 1234567 to 61f8a7f618, 400 commits",
)
OTHER = Suspect("b" * 40, 4950, 0.1, "touches shared lowering", "Simplify (#4950)", "squash suffix")


def thread(*parts: Judged | TakenBack | Trouble) -> Post:
    return Post(Kind.COMMENT, THEIRS, 4971, thread_key(Kind.COMMENT, THEIRS, "4971"), parts)


def said_of(found: Finding, decision: Decision = Decision.DIFFERENT, **standing: object) -> Judged:
    state = {Decision.DIFFERENT: State.CONFIRMED, Decision.SAME: State.NOT_REPRODUCED}[decision]
    change = 0.38 if decision is Decision.DIFFERENT else 0.001
    known = {"state": state, "answers": (answer(found, decision, change),), **standing}
    return Judged(group_of(found), Standing(**known), Addressees((4971,), ""))  # type: ignore[arg-type]


def text(*parts: Judged | TakenBack | Trouble, past: History | None = None) -> str:
    return renderer(past or times(SLOW)).thread(thread(*parts)).body


OF_MAIN = [Commit(commit.commit, commit.commit[:10]) for commit in (OLD, NEW)]
SURE = replace(timed(suspects=(replace(LIKELY, pr=4971),)), codegen_changes=(NARROWER,))
SITUATIONS: dict[str, tuple[Judged | TakenBack | Trouble, ...]] = {
    "confirmed": (said_of(SURE),),
    "several-pull-requests": (said_of(replace(SURE, suspects=(replace(LIKELY, pr=4971), OTHER))),),
    "llvm-bump": (said_of(replace(SURE, suspects=(BUMP,))),),
    "recovered": (said_of(SURE, state=State.RECOVERED, recovered=Commit("d" * 40, "3.4.0")),),
    "not-reproduced": (said_of(SURE, Decision.SAME),),
    "taken-back": (
        said_of(SURE),
        TakenBack(judged(group=group_of(timed(reference="store"))).told, "expected: decided in the meeting"),
    ),
    "of-main": (said_of(replace(SURE, before=OF_MAIN[0], after=OF_MAIN[1])),),
    "analysis-failed": (Trouble(".asv/results/x.json: damaged `by` @someone; delete it"),),
    "works-again": (Trouble(""),),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_thread_in_each_situation(situation: str, golden: Callable[[str, str], None]) -> None:
    golden(f"thread-{situation}.md", text(*SITUATIONS[situation]))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_no_mention_and_no_link_that_leaves_a_trace(situation: str) -> None:
    body = text(*SITUATIONS[situation])
    words = outside_code(body)
    assert "@" not in words
    assert "#" not in words.replace(marker(thread().key), "")
    assert "github.com/" not in body.replace("https://redirect.github.com/", "")
    links = [t.attrGet("href") for t in tokens(body) if t.type == "link_open"]
    headings = {t.tag for t in tokens(body) if t.type == "heading_open"}
    assert headings == {"h3"}  # a line of dashes under a text would make it one
    theirs = r"https://redirect\.github\.com/triton-lang/triton/(pull/\d+|(commit|compare)/[0-9a-f.]+)"
    assert all(re.fullmatch(theirs, str(link)) for link in links)


def test_a_finding_of_main_is_seen_again_by_its_hashes() -> None:
    """The commands are of a checkout, and a shell reads them as they stand."""
    group = group_of(timed(before=OF_MAIN[0], after=OF_MAIN[1]))
    made = commands(group, "0123456789ab")
    assert f"--only <(echo {OLD.commit} {NEW.commit})" in made.code
    assert made.time.endswith("scripts.confirm --commits 0123456789ab")
    for command in (made.code, made.time):
        assert subprocess.run(["bash", "-n", "-c", command], check=False).returncode == 0
    releases = commands(group_of(timed()), "0123456789ab")
    assert releases.code == 'make track RELEASES="3.1.0 3.2.0"'
    odd = Commit("f" * 40, "f" * 9 + "`")
    assert commit_links(group_of(timed(before=odd, after=OF_MAIN[1]))) == ""


def test_the_marker_is_the_first_line_and_survives_a_cut() -> None:
    many = [replace(NARROWER, metric=f"metric_{n}", after=n) for n in range(3000)]
    long = said_of(replace(SURE, codegen_changes=tuple(many)))
    body = text(long)
    assert body.splitlines()[0] == marker(thread().key)
    assert 0.9 * MAX_COMMENT_CHARACTERS < len(body) <= MAX_COMMENT_CHARACTERS
    assert "Cut here" in body
    assert "Not wanted? Delete this comment" in body


def test_a_cut_closes_what_it_left_open() -> None:
    """Wherever the cut falls: in the chart's fence, in a fold, in a table."""
    for words in range(0, 4000, 83):
        explained = replace(FINDINGS["no_valid_data"][0], explanation="x" * (57_000 + words))
        first = Judged(group_of(explained), Standing(State.EXACT), Addressees((), ""))
        body = text(first, said_of(SURE))
        assert len(body) <= MAX_COMMENT_CHARACTERS
        assert body.count("<details>") == body.count("</details>")
        assert body.count("\n```") % 2 == 0


def test_the_worst_of_a_thread_stands_first() -> None:
    body = text(*SITUATIONS["taken-back"])
    assert body.index("### Regression") < body.index("### Taken back")


def test_the_chart_has_a_point_for_every_timed_commit_and_no_other() -> None:
    def chart(past: History) -> object:
        return chart_of(group_of(SURE), Measured(past))

    whole = chart(times(SLOW))
    assert whole is not None
    assert (whole.labels, whole.values) == (
        '"3.1.0", "3.2.0", "3.3.0", "3.4.0"',
        "1.000, 1.400, 1.390, 1.410",
    )
    gap = times(SLOW)
    gap.timings = [t for t in gap.timings if t.commit != gap.commits[2].commit]
    assert chart(gap).labels == '"3.1.0", "3.2.0", "3.4.0"'  # type: ignore[attr-defined]
    assert chart(history()) is None


def test_a_label_that_is_markup_draws_no_chart() -> None:
    past = times(SLOW)
    past.commits[2] = Commit(past.commits[2].commit, '"] click me [@everyone')
    assert chart_of(group_of(SURE), Measured(past)) is None


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_stays_inert_in_a_thread(hostile: str) -> None:
    suspect = replace(LIKELY, subject=hostile, why=hostile, how=hostile, bump=hostile)
    old, new = Commit(OLD.commit, hostile), Commit(NEW.commit, hostile)
    found = replace(SURE, suspects=(suspect,), attribution=hostile, before=old, after=new)
    told = replace_told(judged(group=group_of(found)), hostile)
    post = thread(said_of(found), TakenBack(told, hostile), Trouble(hostile))
    made = renderer(times(SLOW)).thread(post)
    assert "evil" not in outside_code(made.body)
    assert "alert" not in outside_code(made.body)
    assert not any(c in made.title for c in "@#<>[]`|\\\n")


def replace_told(one: Judged, hostile: str) -> object:
    told = one.told
    return type(told)(told.key, hostile, hostile, told.before, told.after, told.verdict)


@pytest.mark.parametrize(
    ("verdict", "title"),
    [
        (Verdict.REGRESSION, "Regression: atomic_add on cuda:90, 3.1.0 to 3.2.0"),
        (Verdict.NO_VALID_DATA, "No valid data: atomic_add on cuda:90, 3.1.0 to 3.2.0"),
    ],
)
def test_titles(verdict: Verdict, title: str) -> None:
    group: FindingGroup = group_of(timed(verdict))
    assert renderer().thread(thread(judged(group=group))).title == title
    assert renderer().thread(thread(Trouble("x"))).title == "atomwatch cannot judge"
    assert OURS in renderer().thread(thread(judged(group=group))).body
