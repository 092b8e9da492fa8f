"""Which commits of main are measured, in which order, and which share their parent's measurement."""

import datetime
from pathlib import Path

import msgspec
import pytest
from history_builders import LOWERING, landed, line, sha

from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.backtest import read_known_commits
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import FileHistory, LandedCommit, read_history_file
from scripts.tracker.pull_requests import numbers_at_end
from scripts.tracker.selection import (
    SELECTION_FILE,
    Selection,
    SelectionRules,
    Why,
    read_selection_rules,
    select,
    shards,
    since,
)

SHARED_HISTORY = Path(__file__).resolve().parents[3] / "shared" / "data" / "triton-history.jsonl.gz"
DATA = Path(__file__).resolve().parent.parent / "data"
PINS = {"cmake/llvm-hash.txt", "cmake/nvidia-toolchain-version.txt", "cmake/nvidia-toolchain-version.json"}
AMD, TEST, DOC = "third_party/amd/lib/x.cpp", "test/TritonGPU/x.mlir", "docs/index.rst"


@pytest.fixture(scope="module")
def rules() -> SelectionRules:
    return read_selection_rules(read_rules())


def chosen(selection: Selection) -> list[tuple[int, str]]:
    return [(int(c.commit.sha[:8], 16), c.why.value) for c in selection.chosen]


def measured(**digests: str) -> dict[str, str]:
    """measured(c3="a"): commit 3 is measured and its code is "a"."""
    return {sha(int(name[1:])): digest for name, digest in digests.items()}


@pytest.mark.parametrize(
    ("files", "target", "applicable"),
    [
        ((AMD,), "cuda:90", False),
        ((AMD,), "hip:gfx942", True),
        ((TEST, DOC, ".github/workflows/x.yml", "third_party/proton/proton/viewer.py"), "cuda:90", False),
        ((TEST, *LOWERING), "cuda:90", True),
        # Not compiled for another back end, but nobody says that of these.
        (("third_party/nvidia/backend/driver.py",), "cuda:90", True),
        (("python/setup.py",), "cuda:90", True),
        (("cmake/llvm-hash.txt",), "cuda:90", True),
        (("a/folder/that/is/new.cpp",), "cuda:90", True),
        # A pattern of documents fits each of these.
        (("docs/../lib/Dialect/x.cpp",), "cuda:90", True),
        (("docs/./x",), "cuda:90", True),
        (("/docs/x",), "cuda:90", True),
        (("docs\\..\\lib\\x.cpp",), "cuda:90", True),
        (("",), "cuda:90", True),
        ((), "cuda:90", False),  # an empty commit changes nothing
    ],
)
def test_a_commit_is_applicable_unless_no_file_of_it_can_matter(
    rules: SelectionRules, files: tuple[str, ...], target: str, applicable: bool
) -> None:
    selection = select([landed(0), landed(1, files=files)], rules, target, {})
    assert [c.sha for c in selection.applicable] == [sha(0)] + [sha(1)] * applicable
    assert [(n.commit, n.shares) for n in selection.not_applicable] == [(sha(1), sha(0))] * (not applicable)


def test_a_share_goes_past_commits_that_share_themselves(rules: SelectionRules) -> None:
    commits = [landed(0, files=(DOC,)), landed(1), landed(2, files=(AMD,)), landed(3, files=(TEST, DOC))]
    selection = select(commits, rules, "cuda:90", {})
    # The first has nothing to share with.
    assert [c.sha for c in selection.applicable] == [sha(0), sha(1)]
    assert [(n.commit, n.shares) for n in selection.not_applicable] == [(sha(2), sha(1)), (sha(3), sha(1))]
    assert selection.not_applicable[1].areas == ("tests", "documents, tutorials, benchmarks, CI")


def test_a_merge_counts_by_what_it_brings_to_main(rules: SelectionRules) -> None:
    merge = landed(1, files=(AMD,), parents=(sha(0), "ab" * 20))
    assert len(select([landed(0), merge], rules, "cuda:90", {}).not_applicable) == 1


def test_with_nothing_measured_the_newest_is_news_and_the_rest_history(rules: SelectionRules) -> None:
    got = chosen(select(line(4), rules, "cuda:90", {}))
    assert got == [(3, "new"), (2, "history"), (1, "history"), (0, "history")]


def test_new_then_gaps_with_a_change_then_the_rest(rules: SelectionRules) -> None:
    known = measured(c2="a", c10="b", c16="b", c17="c")
    got = chosen(select(line(20), rules, "cuda:90", known))
    assert got[:2] == [(19, "new"), (18, "new")]
    # 2 to 10 differ and 10 to 16 do not; 16 and 17 are neighbours.
    assert got[2:9] == [(n, "gap") for n in (6, 8, 4, 9, 7, 5, 3)]
    assert got[9:] == [(n, "history") for n in (15, 14, 13, 12, 11, 1, 0)]


def test_each_answer_halves_the_gap_that_is_left(rules: SelectionRules) -> None:
    known = measured(c0="a", c15="b")
    asked = []
    while todo := [c for c in select(line(16), rules, "cuda:90", known).chosen if c.why is Why.GAP]:
        position = int(todo[0].commit.sha[:8], 16)
        asked.append(position)
        known[todo[0].commit.sha] = "a" if position < 11 else "b"
    assert asked == [7, 11, 9, 10]
    assert all(why == "history" for _, why in chosen(select(line(16), rules, "cuda:90", known)))


