"""`python -m scripts.bisect_range`: what is asked, of which commits, and what is said at the end."""

import sys
from pathlib import Path

import pytest
from builders import (
    COMMITS,
    FACTS,
    SUITE,
    asv_document,
    record_document,
    write_asv,
    write_lists,
    write_object,
    write_record,
)

import scripts.bisect_range
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, run_command
from scripts.tracker.harness import AsvHarness
from scripts.tracker.judge import judge
from scripts.tracker.measured import load_history
from scripts.tracker.model import Commit
from scripts.tracker.results import BuildFailure
from scripts.tracker.workspace import Workspace

LABELS = [commit.label for commit in COMMITS]  # 3.1.0 to 3.4.0


class FakeHarness(AsvHarness):
    """Compiles by looking the value up."""

    values: dict[str, float | str] = {}  # noqa: RUF012 - set by each test
    compiled: list[str] = []  # noqa: RUF012 - set by each test

    def __init__(
        self, workspace: Workspace, repository: Path, target: str, lock: int, build_s: float = 0.0
    ) -> None:
        self.workspace, self.target, self.suite = workspace, target, SUITE
        self.machine = "codegen-cuda-90"

    def measure(self, commit: Commit, on_tick: object) -> BuildFailure | None:
        type(self).compiled.append(commit.label)
        value = type(self).values[commit.label]
        if isinstance(value, str):
            return BuildFailure(value, transient=False)
        store(self.workspace, commit, value)
        return None


def store(workspace: Workspace, commit: Commit, value: float) -> None:
    """What asv and the measuring half leave behind."""
    write_asv(workspace.results, asv_document(commit, {"atomic_add": {"dq_writes": value, "registers": 9.0}}))
    root = workspace.evidence.root
    write_record(root, record_document(commit, objects={"ptx": write_object(root, b"text")}))


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """3.1.0 and 3.4.0 are measured: 8 and 32 writes."""
    monkeypatch.setattr(scripts.bisect_range, "ROOT", tmp_path)
    monkeypatch.setattr(scripts.bisect_range, "AsvHarness", FakeHarness)
    monkeypatch.setattr(FakeHarness, "values", dict(zip(LABELS, (8.0, 8.0, 32.0, 32.0), strict=True)))
    monkeypatch.setattr(FakeHarness, "compiled", [])
    workspace = Workspace(tmp_path)
    write_lists(workspace.results)
    for commit in (COMMITS[0], COMMITS[3]):
        store(workspace, commit, float(FakeHarness.values[commit.label]))
    return workspace


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["bisect_range", *arguments])
    return run_command(scripts.bisect_range.main)


RANGE = ("--metric", "dq_writes", "--since", "3.1.0", "--until", "3.4.0")


def test_the_culprit_and_its_parent_are_compiled_from_scratch(workspace, monkeypatch, capsys) -> None:
    left = workspace.cache / "bisect-left-by-a-killed-run"
    (left / "0").mkdir(parents=True)
    assert run(monkeypatch, *RANGE) == 0
    shown = capsys.readouterr().out
    assert "culprit: 3.2.0 is the last with the old value, 3.3.0 the first without" in shown
    assert FakeHarness.compiled[-3:] == ["3.2.0", "3.3.0", "3.2.0"]
    assert not list(workspace.cache.glob("bisect-*"))


def test_a_release_that_cannot_be_built_is_not_blamed(workspace, monkeypatch, capsys) -> None:
    FakeHarness.values["3.3.0"] = "no wheel"
    assert run(monkeypatch, *RANGE) == 0
    shown = capsys.readouterr().out
    assert "range: 3.2.0 is the last with the old value, 3.4.0 the first without" in shown
    assert "between them, not told apart: 3.3.0" in shown
    assert "3.3.0: cannot be measured: no wheel" in shown


def test_without_compiling_an_honest_range(workspace, monkeypatch, capsys) -> None:
    assert run(monkeypatch, *RANGE, "--no-compile") == 0
    assert "between them, not told apart: 3.2.0, 3.3.0" in capsys.readouterr().out
    assert FakeHarness.compiled == []


def test_an_end_without_the_change_is_not_reproduced(workspace, monkeypatch, capsys) -> None:
    store(workspace, COMMITS[3], 8.0)
    assert run(monkeypatch, *RANGE) == 1
    assert "not reproduced" in capsys.readouterr().out


def test_several_changes_are_said(workspace, monkeypatch, capsys) -> None:
    FakeHarness.values["3.3.0"] = 16.0
    assert run(monkeypatch, *RANGE) == 0
    assert "more than one change: dq_writes 32, then dq_writes 16 were seen" in capsys.readouterr().out


def test_a_finding_names_range_variant_and_metric(workspace, monkeypatch, capsys) -> None:
    for commit, width in ((COMMITS[0], 4.0), (COMMITS[3], 1.0)):
        table = {v: {"dq_vector_width": width if v == "atomic_add" else 1.0} for v in FACTS}
        write_asv(workspace.results, asv_document(commit, table))
    finding = judge(load_history(workspace)).findings[0]
    # The stand-in's suite has other metrics, so that nothing of it counts as measured.
    assert run(monkeypatch, "--finding", finding.id) == EXIT_CANNOT_JUDGE
    assert "atomic_add at 3.1.0 has no dq_vector_width" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--finding", "nonsense"), "no finding nonsense"),
        (("--metric", "dq_writes", "--since", "3.1.0", "--until", "9.9.9"), "9.9.9 is not among the known"),
        (("--metric", "dq_writes", "--since", "3.4.0", "--until", "3.1.0"), "swap them"),
        (("--metric", "dq_writes", "--since", "3.1.0", "--until", "3.1.0"), "swap them"),
        (("--metric", "nonsense", "--since", "3.1.0", "--until", "3.4.0"), "has no nonsense"),
        ((*RANGE, "--head-dim", "7"), "measure it first"),
        ((*RANGE, "--variant", "nobody"), "nobody at 3.1.0"),
        (("--metric", "dq_writes", "--since", "3.2.0", "--until", "3.4.0"), "measure it first"),
    ],
)
def test_what_is_not_there_is_said(workspace, monkeypatch, capsys, arguments, words: str) -> None:
    assert run(monkeypatch, *arguments) == EXIT_CANNOT_JUDGE
    assert words in capsys.readouterr().err
    assert FakeHarness.compiled == []


@pytest.mark.parametrize("arguments", [(), ("--metric", "x"), (*RANGE, "--budget", "0")])
def test_half_a_question_is_refused(workspace, monkeypatch, capsys, arguments) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, *arguments)


def test_no_script_shadows_a_module_of_python() -> None:
    """asv runs build_triton.py as a script: its folder stands first where Python looks for modules."""
    scripts_folder = Path(scripts.bisect_range.__file__).parent
    assert not {p.stem for p in scripts_folder.iterdir()} & set(sys.stdlib_module_names)
