"""prove: what it asks, what it says before it downloads anything, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from builders import (
    NEW,
    OLD,
    asv_document,
    evidence,
    measured,
    record_document,
    write_asv,
    write_lists,
    write_record,
)

from scripts import prove
from scripts.tracker import throwaway
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.model import Stage
from scripts.tracker.substitution import FED, Side, Trial
from scripts.tracker.workspace import Workspace

WIDE: dict[str, float | None] = {"cache_invalidations": 0.0, "registers": 255.0, "compile_duration_s": 1.0}
LATER: dict[str, float | None] = {"cache_invalidations": 8.0, "registers": 219.0, "compile_duration_s": 2.0}
ASKED = ["--before", OLD.label, "--after", NEW.label, "--variant", "atomic_add"]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A checkout with two commits measured and recorded."""
    monkeypatch.setattr(prove, "ROOT", tmp_path)
    space = Workspace(tmp_path)
    write_lists(space.results)
    for commit, metrics in ((OLD, WIDE), (NEW, LATER)):
        write_asv(
            space.results, asv_document(commit, {"atomic_add": metrics, "inline_asm": WIDE, "store": WIDE})
        )
        write_record(space.evidence.root, record_document(commit))
    return space


def trials(tools: Side, moved_by: Stage, own: list[str]) -> list[Trial]:
    """What the tools of one side give for every text, if one stage alone sets the metrics."""
    found = []
    for text_of in Side:
        for stage in FED:
            by_text = list(Stage).index(stage) >= list(Stage).index(moved_by)
            side = text_of if by_text else tools
            values = {"cache_invalidations": 8.0 if side is Side.AFTER else 0.0, "registers": 0.0}
            found.append(Trial(text_of, stage, values, own if text_of is tools else ["other"]))
    return found


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["prove", *arguments])
    monkeypatch.setenv("COLUMNS", "120")
    status = run_command(prove.main)
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("guilty", list(Stage))
def test_the_guilty_stage_is_named(
    guilty: Stage, workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {side: trials(side, guilty, ["code 1"]) for side in Side}
    monkeypatch.setattr(prove, "_try_both", lambda *_: both)
    status, out, _ = run(capsys, monkeypatch, *ASKED)
    assert status == 0
    assert f"cache_invalidations 0 -> 8: {guilty} did it" in out
    assert "shown both ways." in out
    assert "By their texts: " in out
    # 15 % fewer registers fire no rule of the policy: what no rule asks about is not asked here.
    assert "registers" not in out


def test_a_finding_is_proved_by_its_id(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = prove.load_history(workspace)
    [found, *_] = prove.judge(history).findings
    monkeypatch.setattr(
        prove, "_try_both", lambda *_: {side: trials(side, Stage.SASS, ["code 1"]) for side in Side}
    )
    status, out, _ = run(capsys, monkeypatch, found.id)
    assert status == 0
    assert "sass did it (ptxas)" in out


def test_what_is_not_proved_is_status_1(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove, "_try_both", lambda *_: {side: [] for side in Side})
    status, out, _ = run(capsys, monkeypatch, *ASKED)
    assert status == 1
    assert "nothing is proved" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["abc"], "no finding 'abc'"),
        ([*ASKED[:-1], "descriptor_add"], "is not measured at 3.1.0"),
        (["--before", "9.9.9", *ASKED[2:]], 'make track RELEASES="9.9.9"'),
        ([*ASKED, "--head-dim", "128"], "is not measured"),
        ([*ASKED, "--target", "cuda:80"], "is not measured"),
        ([*ASKED[:3], OLD.label, *ASKED[4:]], "nothing to prove"),
    ],
)
def test_what_cannot_be_asked_is_one_error_before_any_download(
    arguments: list[str],
    reason: str,
    workspace: Workspace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    status, out, err = run(capsys, monkeypatch, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ")
    assert reason in err


def test_without_a_record_there_is_no_text_to_feed(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in workspace.evidence.root.rglob("*.json"):
        path.unlink()
    status, _, err = run(capsys, monkeypatch, *ASKED)
    assert status == 2
    assert "no record in the evidence store" in err


def test_every_count_is_asked_if_no_rule_fires() -> None:
    sides = {
        side: measured(commit, "atomic_add", {**WIDE, "registers": registers}, found=evidence(commit))
        for side, commit, registers in ((Side.BEFORE, OLD, 255.0), (Side.AFTER, NEW, 254.0))
    }
    assert prove.moved_metrics(sides) == ["registers"]
    sides[Side.AFTER] = replace(sides[Side.AFTER], metrics={**WIDE, "registers": None})
    with pytest.raises(TrackerError, match="nothing to prove"):
        prove.moved_metrics(sides)


def test_the_other_half_that_fails_is_one_error(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the Python has no kernels.substitute to run: as when its environment is broken."""
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    history = prove.load_history(workspace)
    options = prove._parser().parse_args(ASKED)
    with pytest.raises(TrackerError, match=r"could not be fed to Triton 3\.1\.0: .*kernels") as raised:
        prove._feed(python, workspace, prove._of_options(history, options), Side.BEFORE)
    assert "\n" not in str(raised.value)
    plan = json.loads((tmp_path / "env" / "plan.json").read_text())
    assert all(Path(record).exists() for record in plan["records"].values())
    assert plan["tools"] == "before"


def test_the_environment_has_the_pins_of_every_measurement_and_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def pretend(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(throwaway.subprocess, "run", pretend)
    with throwaway.throwaway_environment(tmp_path / "prove") as python:
        assert python == tmp_path / "prove" / "bin" / "python"
        assert (tmp_path / "prove").exists()
    assert not (tmp_path / "prove").exists()
    pins = ran[1][ran[1].index("--disable-pip-version-check") + 1 :]
    assert {pin.split("==")[0] for pin in pins} == set(throwaway._NEEDED)
    assert all(pin.count("==") == 1 for pin in pins)


def test_an_environment_that_cannot_be_made_is_one_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "long\nNo space left on device")
    monkeypatch.setattr(throwaway.subprocess, "run", lambda *_, **__: failed)
    with (
        pytest.raises(TrackerError, match="No space left on device; check the network and the disk"),
        throwaway.throwaway_environment(tmp_path / "prove"),
    ):
        pass
    assert not (tmp_path / "prove").exists()


def test_two_proofs_do_not_share_an_environment(tmp_path: Path) -> None:
    (tmp_path / "prove").mkdir()
    with (
        pytest.raises(TrackerError, match="another run uses it, or one was killed; delete it"),
        throwaway.throwaway_environment(tmp_path / "prove"),
    ):
        pass
    assert (tmp_path / "prove").exists()  # it may be the other's
