"""`python -m scripts.attribute`, and suspects wherever findings are shown."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from builders import FINDINGS, NARROWER, asv_document, finding, history, write_asv, write_lists
from history_builders import LOWERING, Repository, commit, landed, line, write_history
from markdown_it import MarkdownIt
from rich.console import Console
from site_builders import site

import scripts.attribute
from scripts.tracker.attribute import NO_HISTORY
from scripts.tracker.attribution_report import attribution_json, print_attribution, suspects_in_short
from scripts.tracker.attribution_rules import read_rules
from scripts.tracker.backtest import RANGE_COMMITS, KnownCommit, rank_known, read_known_commits
from scripts.tracker.comment import render_all
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, TrackerError, run_command
from scripts.tracker.groups import group_findings
from scripts.tracker.history import FileHistory, LandedCommit, read_history_file
from scripts.tracker.judge import judge
from scripts.tracker.measured import load_history
from scripts.tracker.model import Commit, Stage, Suspect, Verdict
from scripts.tracker.workspace import Workspace

DATA = Path(__file__).resolve().parent.parent / "data"
HOSTILE = "`|@everyone #1 <script>alert(1)</script> [bold]x[/] ![i](https://evil.example)"
SUSPECTS = (
    Suspect("a" * 40, 4971, 0.6, "touches NVIDIA lowering", HOSTILE, "squash suffix, not checked"),
    Suspect("b" * 40, None, 0.2, "touches LLVM pin", "Update LLVM", "no number", "LLVM a .. b"),
    Suspect("c" * 40, 12, 0.2, "touches front end", "Other", "squash suffix, not checked"),
)
NAMED = replace(
    finding(Verdict.REGRESSION, NARROWER),
    suspects=SUSPECTS,
    attribution="one of 3 commits",
    unmeasured_commits=3,
)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Two commits of main with a finding between them, and what landed from one to the other."""
    monkeypatch.setattr(scripts.attribute, "ROOT", tmp_path)
    workspace = Workspace(tmp_path)
    commits = [Commit(commit(1).commit, "old"), Commit(commit(4).commit, "new")]
    write_lists(workspace.results, commits)
    for measured, width in zip(commits, (4.0, 1.0), strict=True):
        table = {"atomic_add": {"dq_vector_width": width}, "inline_asm": {"dq_vector_width": 1.0}}
        write_asv(workspace.results, asv_document(measured, table))
    return workspace


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["attribute", *map(str, arguments)])
    return run_command(scripts.attribute.main)


