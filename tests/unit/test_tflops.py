"""The table of issue 4717 for any commits: its arithmetic, what is missing in it, and the copies of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import scripts.tflops
from scripts.tracker.errors import TrackerError
from scripts.tracker.results import Benchmark, CommitResults
from scripts.tracker.tflops import medians_s, read_issue, rows_of

ROOT = Path(__file__).resolve().parents[2]
NAN = float("nan")
NAME = "suite.track"
FLOPS = {(2048, 64, True): 2e9, (4096, 64, True): 8e9}


def results(commit: str, *values: float | None) -> CommitResults:
    """Seconds of atomic_add and store at n_ctx 2048 and 4096."""
    params = (("'atomic_add'", "'store'"), ("2048", "4096"), ("64",), ("True",), ("'fp16'",))
    row = Benchmark(params, values, "1", (None,) * 4, 1)
    return CommitResults(Path("x"), commit, "gpu", {NAME: row}, 0.0)


def test_operations_over_seconds() -> None:
    medians = medians_s([results("a", 1e-3, 2e-3, 4e-3, 4e-3)], NAME)
    [row] = rows_of(medians, FLOPS, [("a", "3.1.0")], ["atomic_add"], [2048, 4096], 64)
    assert (row.name, row.where, row.tflops) == ("atomic_add", "3.1.0", (2.0, 4.0))


def test_what_failed_was_skipped_or_never_measured_is_no_number() -> None:
    medians = medians_s([results("a", None, 2e-3, NAN, None)], NAME)
    names = ["atomic_add", "store", "two_pass"]
    rows = rows_of(medians, FLOPS, [("a", "3.1.0"), ("b", "3.2.0")], names, [2048, 4096, 8192], 64)
    assert [(row.name, row.where, row.tflops) for row in rows] == [("atomic_add", "3.1.0", (None, 4.0, None))]


def test_of_several_files_the_first_counts() -> None:
    medians = medians_s([results("a", 1e-3, None, None, None), results("a", 9.0, 2e-3, NAN, NAN)], NAME)
    assert medians == {("a", "atomic_add", 2048, 64): 1e-3, ("a", "atomic_add", 4096, 64): 2e-3}


def test_a_damaged_list_of_the_issues_figures_is_named(tmp_path: Path) -> None:
    (tmp_path / "issue.toml").write_text("source = 1")
    with pytest.raises(TrackerError, match=r"issue\.toml.*restore it from git"):
        read_issue(tmp_path / "issue.toml")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded with the project, without what this machine measured."""
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    monkeypatch.setattr(scripts.tflops, "ROOT", tmp_path)


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("page", ["README.md", "FINDINGS.md"])
def test_the_pages_of_benchmarks_have_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    text = (ROOT / "benchmarks" / page).read_text()
    [command] = re.findall(r"scripts\.tflops (--commits 3\.1\.0 .+)`", text)
    monkeypatch.setattr("sys.argv", ["tflops", *command.split()])
    assert scripts.tflops.main() == 0
    assert capsys.readouterr().out in text


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--commits", "9.9"], r"not timed: 9\.9; timed: 3\.1\.0"),
        (["--variants", "magic"], "no such variant"),
    ],
)
def test_what_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.setattr("sys.argv", ["tflops", *words])
    with pytest.raises(TrackerError, match=said):
        scripts.tflops.main()


@pytest.mark.usefixtures("shipped")
def test_json_has_what_the_table_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tflops", "--commits", "3.1.0", "--variants", "store", "descriptor_add"]
    monkeypatch.setattr("sys.argv", [*words, "--format", "json"])
    assert scripts.tflops.main() == 0
    document = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("sys.argv", words)
    scripts.tflops.main()
    table = capsys.readouterr().out
    assert (document["schema"], document["head_dim"]) == (1, 64)
    for row in document["rows"]:
        cells = ["n/a" if value is None else f"{value:.0f}" for value in row["tflops"]]
        assert f"| `{row['name']}` | {row['where']} | {' | '.join(cells)} |" in table
    assert len(document["rows"]) == len(table.splitlines()) - 2