def test_what_failed_for_good_is_passed_over_and_the_gap_searched_beside_it(rules: SelectionRules) -> None:
    got = chosen(select(line(9), rules, "cuda:90", measured(c0="a", c8="b"), {sha(4)}))
    assert (4, "gap") not in got
    assert [n for n, why in got if why == "gap"][:2] == [6, 2]


def test_commits_that_do_not_apply_make_no_gap(rules: SelectionRules) -> None:
    commits = [landed(0), *(landed(n, files=(DOC,)) for n in range(1, 6)), landed(6)]
    assert chosen(select(commits, rules, "cuda:90", measured(c0="a", c6="b"))) == []


def test_orphans_are_named_and_have_no_place(rules: SelectionRules) -> None:
    """Pushed away, or main was rewritten: what was measured of them is no end of a gap."""
    known = {**measured(c0="a", c3="a"), "dead" * 10: "b"}
    selection = select(line(5), rules, "cuda:90", known)
    assert selection.orphans == ("dead" * 10,)
    assert chosen(selection) == [(4, "new"), (2, "history"), (1, "history")]


def test_clocks_play_no_part(rules: SelectionRules) -> None:
    straight = line(8)
    skewed = [*straight]
    skewed[2] = landed(2, date=datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC))
    skewed[6] = landed(6, date=datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC))
    known = measured(c1="a", c5="b")
    assert chosen(select(skewed, rules, "cuda:90", known)) == chosen(
        select(straight, rules, "cuda:90", known)
    )


def test_every_open_commit_is_chosen_once(rules: SelectionRules) -> None:
    known = measured(c3="a", c9="b", c12="a", c30="c")
    got = [n for n, _ in chosen(select(line(40), rules, "cuda:90", known))]
    assert sorted(got) == sorted(set(range(40)) - {3, 9, 12, 30})


@pytest.mark.parametrize("count", [1, 3, 7, 20, 50])
def test_shards_hold_everything_once_and_neighbours_together(rules: SelectionRules, count: int) -> None:
    commits = line(20)
    selection = select(commits, rules, "cuda:90", measured(c4="a", c12="b"))
    parts = shards(selection.chosen, commits, count)
    assert len(parts) == count
    flat = [name for part in parts for name in part]
    assert sorted(flat) == sorted(c.commit.sha for c in selection.chosen)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert flat == sorted(flat, reverse=True)


def test_since() -> None:
    assert since(line(5), None) == line(5)
    assert since(line(5), sha(3)[:8]) == line(5)[3:]
    for unknown, words in (("ffffffff", "not on main"), (sha(0)[:7], "5 commits"), ("0", "5 commits")):
        with pytest.raises(TrackerError, match=words):
            since(line(5), unknown)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "required field"),
        ("skip = []", "length"),
        ('[[skip]]\narea = "no such"\nreason = "x"', "no area 'no such'"),
        ('[[skip]]\narea = "tests"', "reason"),
        ('[[skip]]\narea = "tests"\nreason = "x"\nextra = 1', "extra"),
        ("[[skip", "restore it"),
    ],
)
def test_damaged_rules_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "selection.toml"
    path.write_text(text)
    with pytest.raises(TrackerError, match=words) as caught:
        read_selection_rules(read_rules(), path)
    assert str(path) in str(caught.value)
    with pytest.raises(TrackerError, match=r"missing\.toml"):
        read_selection_rules(read_rules(), tmp_path / "missing.toml")
    assert SELECTION_FILE.exists()


@pytest.fixture(scope="module")
def real() -> list[LandedCommit]:
    if not SHARED_HISTORY.exists():
        pytest.skip(f"{SHARED_HISTORY.name}, 2,100 commits of Triton, is not on this machine")
    return read_history_file(SHARED_HISTORY).main_line()


def test_the_share_of_the_real_history_that_is_saved(rules: SelectionRules, real: list[LandedCommit]) -> None:
    selection = select(real, rules, "cuda:90", {})
    assert (len(real), len(selection.not_applicable)) == (2100, 643)


def test_no_commit_that_is_known_to_touch_code_is_skipped(
    rules: SelectionRules, real: list[LandedCommit]
) -> None:
    """Those of known nature, and every move of a pin."""
    skipped = {n.commit for n in select(real, rules, "cuda:90", {}).not_applicable}
    known = {str(k.pr) for k in read_known_commits(DATA / "known_commits.toml")}
    found = [c for c in real if known.intersection(map(str, numbers_at_end(c.subject)))]
    assert len(found) >= 20
    assert [c.subject for c in found if c.sha in skipped] == []
    pins = [c for c in real if PINS.intersection(c.files)]
    assert len(pins) >= 20
    assert [c.subject for c in pins if c.sha in skipped] == []


def test_a_month_of_main(rules: SelectionRules) -> None:
    """The 200 commits around the branch of 3.2, which are shipped with the tests."""
    decode = msgspec.json.Decoder(LandedCommit).decode_lines
    month = FileHistory(decode((DATA / "history-october-2024.jsonl").read_bytes()), {}, "october").main_line()
    selection = select(month, rules, "cuda:90", {})
    skipped = {n.commit for n in selection.not_applicable}
    assert (len(month), len(skipped)) == (200, 58)
    assert [c.subject for c in month if "#4971" in c.subject and c.sha in skipped] == []
    assert [c.sha for c in selection.applicable] == [c.sha for c in month if c.sha not in skipped]
