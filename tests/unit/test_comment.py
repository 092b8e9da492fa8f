"""Comments: what they say, word for word, and that no text of another machine becomes markup."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from builders import (
    FACTS,
    FINDINGS,
    HD64,
    HD128,
    NARROWER,
    NEW,
    OLD,
    WIDER,
    evidence,
    finding,
    history,
    measured,
)
from markdown_it import MarkdownIt
from markdown_it.token import Token

from scripts.tracker.comment import MAX_COMMENT_CHARACTERS, block, code, render_all
from scripts.tracker.groups import group_findings
from scripts.tracker.measured import History
from scripts.tracker.model import Commit, MeasurementStatus, Verdict

HOSTILE = [
    "`",
    "``` `x`",
    "a|b",
    "\\|",
    "ends with \\",
    "@everyone",
    "#123",
    "<script>alert(1)</script>",
    "</code></details>",
    "-->",
    "[click](https://evil.example)",
    "![x](https://evil.example/i.png)",
    "https://evil.example",
    "**bold** _it_ ~~no~~",
    "two\nlines\n\n# heading",
    "* item\n> quote",
    "&lt;b&gt; &#64;me",
    "{{ 7 * 7 }} {% raw %}",
]


def tokens(markdown: str) -> list[Token]:
    """All tokens, block and inline, as a reader with tables makes them."""
    blocks = MarkdownIt("commonmark").enable("table").parse(markdown)
    return [token for block in blocks for token in (block, *(block.children or []))]


def outside_code(markdown: str) -> str:
    """All that a reader would take for text or markup: everything but code spans."""
    return "\n".join(t.content for t in tokens(markdown) if t.type in ("text", "html_block", "html_inline"))


def shape(markdown: str) -> list[str]:
    return [token.type for token in tokens(markdown)]


@pytest.mark.parametrize("verdict", FINDINGS)
def test_a_comment_for_each_verdict(verdict: str, golden: Callable[[str, str], None]) -> None:
    [comment] = render_all(FINDINGS[verdict], history()).values()
    golden(f"comment-{verdict}.md", comment)


def test_two_verdicts_of_one_step_are_one_comment(golden: Callable[[str, str], None]) -> None:
    both = [
        finding(Verdict.REFERENCE_MOVED, reference="store"),
        finding(Verdict.REGRESSION, NARROWER),
    ]
    [comment] = render_all(both, history()).values()
    golden("comment-two-verdicts.md", comment)


def test_too_long_is_cut_at_a_line_and_says_so(golden: Callable[[str, str], None]) -> None:
    changes = [replace(NARROWER, metric=f"metric_{n}", after=n) for n in range(1500)]
    [comment] = render_all([finding(Verdict.REGRESSION, *changes)], history()).values()
    assert 0.9 * MAX_COMMENT_CHARACTERS < len(comment) <= MAX_COMMENT_CHARACTERS
    lines = comment.splitlines()
    assert lines[-3].endswith("|")
    golden("comment-too-long.md", "\n".join([*lines[:8], "[...]", *lines[-4:]]) + "\n")


def test_a_comment_just_short_enough_is_whole() -> None:
    def length(words: int) -> tuple[int, bool]:
        long = finding(Verdict.NO_VALID_DATA, explanation="x" * words)
        [comment] = render_all([long], history()).values()
        return len(comment), "Cut here" in comment

    frame, _ = length(0)
    assert length(MAX_COMMENT_CHARACTERS - frame) == (MAX_COMMENT_CHARACTERS, False)
    assert length(MAX_COMMENT_CHARACTERS - frame + 1)[1]


def test_every_finding_is_in_exactly_one_comment() -> None:
    findings = [f for group in FINDINGS.values() for f in group]
    findings += [
        finding(Verdict.REGRESSION, NARROWER, after=Commit("a" * 40, label)) for label in ("x/y", "x-y")
    ]
    comments = render_all(findings, history())
    assert len(comments) == len(group_findings(findings))
    for one in {f.id for f in findings}:
        assert sum(one in comment for comment in comments.values()) == 1


def test_file_names_stay_in_their_folder() -> None:
    label = "../../etc/x" + "y" * 300
    [name] = render_all([finding(Verdict.REGRESSION, after=Commit("a" * 40, label))], history())
    assert "/" not in name
    assert len(name) < 255


@pytest.mark.parametrize("text", HOSTILE)
def test_a_code_span_cannot_be_left(text: str) -> None:
    for markdown in (f"before {code(text)} after", f"| a | b |\n|---|---|\n| {code(text)} | {code(text)} |"):
        kinds = shape(markdown)
        spans = markdown.count(code(text))
        assert kinds.count("code_inline") == spans
        assert kinds.count("td_open") in (0, 2)
        assert not {"html_inline", "html_block", "link_open", "image", "strong_open"} & set(kinds)
        contents = [t.content.strip() for t in tokens(markdown) if t.type == "code_inline"]
        shown = " ".join(text.split())
        # Outside a table nothing takes the backslash before a pipe away.
        assert all(c in (shown, shown.replace("|", "\\|")) for c in contents)


def comment_with(text: str) -> str:
    """A comment in which everything that other machines can write is ``text``."""
    past: History = history()
    old, new = Commit(OLD.commit, text), Commit(NEW.commit, text + " ")
    path = {stage: {text: 3} for stage in ("ttir", "ptx")}
    past.commits = [old, new]
    past.measurements = [
        measured(OLD, "atomic_add", {}, found=evidence(OLD)),
        measured(NEW, "atomic_add", {}, found=evidence(NEW, path=path)),
    ]
    findings = [
        finding(Verdict.REGRESSION, NARROWER, before=old, after=new),
        finding(Verdict.NO_VALID_DATA, reference="store", before=old, after=new, explanation=text),
    ]
    [comment] = render_all(findings, past).values()
    return comment


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_inert(text: str) -> None:
    comment = comment_with(text)
    # The same structure as with a harmless word, and not a trace of it outside code spans.
    assert shape(comment) == shape(comment_with("harmless"))
    if len(text) > 4:
        assert text.split("\n", maxsplit=1)[0] not in outside_code(comment)
    assert "evil" not in outside_code(comment)
    assert "alert" not in outside_code(comment)


def test_hostile_text_as_it_is_read(golden: Callable[[str, str], None]) -> None:
    golden(
        "comment-hostile.md", comment_with("`x` | @everyone #123 <script>alert(1)</script> [a](https://b)")
    )


def test_the_path_is_of_the_variant_that_moved() -> None:
    past = history()
    for commit in (OLD, NEW):
        path = {"ptx": {f"red.{commit.label}": 1}}
        found = evidence(commit, "store", path=path)
        past.measurements.append(measured(commit, "store", {}, found=found, case=HD64))
    past.measurements = [m for m in past.measurements if m.status is MeasurementStatus.OK]
    [comment] = render_all([finding(Verdict.REFERENCE_MOVED, reference="store")], past).values()
    assert "dQ's path of store" in comment
    assert "`1 x red.3.1.0` | `1 x red.3.2.0`" in comment


def test_without_evidence_there_is_no_path() -> None:
    past = history()
    past.measurements = []
    [comment] = render_all([finding(Verdict.REGRESSION, NARROWER)], past).values()
    assert "dQ's path of" not in comment


def test_a_reference_that_is_wrong_by_design_is_said_to_be() -> None:
    words = "gives a wrong dQ by design"
    for reference, facts in FACTS.items():
        [comment] = render_all([finding(Verdict.REGRESSION, reference=reference)], history()).values()
        assert (words in comment) is not facts.exact


def test_the_difference_is_shown_once_for_the_references_and_lengths_that_share_it() -> None:
    shown = "-32 x atom.add.f32\n+8 x atom.add.v4.f32"
    findings = [
        replace(finding(Verdict.IMPROVEMENT, WIDER, reference=reference, case=case), excerpt=shown)
        for reference in ("inline_asm", "store")
        for case in (HD64, replace(HD64, n_ctx=2048), HD128)
    ]
    [text] = render_all(findings, history()).values()
    assert text.count(f"```diff\n{shown}\n```") == 1
    assert "The difference on dQ's path: atomic_add in llir (head_dim 64, 128, causal, fp16)" in text


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
def test_an_excerpt_cannot_leave_its_block(fence: str) -> None:
    hostile = f"-{fence}\n@everyone <script>"
    text = block(hostile)
    opening, *inside, closing = text.splitlines()
    assert inside == hostile.splitlines()
    assert opening == f"{closing}diff"
    assert set(closing) == {"`"}
    assert closing not in hostile
