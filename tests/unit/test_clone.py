"""What landed between two measured commits, from a real git repository."""

import subprocess
from pathlib import Path

import pytest
from history_builders import Repository

from scripts.tracker.clone import CloneHistory, clone_at
from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Commit


@pytest.fixture
def triton(tmp_path: Path) -> Repository:
    """main: base, one, two, three, four. release 3.1 forks at one, 3.2 at three; both picked "fix (#5)"."""
    repository = Repository(tmp_path / "triton")
    repository.commit("base (#1)")
    repository.commit("one (#2)")
    repository.git("branch", "release/3.1.x")
    repository.commit("two (#3)", "dir with space/\u00e4 b.cpp")
    repository.commit("three (#4)")
    repository.git("branch", "release/3.2.x")
    repository.commit("fix (#5)", "f.cpp")
    for branch, own in (("3.1", "only in 3.1 (#8)"), ("3.2", "only in 3.2 (#9)")):
        repository.git("checkout", "--quiet", f"release/{branch}.x")
        repository.commit("fix (#5) (#7)", "f.cpp")
        repository.commit(own, "g.cpp")
        repository.git("tag", f"v{branch}.0")
    repository.git("checkout", "--quiet", "main")
    return repository


def found(repository: Repository, before: Commit, after: Commit):
    return clone_at(repository.folder).between(before, after)


def of(repository: Repository, name: str) -> Commit:
    return Commit(repository.git("rev-parse", name), name)


def subjects(range_) -> list[str]:
    return [commit.subject for commit in range_.commits]


def test_commits_of_main(triton: Repository) -> None:
    got = found(triton, of(triton, "main~4"), of(triton, "main~1"))
    assert subjects(got) == ["one (#2)", "two (#3)", "three (#4)"]
    assert got.commits[1].files == ("dir with space/\u00e4 b.cpp",)
    assert got.exact
    assert got.chances == (1.0, 1.0, 1.0)


def test_releases_are_their_tags_and_what_both_branches_picked_is_no_news(triton: Repository) -> None:
    got = found(triton, Commit("ab" * 20, "3.1.0"), Commit("cd" * 20, "3.2.0"))
    assert subjects(got) == ["two (#3)", "three (#4)", "only in 3.2 (#9)"]
    assert not got.exact
    fork = triton.git("rev-parse", "main~3")[:10]
    assert f"3.1.0 left main's line at {fork} and has 2 commits of its own, 1 of them" in got.notes[0]


def test_of_a_merge_the_first_parent_counts_and_its_files_are_those_it_brought(triton: Repository) -> None:
    before = triton.head()
    triton.git("checkout", "--quiet", "-b", "side")
    triton.commit("side one", "s.cpp")
    triton.commit("side two", "t.cpp")
    triton.git("checkout", "--quiet", "main")
    triton.commit("beside (#10)", "u.cpp")
    triton.git("merge", "--quiet", "--no-ff", "-m", "Merge pull request #11 from x/side", "side")
    got = found(triton, Commit(before, "x"), of(triton, "main"))
    assert subjects(got) == ["beside (#10)", "Merge pull request #11 from x/side"]
    assert got.commits[1].files == ("s.cpp", "t.cpp")


def test_a_renamed_file_counts_under_both_names(triton: Repository) -> None:
    triton.git("mv", "f.cpp", "h.cpp")
    triton.git("commit", "--quiet", "-m", "move (#12)")
    got = found(triton, of(triton, "main~1"), of(triton, "main"))
    assert set(got.commits[0].files) == {"f.cpp", "h.cpp"}


def test_clocks_play_no_part(triton: Repository) -> None:
    before = triton.head()
    triton.commit("in 1980 (#20)", date="1980-01-01T00:00:00+00:00")
    triton.commit("in 2099 (#21)", date="2099-01-01T00:00:00+00:00")
    triton.commit("today (#22)")
    got = found(triton, Commit(before, "x"), of(triton, "main"))
    assert subjects(got) == ["in 1980 (#20)", "in 2099 (#21)", "today (#22)"]


def test_hostile_subjects_stay_one_record(triton: Repository) -> None:
    before = triton.head()
    hostile = "x\x01%H%x00 \x1b[31m (#1)\u202e $(touch pwned) --output=pwned"
    triton.commit(hostile)
    triton.git("commit", "--quiet", "--allow-empty", "-m", "empty")
    got = found(triton, Commit(before, "x"), of(triton, "main"))
    assert subjects(got) == [hostile, "empty"]
    assert got.commits[1].files == ()
    assert not list(triton.folder.rglob("pwned"))


@pytest.mark.parametrize("name", ["f" * 40, "--help", "HEAD", "main", "../x", "", "deadbeef\n"])
def test_an_unknown_commit_is_named_with_the_remedy(triton: Repository, name: str) -> None:
    with pytest.raises(TrackerError, match=r"not in this clone.*git fetch"):
        found(triton, of(triton, "main~1"), Commit(name, name))