def test_json(workspace: Workspace, monkeypatch, capsys) -> None:
    write_history(workspace.cache / "triton-history.jsonl.gz", line(6))
    assert run(monkeypatch, "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == 1
    [found] = document["attributions"]
    assert found["metrics"] == ["dq_vector_width"]
    assert found["unmeasured_commits"] == 2
    assert [s["pr"] for s in found["suspects"]] == [4004, 4003, 4002]
    assert found["findings"] == [f.id for f in judge(load_history(workspace)).findings]


def test_the_table_fits_80_columns_and_shows_hostile_text_as_text() -> None:
    stream = io.StringIO()
    print_attribution(Console(file=stream, width=80, color_system=None), [NAMED])
    shown = stream.getvalue()
    assert max(map(len, shown.splitlines())) <= 80
    assert "[bold]x[/]" in shown
    assert "not who moved the pin: LLVM a .. b" in " ".join(shown.split())
    assert [row.split()[0] for row in shown.splitlines() if "%" in row] == ["1", "2=", "2="]


def test_a_named_history_wins_over_the_cache(workspace: Workspace, monkeypatch, capsys, tmp_path) -> None:
    write_history(workspace.cache / "triton-history.jsonl.gz", line(6))
    named = write_history(tmp_path / "other.gz", [landed(n, f"Other (#{n + 1})") for n in range(6)])
    assert run(monkeypatch, "--history", named, "--format", "json") == 0
    [found] = json.loads(capsys.readouterr().out)["attributions"]
    assert [s["pr"] for s in found["suspects"]] == [5, 4, 3]


def test_without_a_history_it_says_how_to_get_one(workspace: Workspace, monkeypatch, capsys) -> None:
    assert run(monkeypatch) == EXIT_CANNOT_JUDGE
    assert "git clone --bare" in capsys.readouterr().err
    judged = load_history(workspace)
    judge(judged)
    assert NO_HISTORY in judged.notes


@pytest.mark.parametrize("name", ["triton-history.jsonl.gz", "triton.git"])
def test_a_damaged_history_is_a_problem_and_the_findings_stay(
    workspace: Workspace, monkeypatch, capsys, name: str
) -> None:
    path = workspace.cache / name
    if name.endswith(".git"):
        path.mkdir(parents=True)
    else:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    judged = load_history(workspace)
    assert len(judge(judged).findings) == 1
    assert name in str(judged.problems[0])
    assert run(monkeypatch, "--history", path) == EXIT_CANNOT_JUDGE


def test_write_history_makes_a_file_of_a_clone_that_gives_the_same_suspects(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(scripts.attribute, "ROOT", tmp_path)
    triton = Repository(tmp_path / "clone")
    for n in range(4):
        triton.commit(f"Change {n} (#{n + 1})", LOWERING[0], date=f"2024-06-0{n + 1}T00:00:00+02:00")
    assert run(monkeypatch, "--write-history", tmp_path / "clone") == 0
    assert "4 commits, 2024-06-01 to 2024-06-04" in capsys.readouterr().out
    path = Workspace(tmp_path).cache / "triton-history.jsonl.gz"
    content = path.read_bytes()
    commits = read_history_file(path).commits
    assert [c.subject for c in commits] == [f"Change {n} (#{n + 1})" for n in range(4)]
    assert commits[1].files == LOWERING
    assert commits[-1].sha == triton.head()
    assert run(monkeypatch, "--write-history", tmp_path / "clone") == 0
    assert path.read_bytes() == content


def test_write_history_of_no_clone(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(scripts.attribute, "ROOT", tmp_path)
    assert run(monkeypatch, "--write-history", tmp_path / "nothing") == EXIT_CANNOT_JUDGE
    assert "no git repository" in capsys.readouterr().err


def test_the_backtest_prints_ranks(monkeypatch, capsys, tmp_path: Path) -> None:
    commits = msgspec.json.Decoder(LandedCommit).decode_lines(
        (DATA / "history-october-2024.jsonl").read_bytes()
    )
    monkeypatch.setattr(scripts.attribute, "ROOT", tmp_path)
    write_history(tmp_path / ".cache" / "triton-history.jsonl.gz", commits)
    known = tmp_path / "known.toml"
    entry = 'pr = 4971\nstage = "llir"\nmetrics = ["dq_vector_width"]\nwhat = "atomics"\n'
    known.write_text(f"[[known]]\n{entry}")
    assert run(monkeypatch, "--backtest", known) == 0
    shown = capsys.readouterr().out
    assert "PR  4971" in shown
    assert "1 known commits in ranges of 200: median rank 1.5 (by chance 100.5)" in " ".join(shown.split())
    known.write_text(known.read_text().replace("4971", "1"))
    assert run(monkeypatch, "--backtest", known) == EXIT_CANNOT_JUDGE
    known.write_text("known = []")
    assert run(monkeypatch, "--backtest", known) == EXIT_CANNOT_JUDGE


def test_a_rank_says_what_a_tie_leaves_open() -> None:
    history = FileHistory(line(30), {}, "history")
    rank = rank_known(history, KnownCommit(4010, Stage.LLIR, (), "one like all"), read_rules())
    assert (rank.best, rank.worst, rank.expected) == (1, 30, 15.5)


def test_the_shipped_list_of_known_commits() -> None:
    known = read_known_commits(DATA / "known_commits.toml")
    assert len({entry.pr for entry in known}) == len(known) >= 15
    assert {entry.stage for entry in known} == set(Stage)
    with pytest.raises(TrackerError, match=r"known_commits\.toml"):
        read_known_commits(DATA / "history-october-2024.jsonl")
    assert RANGE_COMMITS == 200


def test_suspects_in_a_comment_stand_in_code_spans() -> None:
    [comment] = render_all([NAMED], history()).values()
    blocks = MarkdownIt("commonmark").enable("table").parse(comment)
    tokens = [token for block in blocks for token in (block, *(block.children or []))]
    assert HOSTILE in [t.content for t in tokens if t.type == "code_inline"]
    outside = "\n".join(t.content for t in tokens if t.type in ("text", "html_block", "html_inline"))
    assert "everyone" not in outside
    # With a "#" it would become a link in whatever repository this stands, and leave a trace there.
    assert "#4971" not in outside
    links = [t.attrGet("href") for t in tokens if t.type == "link_open"]
    assert set(links) == {f"https://redirect.github.com/triton-lang/triton/pull/{n}" for n in (12, 4971)}
    assert "not who moved the pin" in outside


def test_a_comment_without_suspects_says_why() -> None:
    [comment] = render_all([replace(NAMED, suspects=(), attribution=NO_HISTORY)], history()).values()
    assert "Suspects: none named" in comment
    [silent] = render_all(FINDINGS["improvement"], history()).values()
    assert "Suspects" not in silent


def test_the_page_escapes_subjects() -> None:
    page = site([NAMED])["findings/3.1.0_3.2.0_atomic_add_cuda-90.html"]
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert "One of 3 commits." in page


def test_of_several_lists_the_one_of_most_findings_stands_for_the_group() -> None:
    other = replace(NAMED, suspects=SUSPECTS[:1], attribution="another clue")
    [group] = group_findings([other, NAMED, NAMED])
    assert [f.attribution for f in group.attributions_of(Verdict.REGRESSION)] == [
        "one of 3 commits",
        "another clue",
    ]


def test_what_a_history_cannot_tell_is_noted_once(workspace: Workspace) -> None:
    write_history(workspace.cache / "triton-history.jsonl.gz", line(3))
    judged = load_history(workspace)
    judge(judged)
    [note] = [n for n in judged.notes if "suspects unknown" in n]
    assert note.startswith("1 findings, suspects unknown: new (")


def test_in_short() -> None:
    assert suspects_in_short([NAMED]) == (
        "suspects: PR 4971, bbbbbbbbbb (a bump), PR 12 (of 3 unmeasured commits)"
    )
    assert suspects_in_short(FINDINGS["regression"]) == ""


def test_json_of_nothing() -> None:
    assert json.loads(attribution_json([])) == {"schema": 1, "attributions": []}
