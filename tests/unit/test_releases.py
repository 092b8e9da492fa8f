"""Which releases are measured, and the git history made of them: the same on every machine."""

import datetime
import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.tracker import releases
from scripts.tracker.errors import TrackerError
from scripts.tracker.releases import (
    Release,
    choose_releases,
    known_releases,
    newest_patches,
    offered_versions,
    write_history,
)

KNOWN = [r.version for r in known_releases()]
OFFERED = "triton (9.9.0)\nAvailable versions: 9.9.0, 3.10.0, 3.9.0, 3.2.0, 3.1.0, 3.0.0, 2.3.1\n"


class FakePip:
    """Stands where a process would be started; knows `pip index versions` and `pip download`."""

    def __init__(self) -> None:
        self.says, self.status, self.error = OFFERED, 0, ""
        self.calls: list[str] = []

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[1:3] == ["-m", "pip"]
        self.calls.append(command[3])
        if command[3] == "download" and self.status == 0:
            version = command[-1].removeprefix("triton==")
            wheel = Path(command[command.index("--dest") + 1]) / f"triton-{version}-cp311-linux.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(zipfile.ZipInfo("a", (2027, 1, 31, 23, 0, 0)), b"")
                archive.writestr(zipfile.ZipInfo("b", (1980, 1, 1, 0, 0, 0)), b"")
        return subprocess.CompletedProcess(command, self.status, self.says, self.error)


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> FakePip:
    fake = FakePip()
    monkeypatch.setattr(subprocess, "run", fake)
    return fake


def chosen(asked: str, cache: Path) -> list[str]:
    return [release.version for release in choose_releases(asked, cache)]


def test_the_shipped_list_is_in_order_and_sane() -> None:
    known = known_releases()
    assert len(set(KNOWN)) == len(KNOWN)
    assert all(100 < r.wheel_mb < 500 and r.date.year >= 2024 for r in known)
    assert [r.date for r in known] == sorted(r.date for r in known)
    assert known[1].tag == "v3.1.0"


def test_newest_patches() -> None:
    versions = [
        "3.0.0",
        "3.1.0",
        "3.3.0",
        "3.3.1",
        "3.10.0",
        "3.9.0",
        "3.4.0rc1",
        "3.5.0.dev1",
        "2.3.1",
        "4.0.0",
    ]
    assert newest_patches(versions) == ["3.1.0", "3.3.1", "3.9.0", "3.10.0", "4.0.0"]
    assert newest_patches([]) == []


def test_what_pip_offers(pip: FakePip) -> None:
    assert offered_versions() == ["2.3.1", "3.0.0", "3.1.0", "3.2.0", "3.9.0", "3.10.0", "9.9.0"]


@pytest.mark.parametrize(
    ("status", "says", "error", "words"),
    [(1, "", "noise\nERROR: no network", "ERROR: no network"), (0, "nothing", "", "no list of versions")],
)
def test_pip_that_cannot_say(pip: FakePip, status: int, says: str, error: str, words: str) -> None:
    pip.status, pip.says, pip.error = status, says, error
    with pytest.raises(TrackerError, match=words) as caught:
        offered_versions()
    assert "make track RELEASES=" in str(caught.value)


def test_releases_that_are_known_need_no_index(pip: FakePip, tmp_path: Path) -> None:
    assert chosen("3.2.0, v3.1.0 3.2.0", tmp_path) == ["3.1.0", "3.2.0"]
    assert pip.calls == []


def test_the_default_is_the_newest_patch_of_each_minor(pip: FakePip, tmp_path: Path) -> None:
    pip.says = "Available versions: 3.3.1, 3.3.0, 3.1.0, 3.0.0"
    assert chosen(" ", tmp_path) == ["3.1.0", "3.3.1"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("latest", "RELEASES='latest'.*write them like 3.2.0"),
        ("3.1.0 3.7.9", "Triton 3.7.9: not offered for this Python; there are 3.0.0, 3.1.0"),
        ("2.3.1 3.1.0", "Triton 2.3.1 is too old"),
    ],
)
def test_what_cannot_be_measured(pip: FakePip, tmp_path: Path, asked: str, words: str) -> None:
    with pytest.raises(TrackerError, match=words):
        choose_releases(asked, tmp_path)


def test_an_unknown_release_is_dated_by_its_wheel_once(pip: FakePip, tmp_path: Path) -> None:
    [release] = choose_releases("9.9.0", tmp_path)
    assert (release.version, release.date) == ("9.9.0", datetime.date(2027, 1, 31))
    assert list((tmp_path / "wheelhouse").iterdir()) != []
    assert pip.calls == ["index", "download"]
    assert choose_releases("9.9.0", tmp_path) == [release]
    assert pip.calls == ["index", "download"]


@pytest.mark.parametrize("content", ["", "{", "7", "[1]", '[["9.9.0", "31 January", 1]]', '[["9.9.0"]]'])
def test_a_damaged_memory_of_releases(tmp_path: Path, content: str) -> None:
    (tmp_path / "seen-releases.json").write_text(content)
    with pytest.raises(TrackerError, match=r"seen-releases\.json: not readable .* delete it"):
        choose_releases("3.1.0", tmp_path)


