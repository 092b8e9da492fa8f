"""From files to an exit status: the command as a whole, on results that were never measured."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import (
    COMMITS,
    NAN,
    NEW,
    OLD,
    PATH,
    asv_document,
    record_document,
    write_asv,
    write_lists,
    write_object,
    write_record,
)

from scripts import comment_on_prs, flag_regressions, report, verify_evidence
from scripts.tracker.errors import run_command
from scripts.tracker.workspace import Workspace

COMMANDS = (comment_on_prs, flag_regressions, report, verify_evidence)
Output = tuple[int, str, str]


def table(width: float | None) -> dict[str, dict[str, float | None]]:
    steady: dict[str, float | None] = {"dq_vector_width": 1.0, "gpu_fences": 0.0}
    return {
        "atomic_add": {"dq_vector_width": width, "gpu_fences": 0.0},
        "inline_asm": steady,
        "store": steady,
        "none": {"dq_vector_width": NAN, "gpu_fences": 0.0},
    }


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A checkout with two commits measured and no change between them."""
    for command in COMMANDS:
        monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    space = Workspace(tmp_path)
    write_lists(space.results)
    for commit in (OLD, NEW):
        write_asv(space.results, asv_document(commit, table(4.0)))
    return space


def become_narrower(space: Workspace) -> None:
    write_asv(space.results, asv_document(NEW, table(1.0)))
    scalar = {**PATH, "llir": {"atom.add.f32": 32}, "ptx": {"atom.add.f32": 32}}
    for commit, path in ((OLD, PATH), (NEW, scalar)):
        objects = {"ptx": write_object(space.evidence.root, commit.label.encode())}
        kernel = {"role": "backward", "identity": commit.label, "dq_path": path, "objects": objects}
        write_record(space.evidence.root, record_document(commit, kernels=[kernel]))


def run(command: Any, capsys: pytest.CaptureFixture[str], monkeypatch: Any, *arguments: str) -> Output:
    monkeypatch.setattr(sys, "argv", ["command", *arguments])
    status = run_command(command.main)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def flag(workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda *arguments: run(flag_regressions, capsys, monkeypatch, *arguments)


def test_nothing_found_is_status_0(flag: Any) -> None:
    status, out, err = flag()
    assert (status, out) == (0, "No findings.\n")
    assert "0 findings. Measured: 2 commits" in err


def test_a_finding_is_status_1(flag: Any, workspace: Workspace) -> None:
    become_narrower(workspace)
    status, out, err = flag()
    assert status == 1
    assert "likely regression" in out
    assert "dq_vector_width 4 -> 1" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "2 findings in 1 rows" in err


def test_json_is_all_there_is_on_stdout(flag: Any, workspace: Workspace) -> None:
    become_narrower(workspace)
    status, out, err = flag("--format", "json")
    findings = json.loads(out)["findings"]
    assert status == 1
    assert [(f["candidate"], f["reference"], f["verdict"]) for f in findings] == [
        ("atomic_add", "inline_asm", "regression"),
        ("atomic_add", "store", "regression"),
    ]
    assert findings[0]["first_changed_stage"] == "llir"
    assert "8 x atom.add.v4.f32 became 32 x atom.add.f32" in findings[0]["explanation"]
    assert "Measured: 2 commits" in " ".join(err.split())


def test_markdown_is_what_the_comments_say(
    flag: Any, workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    become_narrower(workspace)
    _, out, _ = flag("--format", "markdown")
    status, folder, _ = run(comment_on_prs, capsys, monkeypatch)
    [comment] = Path(folder.strip()).iterdir()
    assert status == 0
    assert comment.read_text().strip() == out.strip()
    assert "| ptx | `8 x atom.add.v4.f32` | `32 x atom.add.f32` |" in out


def test_no_json_findings_is_an_empty_list(flag: Any) -> None:
    status, out, _ = flag("--format", "json")
    assert status == 0
    assert json.loads(out)["findings"] == []


@pytest.mark.parametrize("format_", ["table", "json"])
def test_a_damaged_file_beside_good_ones_hides_no_finding(
    flag: Any, workspace: Workspace, format_: str
) -> None:
    become_narrower(workspace)
    damaged = write_asv(workspace.results, asv_document(COMMITS[2], table(1.0)))
    damaged.write_text(damaged.read_text()[:100])
    status, out, err = flag("--format", format_)
    assert status == 2
    assert "regression" in out
    assert damaged.name not in out
    assert damaged.name in err.replace("\n", "")
    if format_ == "json":
        assert len(json.loads(out)["findings"]) == 2


def test_a_damaged_record_costs_its_stage_alone(flag: Any, workspace: Workspace) -> None:
    become_narrower(workspace)
    next(workspace.evidence.root.rglob("atomic_add.json")).write_text("{}")
    status, out, _ = flag("--format", "json")
    assert status == 2
    findings = json.loads(out)["findings"]
    assert [f["verdict"] for f in findings] == ["regression"] * 2
    assert findings[0]["first_changed_stage"] is None


def test_what_did_not_compile_any_more_is_no_silence(flag: Any, workspace: Workspace) -> None:
    write_asv(workspace.results, asv_document(NEW, table(None)))
    refused = record_document(NEW, status="failed", message="ptxas: [/] boom")
    write_record(workspace.evidence.root, refused)
    status, out, err = flag()
    assert status == 1
    assert "no valid data" in out
    assert "ptxas: [/] boom" in " ".join(out.split())
    assert "1 failed" in " ".join(err.split())


def test_nothing_measured_is_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flag_regressions, "ROOT", tmp_path)
    status, out, err = run(flag_regressions, capsys, monkeypatch, "--format", "json")
    assert (status, out) == (2, "")
    assert err == "error: nothing is measured yet: run make track first (commits of main: make follow)\n"


def test_comments_of_findings_that_are_no_more_are_deleted(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    become_narrower(workspace)
    _, folder, _ = run(comment_on_prs, capsys, monkeypatch)
    assert len(list(Path(folder.strip()).iterdir())) == 1
    write_asv(workspace.results, asv_document(NEW, table(4.0)))
    _, folder, _ = run(comment_on_prs, capsys, monkeypatch)
    assert list(Path(folder.strip()).iterdir()) == []


def test_the_page_is_written(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    become_narrower(workspace)
    status, page, _ = run(report, capsys, monkeypatch)
    assert status == 0
    assert "likely regression since" in Path(page.strip()).read_text()
    comment = workspace.report / "comments" / "of-comment_on_prs.md"
    comment.parent.mkdir()
    comment.write_text("kept")
    stray = workspace.report / "findings" / "of-an-earlier-run.html"
    stray.write_text("old")
    run(report, capsys, monkeypatch)
    assert not stray.exists()
    assert comment.read_text() == "kept"
    assert (workspace.report / "assets" / "plotly.min.js").stat().st_size > 1_000_000
    assert [path.name for path in workspace.report.parent.iterdir() if "report" in path.name] == ["report"]


def test_the_evidence_is_verified(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    become_narrower(workspace)
    root = str(workspace.evidence.root)
    status, out, _ = run(verify_evidence, capsys, monkeypatch, root)
    assert status == 0
    assert re.fullmatch(rf"{re.escape(root)}: [1-9]\d* files checked, 0 damaged\n", out)
    damaged = next(workspace.evidence.root.rglob("*.zst"))
    damaged.write_bytes(b"")
    status, out, _ = run(verify_evidence, capsys, monkeypatch, root)
    assert status == 1
    assert out.startswith(f"{damaged}: ")
    assert out.endswith(" files checked, 1 damaged\n")
