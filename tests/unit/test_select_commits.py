"""The command that chooses commits: a HASHFILE for asv, shards for a matrix."""

import json
from pathlib import Path

import pytest
from history_builders import landed, line, sha, write_history

from scripts import select_commits
from scripts.tracker.errors import run_command
from scripts.tracker.model import Role
from scripts.tracker.results import read_commits, read_variants


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run it on a history of eight commits, of which one does not apply."""
    commits = [*line(7), landed(7, files=("docs/x.rst",))]
    history = write_history(tmp_path / "history.jsonl.gz", commits)

    def command(*options: str) -> int:
        monkeypatch.setattr("sys.argv", ["select_commits", "--history", str(history), *options])
        return run_command(select_commits.main)

    return command


def test_a_hashfile_that_asv_reads(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--out", str(tmp_path / "hashes.txt"), "--limit", "3") == 0
    assert (tmp_path / "hashes.txt").read_text() == f"{sha(6)}\n{sha(5)}\n{sha(4)}\n"
    out, err = capsys.readouterr()
    assert out == ""
    assert "8 commits of main, 1 not applicable (12.5%), 7 to measure (1 new, 6 history)" in err


def test_shards_and_the_matrix(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "shards"
    assert run("--out", str(folder), "--shards", "3") == 0
    names = json.loads(capsys.readouterr().out)["shard"]
    assert sorted(p.name for p in folder.glob("*.txt")) == names == [f"shard-00{n}.txt" for n in (1, 2, 3)]
    assert "".join((folder / name).read_text() for name in names).split() == [
        sha(n) for n in range(6, -1, -1)
    ]
    # More shards than commits: no empty job. What an earlier call left goes.
    assert run("--out", str(folder), "--shards", "9", "--limit", "2") == 0
    assert json.loads(capsys.readouterr().out) == {"shard": ["shard-001.txt", "shard-002.txt"]}
    assert len(list(folder.glob("*.txt"))) == 2
    # What orders and names the workers' results comes from here, not from them: all that apply, oldest first.
    listed = read_commits(folder / "results")
    assert [c.commit for c in listed] == [sha(n) for n in range(7)]
    assert read_variants(folder / "results")["atomic_add"].role is Role.CANDIDATE


@pytest.mark.parametrize("options", [("--limit", "0"), ("--shards", "0"), ("--shards", "257")])
def test_numbers_that_make_no_sense(run, tmp_path: Path, options: tuple[str, str]) -> None:
    with pytest.raises(SystemExit):
        run("--out", str(tmp_path / "x"), *options)


def test_a_history_that_is_not_there(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--out", str(tmp_path / "x"), "--history", str(tmp_path / "missing.gz")) == 2
    assert "missing.gz" in capsys.readouterr().err
    monkeypatch.setattr(select_commits, "find_history", lambda cache: None)
    monkeypatch.setattr("sys.argv", ["select_commits", "--out", str(tmp_path / "x")])
    assert run_command(select_commits.main) == 2
    assert "no history of Triton: make follow makes a clone" in capsys.readouterr().err
