"""What landed between two measured commits, from a history file."""

import datetime
import gzip
import json
from pathlib import Path

import pytest
from history_builders import DAY_ONE, commit, landed, line, release, sha, write_history

from scripts.tracker import history as history_module
from scripts.tracker.branches import BRANCHES_FILE, Branch, minor_of, read_branches
from scripts.tracker.errors import TrackerError
from scripts.tracker.history import FileHistory, history_file_bytes, read_history_file
from scripts.tracker.releases import known_releases

# Day n is the day of commit n.
BRANCHES = {
    minor: Branch(minor, *(DAY_ONE.date() + datetime.timedelta(day) for day in days), "us")
    for minor, days in {
        "3.1": (2, 3),
        "3.2": (6, 9),
        "3.3": (-9, -2),
        "3.4": (90, 99),
        "3.5": (8, 99),
    }.items()
}


def history(commits: list | None = None) -> FileHistory:
    return FileHistory(line(12) if commits is None else commits, BRANCHES, "history")


def subjects(found) -> list[str]:
    return [c.subject.split()[1] for c in found.commits]


def test_after_the_one_up_to_the_other() -> None:
    found = history().between(commit(3), commit(6))
    assert [c.sha for c in found.commits] == [sha(4), sha(5), sha(6)]
    assert found.chances == (1.0, 1.0, 1.0)
    assert found.exact
    assert not found.notes


def test_order_is_by_parents_whatever_clocks_and_lines_say() -> None:
    skewed = line(12)
    skewed[5] = landed(5, date=datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC))
    skewed[7] = landed(7, date=datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC))
    found = history(skewed[::-1]).between(commit(3), commit(8))
    assert subjects(found) == ["4", "5", "6", "7", "8"]


def test_a_wrong_clock_moves_a_fork_by_one_at_most() -> None:
    skewed = line(12)
    skewed[1] = landed(1, date=datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC))
    straight, bent = (history(c).between(release("3.1.0"), release("3.2.0")) for c in (line(12), skewed))
    assert abs(len(straight.commits) - len(bent.commits)) <= 1


def test_second_parents_are_not_on_the_line() -> None:
    side = [landed(100 + n, parents=(sha(99 + n) if n else sha(2),)) for n in range(3)]
    merge = landed(3, parents=(sha(2), sha(102)))
    commits = [*line(3), *side, merge, *line(12)[4:]]
    assert subjects(history(commits).between(commit(2), commit(4))) == ["3", "4"]


def test_releases_stand_at_their_forks_with_a_chance_for_each_commit_in_doubt() -> None:
    found = history().between(release("3.1.0"), release("3.2.0"))
    # 3.1 forked at day 1 (nothing landed on its first day yet) to 3: three places. 3.2 at day 5 to 9: five.
    assert subjects(found) == ["2", "3", "4", "5", "6", "7", "8", "9"]
    assert found.chances == pytest.approx((1 / 3, 2 / 3, 1, 1, 0.8, 0.6, 0.4, 0.2))
    assert not found.exact
    assert "3.1.0 forked from main between 2024-06-03 and 2024-06-04" in found.notes[0]
    assert "cherry-picked" in found.notes[1]


def test_a_release_and_a_commit() -> None:
    found = history().between(release("3.1.0"), commit(5))
    assert subjects(found) == ["2", "3", "4", "5"]
    assert found.chances[-2:] == (1, 1)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (commit(3), commit(99), "not on main's line.*pushed away"),
        (commit(99), commit(3), "not on main's line"),
        (commit(6), commit(3), "does not stand before"),
        (commit(3), commit(3), "does not stand before"),
        (release("3.2.0"), release("3.1.0"), "does not stand before"),
        (release("3.2.0"), release("3.2.1"), "one release branch"),
        (release("3.1.0"), release("3.4.0"), "ends on 2024-06-12, before the branch of 3.4.0"),
        (release("3.1.0"), release("9.9.0"), "not on main's line"),
        (release("3.1.0"), release("nightly"), "not on main's line"),
    ],
)
def test_what_cannot_be_told_is_said(before, after, words: str) -> None:
    with pytest.raises(TrackerError, match=words):
        history().between(before, after)


def test_a_history_that_begins_or_ends_too_late_or_early_says_so() -> None:
    found = history().between(release("3.3.0"), release("3.5.0"))
    assert len(found.commits) == 12
    assert "begins on 2024-06-01, maybe after" in found.notes[1]
    assert "ends on 2024-06-12, maybe before" in found.notes[3]


def test_a_file_is_read_back(tmp_path: Path) -> None:
    path = write_history(tmp_path / "history.jsonl.gz", line(4))
    assert read_history_file(path).commits == line(4)
    assert history_file_bytes(line(4)) == path.read_bytes()


def line_of_file(**changed: object) -> bytes:
    fields = {"sha": "a" * 40, "parents": [], "date": "2024-06-01T00:00:00Z", "subject": "", "files": []}
    return gzip.compress(json.dumps({**fields, **changed}).encode())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not gzip",
        gzip.compress(b""),
        gzip.compress(b"{"),
        gzip.compress(b"[" * 100_000),
        gzip.compress(b"\xff\xfe"),
        line_of_file(sha="../../etc"),
        line_of_file(date="2024-06-01T00:00:00"),
        line_of_file(parents="x"),
        line_of_file(files=[1]),
    ],
)
def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "history.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(TrackerError, match=r"history\.jsonl\.gz.*anew"):
        read_history_file(path)


def test_a_bomb_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "_MAX_HISTORY_BYTES", 2**20)
    path = tmp_path / "history.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * (2**20 + 1) + gzip.decompress(history_file_bytes(line(3)))))
    with pytest.raises(TrackerError, match="unpacks to more than 1 MiB"):
        read_history_file(path)


def test_a_cut_file_is_damaged(tmp_path: Path) -> None:
    path = write_history(tmp_path / "history.jsonl.gz", line(40))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TrackerError, match="anew"):
        read_history_file(path)


def test_rings_and_doubles_do_not_hang() -> None:
    ring = [landed(1, parents=(sha(2),)), landed(2, parents=(sha(1),))]
    with pytest.raises(TrackerError, match="no line of commits"):
        history(ring)
    with pytest.raises(TrackerError, match="listed twice"):
        history([*line(2), landed(1)])
    tail_in_ring = [*ring, landed(3)]
    assert [c.sha for c in history(tail_in_ring).commits] == [sha(1), sha(2), sha(3)]


def test_the_shipped_branches_are_of_known_releases_and_before_them() -> None:
    branches = read_branches()
    first_of = {minor_of(r.version): r.date for r in reversed(known_releases())}
    assert set(branches) == set(first_of)
    for minor, branch in branches.items():
        assert branch.first <= branch.last < first_of[minor]


def test_a_damaged_list_of_branches_is_named(tmp_path: Path) -> None:
    path = tmp_path / BRANCHES_FILE.name
    path.write_text('[[branch]]\nminor = "3.1"\nfirst = 2024-06-30\nlast = 2024-06-01\nsource = ""\n')
    with pytest.raises(TrackerError, match=r"release_branches\.toml.*first is after last"):
        read_branches(path)


@pytest.mark.parametrize(
    ("label", "minor"),
    [
        ("3.3.1", "3.3"),
        ("3.10.0", "3.10"),
        ("nightly", None),
        ("0123456789", None),
        ("3.3", None),
        ("", None),
    ],
)
def test_minor_releases(label: str, minor: str | None) -> None:
    assert minor_of(label) == minor
