"""Suspects: who is first and why, what is ruled out, and how sure that is."""

import datetime
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from builders import MORE_FENCES, NARROWER, TARGET, THEIRS, finding
from history_builders import LOWERING, Repository, commit, landed, line, release, sha

from scripts.tracker.attribute import (
    MAX_SUBJECT_CHARACTERS,
    NO_CLUE,
    NO_HISTORY,
    Attribution,
    Clue,
    attribute,
    clean,
    clue_of,
    name_suspects,
)
from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.branches import Branch
from scripts.tracker.clone import clone_at
from scripts.tracker.history import CommitHistory, CommitRange, FileHistory, LandedCommit
from scripts.tracker.model import Commit, Stage, Verdict
from scripts.tracker.pull_requests import SQUASH, SquashSuffix

RULES = read_rules()
OCTOBER = Path(__file__).resolve().parent.parent / "data" / "history-october-2024.jsonl"
WIDTH = Clue(Stage.LLIR, frozenset({"dq_vector_width", "sass_dq_writes"}), TARGET)
TEST_FILES = ("test/Conversion/tritongpu_to_llvm.mlir",)
AMD_FILES = ("third_party/amd/lib/TritonAMDGPUToLLVM/LoadStoreOpToLLVM.cpp",)


def among(*commits: LandedCommit, clue: Clue = WIDTH, measured: tuple[str, ...] = ()) -> Attribution:
    """Suspects among some commits that follow the first of main."""
    history = FileHistory([landed(0), *commits], {}, "history")
    after = Commit(commits[-1].sha, "new")
    return suspects_of(history, commit(0), after, clue, measured)


def suspects_of(
    history: CommitHistory, before: Commit, after: Commit, clue: Clue = WIDTH, measured: Collection[str] = ()
) -> Attribution:
    return attribute(history.between(before, after), clue, history, measured, RULES, SquashSuffix())


def numbers(found: Attribution) -> list[int | None]:
    return [suspect.pr for suspect in found.suspects]


def test_who_speaks_of_it_is_first_and_who_cannot_have_done_it_is_not_named() -> None:
    found = among(
        landed(1, "Vectorize atomics for tests (#1)", TEST_FILES),
        landed(2, "Emit something (#2)"),
        landed(3, "[BACKEND] Vectorize atomics (#3)"),
        landed(4, "[AMD] Vectorize atomics (#4)", AMD_FILES),
        landed(5, "Vectorize atomics in the interpreter (#5)", ("python/triton/runtime/interpreter.py",)),
    )
    assert numbers(found) == [3, 2]
    assert sum(s.score for s in found.suspects) == pytest.approx(1, abs=1e-3)
    assert found.suspects[0].why == "touches NVIDIA lowering, is about atomics, is about vector width"
    assert found.suspects[0].how == SQUASH
    assert found.suspects[0].commit == sha(3)
    assert "one of 5 commits, 5 of them never measured; 3 ruled out by their files" in found.sure


def test_the_stage_decides_between_areas() -> None:
    commits = (
        landed(1, "a (#1)", ("python/triton/language/semantic.py",)),
        landed(2, "b (#2)", ("lib/Dialect/TritonGPU/Transforms/Coalesce.cpp",)),
        landed(3, "c (#3)", ("lib/Conversion/TritonGPUToLLVM/ViewOpToLLVM.cpp",)),
        landed(4, "Update LLVM (#4)", ("cmake/llvm-hash.txt",)),
        landed(5, "Update ptxas (#5)", ("cmake/nvidia-toolchain-version.json",)),
    )
    first = [numbers(among(*commits, clue=Clue(stage, frozenset(), TARGET)))[0] for stage in Stage]
    assert first == [1, 2, 3, 4, 5]


def test_another_backend_is_judged_by_its_own_files() -> None:
    both = (landed(1, "a (#1)"), landed(2, "[AMD] b (#2)", AMD_FILES))
    assert numbers(among(*both)) == [1]
    assert numbers(among(*both, clue=Clue(Stage.LLIR, frozenset(), "hip:gfx942"))) == [2]