def test_an_orphan_is_on_a_line_of_its_own(triton: Repository) -> None:
    """Force-pushed away, but still there: the range since the fork, and no single culprit."""
    gone = triton.commit("pushed away (#30)")
    triton.git("reset", "--quiet", "--hard", "HEAD~1")
    triton.commit("instead (#31)")
    got = found(triton, Commit(gone, "gone"), of(triton, "main"))
    assert subjects(got) == ["instead (#31)"]
    assert not got.exact
    assert "1 commits of its own" in got.notes[0]


def test_the_wrong_way_round(triton: Repository) -> None:
    with pytest.raises(TrackerError, match="does not stand before"):
        found(triton, of(triton, "main"), of(triton, "main~2"))


def clone(source: Repository, to: Path, *options: str) -> Path:
    command = ["git", "clone", "--quiet", "--bare", *options, f"file://{source.folder}", str(to)]
    subprocess.run(command, check=True, capture_output=True)
    return to


def test_a_shallow_clone_does_not_answer_what_it_cannot_know(triton: Repository, tmp_path: Path) -> None:
    shallow = clone_at(clone(triton, tmp_path / "shallow.git", "--depth=2"))
    assert subjects(shallow.between(of(triton, "main~1"), of(triton, "main"))) == ["fix (#5)"]
    with pytest.raises(TrackerError, match="unshallow"):
        shallow.between(of(triton, "main~3"), of(triton, "main"))


def test_a_shallow_clone_with_a_gap_does_not_pass_over_it(triton: Repository, tmp_path: Path) -> None:
    triton.git("config", "uploadpack.allowAnySHA1InWant", "true")
    path = clone(triton, tmp_path / "gap.git", "--depth=1")
    old = triton.git("rev-parse", "main~3")
    fetch = ["git", f"--git-dir={path}", "fetch", "--quiet", "--depth=1", f"file://{triton.folder}", old]
    subprocess.run(fetch, check=True, capture_output=True)
    with pytest.raises(TrackerError, match="a shallow clone, cut off above old"):
        clone_at(path).between(Commit(old, "old"), of(triton, "main"))


def test_a_clone_without_blobs_names_commits_but_no_pins(triton: Repository, tmp_path: Path) -> None:
    triton.git("config", "uploadpack.allowFilter", "true")
    partial = clone_at(clone(triton, tmp_path / "partial.git", "--filter=blob:none"))
    got = partial.between(of(triton, "main~4"), of(triton, "main"))
    assert subjects(got) == ["one (#2)", "two (#3)", "three (#4)", "fix (#5)"]
    assert partial.pins(got.commits[0], "a.cpp") is None
    assert clone_at(triton.folder).pins(got.commits[0], "a.cpp") == ("base (#1)", "one (#2)")


def test_a_clone_without_trees_is_refused_and_fetches_nothing(triton: Repository, tmp_path: Path) -> None:
    triton.git("config", "uploadpack.allowFilter", "true")
    path = clone(triton, tmp_path / "treeless.git", "--filter=tree:0")
    before = sorted(path.rglob("*.pack"))
    with pytest.raises(TrackerError, match="git log failed"):
        clone_at(path).between(of(triton, "main~4"), of(triton, "main"))
    assert sorted(path.rglob("*.pack")) == before


def test_no_path_of_this_machine_is_in_a_message(triton: Repository, tmp_path: Path) -> None:
    """Messages go into comments."""
    for clone_, name in ((clone_at(triton.folder), "triton"), (CloneHistory(tmp_path / "no.git"), "no.git")):
        with pytest.raises(TrackerError, match=f"^{name}: ") as caught:
            clone_.between(Commit("f" * 40, "x"), Commit("e" * 40, "y"))
        assert str(tmp_path) not in str(caught.value)
        with pytest.raises(TrackerError, match="git log failed") as caught:
            clone_._log("no-such-branch")
        assert str(tmp_path) not in str(caught.value)


def test_no_pins_of_a_first_commit_or_of_a_new_file(triton: Repository) -> None:
    line = clone_at(triton.folder).main_line()
    assert [c.subject for c in line] == ["base (#1)", "one (#2)", "two (#3)", "three (#4)", "fix (#5)"]
    assert clone_at(triton.folder).pins(line[0], "a.cpp") is None
    assert clone_at(triton.folder).pins(line[4], "f.cpp") is None


def test_a_folder_that_is_no_clone(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match=r"no git repository; git clone"):
        clone_at(tmp_path)
    with pytest.raises(TrackerError, match="no branch main"):
        CloneHistory(tmp_path).main_line()


def test_git_variables_of_a_hook_do_not_lead_elsewhere(
    triton: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "nowhere"))
    assert len(clone_at(triton.folder).main_line()) == 5
