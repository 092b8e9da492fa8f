"""Our clone of Triton: made whole or not at all, refreshed, and refused if it is not a full one."""

import subprocess
from pathlib import Path

import pytest
from history_builders import Repository

from scripts.tracker.clone import CloneHistory
from scripts.tracker.clone_refresh import check_full, refresh_clone
from scripts.tracker.errors import TrackerError


class Refresher:
    """A clone of a repository, and what was said about it."""

    def __init__(self, clone: Path, source: str) -> None:
        self.clone = clone
        self.source = source
        self.said: list[str] = []

    def __call__(self) -> bool:
        self.said.clear()
        return refresh_clone(self.clone, self.source, self.said.append, progress=False)

    def subjects(self) -> list[str]:
        return [commit.subject for commit in CloneHistory(self.clone).main_line()]


@pytest.fixture
def triton(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "triton")
    for n in range(3):
        repository.commit(f"commit {n}")
    return repository


@pytest.fixture
def refresh(tmp_path: Path, triton: Repository) -> Refresher:
    return Refresher(tmp_path / "cache" / "triton.git", str(triton.folder))


def test_made_then_refreshed(refresh: Refresher, triton: Repository) -> None:
    assert refresh()
    assert refresh.said == [f"Cloning {triton.folder}, all of its history: once, and minutes on a slow line"]
    assert refresh.subjects() == ["commit 0", "commit 1", "commit 2"]
    assert refresh()
    assert refresh.said == []
    triton.commit("commit 3")
    triton.git("tag", "v3.9.9")
    assert refresh()
    assert refresh.said == ["1 new commits on main"]
    assert refresh.subjects()[-1] == "commit 3"
    # A release is its tag.
    tags = subprocess.run(
        ["git", f"--git-dir={refresh.clone}", "tag"], capture_output=True, text=True, check=True
    )
    assert tags.stdout.split() == ["v3.9.9"]


def test_a_rewritten_main_is_taken_over_and_said(refresh: Refresher, triton: Repository) -> None:
    refresh()
    triton.git("reset", "--quiet", "--hard", "HEAD~2")
    triton.commit("instead")
    assert refresh()
    assert refresh.said[0].startswith("warning: main was rewritten: 2 commits are not on it any more")
    assert refresh.subjects() == ["commit 0", "instead"]


def test_a_server_that_is_gone(refresh: Refresher, triton: Repository) -> None:
    refresh()
    triton.folder.rename(triton.folder.with_name("away"))
    assert not refresh()
    assert refresh.said[0].startswith("warning: not refreshed")
    assert len(refresh.subjects()) == 3


@pytest.mark.parametrize(
    "source",
    ["/nowhere/triton", "http://127.0.0.1:9/triton", "--upload-pack=touch pwned", "ext::touch pwned"],
)
def test_no_clone_to_be_had(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refresh = Refresher(tmp_path / "cache" / "triton.git", source)
    with pytest.raises(TrackerError, match="git clone failed"):
        refresh()
    assert not refresh.clone.exists()
    assert not list(tmp_path.rglob("pwned"))


def test_what_a_killed_clone_left_is_no_clone(refresh: Refresher) -> None:
    part = refresh.clone.with_suffix(".part")
    (part / "objects").mkdir(parents=True)
    (part / "HEAD").write_text("half of it")
    assert refresh()
    assert not part.exists()
    assert len(refresh.subjects()) == 3


def test_locks_of_a_killed_git_are_no_obstacle(refresh: Refresher, triton: Repository) -> None:
    refresh()
    for name in ("refs/heads/main.lock", "packed-refs.lock", "config.lock"):
        (refresh.clone / name).touch()
    triton.commit("commit 3")
    assert refresh()
    assert refresh.subjects()[-1] == "commit 3"


def test_shallow_and_partial_sources_are_refused_and_leave_nothing(
    tmp_path: Path, triton: Repository
) -> None:
    triton.git("config", "uploadpack.allowFilter", "true")
    for option, words in (("--depth=1", "a shallow clone"), ("--filter=blob:none", "a partial clone")):
        path = tmp_path / f"{words[2:5]}.git"
        source = f"file://{triton.folder}"
        subprocess.run(["git", "clone", "--quiet", "--bare", option, source, path], check=True)
        with pytest.raises(TrackerError, match=rf"{words}.*without --depth and --filter"):
            check_full(path)
    shallow = Refresher(tmp_path / "cache" / "triton.git", f"file://{tmp_path / 'sha.git'}")
    with pytest.raises(TrackerError, match="a shallow clone"):
        shallow()
    assert not shallow.clone.exists()


def test_a_source_without_main(tmp_path: Path, triton: Repository) -> None:
    triton.git("branch", "-m", "main", "trunk")
    with pytest.raises(TrackerError, match="no branch main"):
        Refresher(tmp_path / "cache" / "triton.git", str(triton.folder))()


def test_variables_of_a_hook_do_not_lead_elsewhere(
    refresh: Refresher, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert refresh()
    assert refresh()
    assert len(refresh.subjects()) == 3