@pytest.mark.parametrize(
    "subject",
    ["[AMD] Change it (#2)", "[NFC] Change it (#2)", "Blackwell: change it (#2)", "[TEST] Change it (#2)"],
)
def test_a_subject_that_speaks_of_something_else_ranks_lower(subject: str) -> None:
    found = among(landed(1, "Change it (#1)"), landed(2, subject))
    assert numbers(found) == [1, 2]


def test_what_was_undone_within_the_range_changes_nothing() -> None:
    found = among(
        landed(1, "Vectorize atomics (#1)"),
        landed(2, 'Revert "Vectorize atomics (#1)" (#2)'),
        landed(3, "Change loads (#3)"),
        landed(4, 'Revert "Something older (#0001)" (#4)'),
    )
    assert numbers(found) == [4, 3, 2, 1]
    assert [s.pr for s in found.suspects if "undone" in s.why] == [2, 1]


def test_a_bump_is_named_as_one_with_what_it_pulls_in(tmp_path: Path) -> None:
    triton = Repository(tmp_path / "triton")
    triton.commit("a" * 40, "cmake/llvm-hash.txt")
    before = triton.head()
    (triton.folder / "cmake" / "llvm-hash.txt").write_text("b" * 40 + "\n")
    triton.git("add", "--all")
    triton.git("commit", "--quiet", "-m", "[BACKEND] Update LLVM (#9)")
    history = clone_at(triton.folder)
    clue = Clue(Stage.PTX, frozenset(), TARGET)
    after = Commit(triton.head(), "new")
    found = suspects_of(history, Commit(before, "old"), after, clue)
    assert found.suspects[0].bump == "LLVM aaaaaaaaaaaa .. bbbbbbbbbbbb"


def test_what_a_bump_adapts_beside_the_pin_weighs_less() -> None:
    files = ("cmake/llvm-hash.txt", *LOWERING)
    feature, bump = landed(1, "Fix lowering (#1)"), landed(2, "Update LLVM (#2)", files)
    found = among(feature, bump, clue=Clue(Stage.LLIR, frozenset(), TARGET))
    assert numbers(found) == [1, 2]
    assert found.suspects[1].bump
    # A feature that moves the pin too is no mere bump, but what it pulls in is said all the same.
    found = among(
        feature, landed(2, "Support Hopper (#2)", files), clue=Clue(Stage.LLIR, frozenset(), TARGET)
    )
    assert found.suspects[0].score == found.suspects[1].score
    assert {bool(s.bump) for s in found.suspects} == {True, False}


def test_one_commit_between_two_measured_ones_is_the_culprit() -> None:
    found = among(landed(1, "Change loads (#1)"), measured=(sha(0), sha(1)))
    assert found.sure.startswith("verified")
    assert found.unmeasured == 0
    assert [s.score for s in found.suspects] == [1.0]


def test_one_commit_that_cannot_have_done_it_is_not_blamed() -> None:
    found = among(landed(1, "Words (#1)", ("README.md",)), measured=(sha(0), sha(1)))
    assert found.suspects == ()
    assert "measure both again" in found.sure


def test_one_commit_in_a_release_range_is_not_verified() -> None:
    branches = {"3.2": Branch("3.2", datetime.date(2024, 6, 3), datetime.date(2024, 6, 3), "us")}
    history = FileHistory(line(6), branches, "history")
    found = suspects_of(history, commit(1), release("3.2.0"))
    assert numbers(found) == [4002]
    assert "one of 1 commits" in found.sure
    assert "not proved" in found.sure
    assert "verified" not in found.sure


def test_measured_commits_of_the_range_are_not_counted_as_unmeasured() -> None:
    history = FileHistory(line(6), {}, "history")
    found = suspects_of(history, commit(1), commit(5), measured={sha(1), sha(3), sha(5)})
    assert found.unmeasured == 2


