"""expected_changes.toml quiets what it names, and nothing beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import COMMITS, HD128, NARROWER, NEW, OLD, THEIRS, finding
from github_builders import TIMED

from scripts.tracker.errors import TrackerError
from scripts.tracker.expected import CasePattern, ExpectedChange, quiet, read_expected
from scripts.tracker.model import Case, Commit, Verdict

ENTRY = ExpectedChange("atomic_add", "3.1.0", "3.2.0", "meant so", "a maintainer")


def is_quiet(change: ExpectedChange, verdict: Verdict = Verdict.REGRESSION, **changed: object) -> bool:
    found = finding(verdict, NARROWER, THEIRS, **changed)  # type: ignore[arg-type]
    outcome = quiet([found], [change], COMMITS)
    assert (outcome.left == [found]) is (outcome.quiet == [])
    assert (outcome.idle == [change]) is (outcome.quiet == [])
    return bool(outcome.quiet)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (ENTRY, True),
        (ExpectedChange("atomic_add", OLD.commit, NEW.commit, "meant", "someone"), True),
        (ExpectedChange("atomic_add", "3.1.0", "3.4.0", "meant", "someone"), True),
        (ExpectedChange("atomic_add", "3.2.0", "3.4.0", "meant", "someone"), False),
        (ExpectedChange("inline_asm", "3.1.0", "3.2.0", "meant", "someone"), False),
        (ExpectedChange("atomic_add", "3.1.0", "3.2.0", "meant", "me too", CasePattern(head_dim=64)), True),
        (ExpectedChange("atomic_add", "3.1.0", "3.2.0", "meant", "me too", CasePattern(head_dim=128)), False),
        (ExpectedChange("atomic_add", "3.1.0", "3.2.0", "meant", "me too", CasePattern(n_ctx=8192)), False),
    ],
)
def test_which_finding_an_entry_quiets(change: ExpectedChange, expected: bool) -> None:
    assert is_quiet(change) is expected


def test_a_step_wider_than_the_range_is_not_quiet() -> None:
    assert not is_quiet(ENTRY, after=COMMITS[2])


def test_what_comes_after_is_compared_with_the_new_state() -> None:
    assert not is_quiet(ENTRY, before=COMMITS[1], after=COMMITS[2])


def test_an_entry_about_a_reference_quiets_a_reference_that_moved() -> None:
    theirs = ExpectedChange("inline_asm", "3.1.0", "3.2.0", "meant", "someone")
    assert is_quiet(theirs, Verdict.REFERENCE_MOVED)
    assert not is_quiet(ENTRY, Verdict.REFERENCE_MOVED)


def test_what_does_not_compile_is_never_meant() -> None:
    assert not is_quiet(ENTRY, Verdict.NO_VALID_DATA)


@pytest.mark.parametrize(
    ("case", "fits"), [(TIMED, True), (replace(TIMED, n_ctx=2048), False), (HD128, False)]
)
def test_a_pattern_names_what_it_means(case: Case, fits: bool) -> None:
    assert CasePattern(head_dim=64, causal=True, dtype="fp16", n_ctx=8192).fits(case) is fits


def test_a_finding_of_an_unknown_commit_stays() -> None:
    assert not is_quiet(ENTRY, after=Commit("f" * 40, "unknown"))


VALID = """
[[change]]
variant = "atomic_add"
case = { head_dim = 64 }
after = "3.1.0"
until = "3.2.0"
reason = "meant so"
who = "a maintainer"
"""


def test_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "expected_changes.toml"
    assert read_expected(path) == []
    path.write_text(VALID)
    assert read_expected(path) == [replace_case(ENTRY)]
    assert read_expected() == []  # as shipped: nothing is expected


def replace_case(change: ExpectedChange) -> ExpectedChange:
    return ExpectedChange(
        change.variant, change.after, change.until, change.reason, change.who, CasePattern(head_dim=64)
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('reason = "meant so"\n', "", "reason"),
        ('who = "a maintainer"', 'who = ""', "who"),
        ("head_dim", "headdim", "headdim"),
        ("[[change]]", "[[changes]]", "changes"),
        ("64", "x", "line"),
    ],
)
def test_a_damaged_file_names_the_entry(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "expected_changes.toml"
    path.write_text(VALID.replace(old, new))
    with pytest.raises(TrackerError, match=words) as caught:
        read_expected(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("after", "until", "words"),
    [
        ("3.0.9", "3.2.0", "is no commit of the history"),
        ("3.2.0", "3.1.0", "does not come before"),
        ("3.1.0", "3.1.0", "does not come before"),
    ],
)
def test_a_range_that_is_none_is_an_error(after: str, until: str, words: str) -> None:
    with pytest.raises(TrackerError, match=words):
        quiet([], [ExpectedChange("atomic_add", after, until, "meant", "someone")], COMMITS)