@pytest.mark.parametrize("content", ["", "[[release]", '[[release]]\nversion = "3.1.0"'])
def test_a_damaged_list_of_releases(tmp_path: Path, content: str) -> None:
    path = tmp_path / "releases.toml"
    path.write_text(content)
    with pytest.raises(TrackerError, match=r"releases\.toml: not a list .* restore it from git"):
        known_releases(path)


# ---- the history ---------------------------------------------------------------------------------------


def git(repository: Path, *arguments: str) -> str:
    command = ["git", f"--git-dir={repository}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    write_history(folder / "releases.git", folder)
    return folder / "releases.git"


def test_one_commit_a_release_in_order_of_date(repository: Path) -> None:
    assert git(repository, "log", "--reverse", "--format=%s", "main").splitlines() == [
        f"Triton {version}" for version in KNOWN
    ]
    for release in known_releases():
        assert git(repository, "show", f"v{release.version}:release.json") == (
            f'{{"version": "{release.version}", "tag": "v{release.version}"}}'
        )
        dates = git(repository, "log", "-1", "--format=%ad %cd", "--date=iso-strict", f"v{release.version}")
        assert dates == " ".join([f"{release.date}T12:00:00+00:00"] * 2)
        assert git(repository, "ls-tree", "-r", "--name-only", f"v{release.version}") == "release.json"


def test_another_machine_makes_the_same_hashes(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text(
        "[user]\nname = Someone\nemail = a@b\n[core]\nautocrlf = true\n[i18n]\ncommitEncoding = latin1\n"
        "[init]\ndefaultBranch = trunk\ndefaultObjectFormat = sha256\n[log]\nshowSignature = true\n"
        "decorate = full\n[color]\nui = always\n[commit]\ngpgSign = true\n[safe]\nbareRepository = explicit\n"
    )
    for name, value in {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "TZ": "Asia/Kolkata",
        "GIT_AUTHOR_NAME": "Someone",
        "GIT_AUTHOR_DATE": "1999-01-01T00:00:00",
        "GIT_COMMITTER_EMAIL": "x@y",
        "GIT_DEFAULT_HASH": "sha256",
        "LC_ALL": "C",
    }.items():
        monkeypatch.setenv(name, value)
    there = write_history(tmp_path / "elsewhere.git", tmp_path)
    monkeypatch.undo()
    here = {s.split()[1]: s.split()[0] for s in git(repository, "log", "--format=%H %f").splitlines()}
    assert there == {version: here[f"Triton-{version}"] for version in KNOWN}
    assert list(there) == KNOWN


def test_a_second_time_changes_nothing(repository: Path, tmp_path: Path) -> None:
    before = git(repository, "show-ref")
    write_history(repository, tmp_path)
    assert git(repository, "show-ref") == before


def test_a_new_release_stands_at_the_end_and_changes_no_hash(tmp_path: Path) -> None:
    before = write_history(tmp_path / "r.git", tmp_path)
    newest = known_releases()[-1].date + datetime.timedelta(days=30)
    (tmp_path / "seen-releases.json").write_text(json.dumps([["3.8.1", newest.isoformat(), 300]]))
    after = write_history(tmp_path / "r.git", tmp_path)
    # A patch of an older minor release is newer all the same.
    assert list(after) == [*KNOWN, "3.8.1"]
    assert {version: after[version] for version in KNOWN} == before
    assert "v3.8.1" in git(tmp_path / "r.git", "tag")


def test_a_wheel_that_looks_old_stands_at_the_end_too(tmp_path: Path) -> None:
    before = write_history(tmp_path / "r.git", tmp_path)
    (tmp_path / "seen-releases.json").write_text(json.dumps([["9.9.0", "2020-01-01", 300]]))
    after = write_history(tmp_path / "r.git", tmp_path)
    assert list(after) == [*KNOWN, "9.9.0"]
    assert {version: after[version] for version in KNOWN} == before


def test_a_longer_shipped_list_keeps_the_hashes(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_history(tmp_path / "whole.git", tmp_path)
    shorter: list[Release] = known_releases()[:5]
    monkeypatch.setattr(releases, "known_releases", lambda: shorter)
    first = write_history(tmp_path / "r.git", tmp_path)
    assert list(first) == KNOWN[:5]
    monkeypatch.undo()
    assert write_history(tmp_path / "r.git", tmp_path) == whole
    assert {version: whole[version] for version in first} == first


def test_no_other_repository_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a git hook, GIT_DIR names the repository of whoever commits."""
    other = tmp_path / "other.git"
    subprocess.run(["git", "init", "--quiet", "--bare", other], check=True)
    monkeypatch.setenv("GIT_DIR", str(other))
    write_history(tmp_path / "r.git", tmp_path)
    assert os.listdir(other / "refs" / "heads") == []  # noqa: PTH208
    assert git(tmp_path / "r.git", "rev-parse", "v3.1.0") != ""


def test_a_damaged_repository_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.git").mkdir()
    (tmp_path / "r.git" / "HEAD").write_text("nonsense")
    with pytest.raises(TrackerError, match=r"git .*r\.git.* failed"):
        write_history(tmp_path / "r.git", tmp_path)