def test_without_a_clue_nobody_is_singled_out() -> None:
    found = among(*line(5)[1:], clue=Clue(None, frozenset(), TARGET))
    assert found.suspects == ()
    assert found.unmeasured == 4
    assert NO_CLUE in found.sure


def test_a_commit_that_the_history_does_not_have_is_said_and_others_keep_their_suspects() -> None:
    history = FileHistory(line(3), {}, "history")
    lost = finding(Verdict.REGRESSION, NARROWER, before=commit(1), after=commit(77), unmeasured=5)
    there = finding(Verdict.REGRESSION, NARROWER, before=commit(1), after=commit(2))
    first, second = name_suspects([lost, there], history, (), RULES, SquashSuffix())
    assert first == replace(lost, attribution=first.attribution)
    assert first.attribution.startswith("suspects unknown: ")
    assert "pushed away" in first.attribution
    assert [s.pr for s in second.suspects] == [4002]


def test_a_range_is_looked_up_once_whatever_asks_for_it() -> None:
    class Counting(FileHistory):
        asked = 0

        def between(self, before: Commit, after: Commit) -> CommitRange:
            self.asked += 1
            return super().between(before, after)

    history = Counting(line(6), {}, "history")
    changes = (NARROWER, MORE_FENCES)
    found = [finding(Verdict.REGRESSION, c, before=commit(1), after=commit(4)) for c in changes]
    name_suspects(found * 2, history, (), RULES, SquashSuffix())
    assert history.asked == 1


def test_the_list_ends() -> None:
    found = among(*line(60)[1:])
    assert len(found.suspects) == RULES.max_suspects


def test_the_newest_is_first_among_equals() -> None:
    assert numbers(among(*line(4)[1:])) == [4003, 4002, 4001]


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        ("plain (#1)", "plain (#1)"),
        ("two\nlines\tand  tabs", "two lines and tabs"),
        ("\x1b[31mred\x07 \u202eevil\u200b", "[31mred evil"),
        ("x" * 300, "x" * (MAX_SUBJECT_CHARACTERS - 3) + "..."),
        ("", ""),
    ],
)
def test_subjects_are_cleaned(subject: str, shown: str) -> None:
    assert clean(subject) == shown


def test_a_finding_s_clue_is_of_the_variant_that_moved() -> None:
    assert clue_of(finding(Verdict.REGRESSION, NARROWER, THEIRS)).metrics == {"dq_vector_width"}
    assert clue_of(finding(Verdict.REFERENCE_MOVED, NARROWER, THEIRS)).metrics == {"dq_layout_conversions"}


def test_findings_get_their_suspects_and_the_true_count_of_what_is_unmeasured() -> None:
    history = FileHistory(line(6), {}, "history")
    found = finding(Verdict.REGRESSION, NARROWER, before=commit(1), after=commit(4), unmeasured=0)
    [named] = name_suspects([found], history, {sha(1), sha(4)}, RULES, SquashSuffix())
    assert [s.pr for s in named.suspects] == [4004, 4003, 4002]
    assert named.unmeasured_commits == 2
    unchanged = replace(named, suspects=(), unmeasured_commits=0, attribution="")
    assert unchanged == found


def test_without_a_history_each_finding_says_so() -> None:
    found = finding(Verdict.REGRESSION, NARROWER, unmeasured=3)
    assert name_suspects([found], None, (), RULES, SquashSuffix()) == [replace(found, attribution=NO_HISTORY)]


def october() -> FileHistory:
    commits = msgspec.json.Decoder(LandedCommit).decode_lines(OCTOBER.read_bytes())
    return FileHistory(commits, {}, OCTOBER.name)


def test_real_commits_the_vectorised_atomics_of_3_2_0_are_among_the_first_two() -> None:
    """200 real commits around pull request 4971, which made dQ's atomics of 3.2.0 four wide."""
    history = october()
    ends = Commit(history.commits[0].sha, "old"), Commit(history.commits[-1].sha, "new")
    found = suspects_of(history, *ends)
    assert 4971 in numbers(found)[:2]
    assert found.unmeasured == 199
