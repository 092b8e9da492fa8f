"""asv is driven one commit a call, and only whole results of the right commit are published.

The real asv is not started: a workspace has a package `asv` of its own, which does what a test says.
"""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import (
    HD64,
    NEW,
    OLD,
    SUITE,
    TABLE,
    TARGET,
    asv_document,
    record_document,
    write_asv,
    write_record,
)

from scripts.tracker import harness
from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import AsvHarness
from scripts.tracker.model import Commit
from scripts.tracker.results import BuildFailure
from scripts.tracker.workspace import Workspace

REAL = Path(__file__).resolve().parents[2] / "asv.conf.json"

STAND_IN = """
import json, os, pathlib, signal, subprocess, sys, time
root = pathlib.Path.cwd()
arguments = sys.argv[1:]
config = json.loads(pathlib.Path(arguments[arguments.index("--config") + 1]).read_text())
staging = pathlib.Path(config["results_dir"])
report = pathlib.Path(os.environ["ATOMWATCH_BUILD_REPORT"])
def copy_prepared():
    subprocess.run(["cp", "-r", f"{root}/prepared/.", staging], check=True)
"""


class Runner:
    """A workspace with a stand-in for asv and for the suite."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root)
        (root / "asv").mkdir()
        (root / "asv" / "__init__.py").touch()
        (root / "benchmarks").mkdir()
        (root / "benchmarks" / "__init__.py").touch()
        suite = msgspec.json.encode(SUITE).decode()
        (root / "benchmarks" / "codegen.py").write_text(f"print({suite!r})\n")
        shutil.copy(REAL, root / "asv.conf.json")
        # A measured result has its record in the evidence store.
        write_record(self.workspace.evidence.root, record_document())
        self.lock = os.open(root / "lock", os.O_CREAT | os.O_RDWR)
        self.harness = AsvHarness(self.workspace, root / "releases.git", TARGET, self.lock)

    def asv_will(self, body: str) -> None:
        (self.workspace.root / "asv" / "__main__.py").write_text(STAND_IN + body)

    def asv_will_write(self, document: dict[str, Any], name: str | None = None) -> None:
        prepared = self.workspace.root / "prepared"
        path = write_asv(prepared, document)
        if name:
            path.rename(path.with_name(name))
        (path.parent / "machine.json").write_text('{"machine": "codegen-cuda-90"}')
        (prepared / "benchmarks.json").write_text('{"version": 2}')
        self.asv_will("copy_prepared()")

    def measure(self) -> BuildFailure | None:
        return self.harness.measure(OLD, lambda records: None)

    @property
    def published(self) -> list[str]:
        files = self.workspace.results.rglob("*.*")
        return sorted(str(path.relative_to(self.workspace.results)) for path in files)


@pytest.fixture
def runner(tmp_path: Path, machines: Path) -> Runner:
    return Runner(tmp_path)


def test_a_whole_result_is_published(runner: Runner, machines: Path) -> None:
    runner.asv_will_write(asv_document(OLD, TABLE))
    assert not runner.harness.is_done(OLD.commit)
    assert runner.measure() is None
    assert runner.published == [
        "benchmarks.json",
        "codegen-cuda-90/00000001-virtualenv-py3.11.json",
        "codegen-cuda-90/machine.json",
    ]
    assert runner.harness.is_done(OLD.commit)
    assert not runner.harness.is_done(NEW.commit)
    assert "codegen-cuda-90" in json.loads(machines.read_text())


def test_asv_gets_what_it_needs_and_nothing_of_the_callers_git(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    runner.asv_will("(root / 'seen.json').write_text(json.dumps([arguments, dict(os.environ)]))")
    with pytest.raises(TrackerError, match="asv wrote no result"):
        runner.measure()
    arguments, environment = json.loads((runner.workspace.root / "seen.json").read_text())
    assert arguments[:2] == ["run", f"{OLD.commit}^!"]
    assert arguments[arguments.index("--machine") + 1] == "codegen-cuda-90"
    assert environment["ATOMWATCH_TARGET"] == TARGET
    assert environment["ATOMWATCH_EVIDENCE"] == str(runner.workspace.evidence.root)
    # Inside a git hook it names another repository, and asv checks commits out.
    assert "GIT_DIR" not in environment


def test_the_reason_of_a_failed_build_is_handed_on(runner: Runner) -> None:
    runner.asv_will('report.write_text(\'{"reason": "no wheel", "transient": false}\'); sys.exit(2)')
    assert runner.measure() == BuildFailure("no wheel", False)
    assert runner.published == []
    # The report of one commit is not the reason of the next.
    runner.asv_will_write(asv_document(OLD, TABLE))
    assert runner.measure() is None


@pytest.mark.parametrize(
    "document",
    [
        asv_document(OLD, {"atomic_add": {"dq_writes": None, "registers": None}}),
        asv_document(OLD, {"atomic_add": {"dq_writes": 8.0}}),
        asv_document(OLD, TABLE, version="fingerprint-0"),
    ],
    ids=["failed", "a benchmark missing", "other sources"],
)
def test_an_incomplete_result_does_not_replace_a_good_one(runner: Runner, document: dict[str, Any]) -> None:
    good = write_asv(runner.workspace.results, asv_document(OLD, TABLE)).read_bytes()
    runner.asv_will_write(document)
    with (runner.workspace.root / "asv" / "__main__.py").open("a") as file:
        file.write("\nprint('RuntimeError: out of memory')\nprint('done')\n")
    failure = runner.measure()
    assert failure is not None
    assert failure.transient
    assert failure.reason.startswith("RuntimeError: out of memory; see ")
    [left] = (runner.workspace.results / "codegen-cuda-90").iterdir()
    assert left.read_bytes() == good


def test_a_result_of_a_commit_that_shares_eight_digits_is_not_taken(runner: Runner) -> None:
    twin = Commit(OLD.commit[:8] + "f" * 32, "twin")
    write_asv(runner.workspace.results, asv_document(twin, TABLE))
    assert runner.harness.existing(twin.commit) is not None
    assert runner.harness.existing(OLD.commit) is None
    shutil.rmtree(runner.workspace.results)
    runner.asv_will_write(asv_document(twin, TABLE))
    assert runner.measure() is not None
    assert runner.published == []


def test_asv_that_writes_nothing_says_where_to_look(runner: Runner) -> None:
    runner.asv_will("print('ValueError: no such commit'); sys.exit(3)")
    with pytest.raises(TrackerError, match=r"exit status 3.*no such commit; see .*\.log"):
        runner.measure()


def test_a_result_left_from_an_earlier_run_is_not_taken(runner: Runner) -> None:
    write_asv(runner.workspace.staging, asv_document(OLD, TABLE))
    runner.asv_will("pass")
    with pytest.raises(TrackerError, match="asv wrote no result"):
        runner.measure()


def test_a_damaged_published_file_is_set_aside(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_asv(runner.workspace.results, asv_document(OLD, TABLE))
    path.write_text(path.read_text()[:50])
    assert runner.harness.existing(OLD.commit) is None
    assert not path.exists()
    assert path.with_suffix(".damaged").exists()
    assert "measured again" in capsys.readouterr().err


def test_a_suite_that_cannot_be_described(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "benchmarks" / "codegen.py").write_text("raise ValueError('ATOMWATCH_TARGET: choose one')")
    with pytest.raises(TrackerError, match="choose one"):
        AsvHarness(runner.workspace, tmp_path / "releases.git", TARGET, runner.lock)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


FAMILY = """
sleeper = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
# As asv does with a benchmark: in a process group of its own, out of the reach of a signal to ours.
child = subprocess.Popen([sys.executable, "-c", sleeper], process_group=0)
(root / "pids.tmp").write_text(f"{os.getpid()} {child.pid}")
(root / "pids.tmp").rename(root / "pids")
"""


@pytest.mark.parametrize("parent", ["time.sleep(60)", "sys.exit(0)"], ids=["interrupted", "asv ended"])
def test_nothing_that_asv_started_outlives_it(runner: Runner, parent: str) -> None:
    runner.asv_will(FAMILY + parent)

    def interrupt_when_started(_: int) -> None:
        if (runner.workspace.root / "pids").exists():
            raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, TrackerError)):
        runner.harness.measure(OLD, interrupt_when_started)
    pids = [int(word) for word in (runner.workspace.root / "pids").read_text().split()]
    ends_s = time.monotonic() + 5  # a killed process is gone when the kernel gets to it
    while any(map(alive, pids)) and time.monotonic() < ends_s:
        time.sleep(0.02)
    assert [pid for pid in pids if alive(pid)] == []
    assert alive(os.getpid())


def test_asv_that_hangs_is_stopped(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "COMMIT_DEADLINE_S", 0)
    runner.asv_will("time.sleep(60)")
    started_s = time.monotonic()
    with pytest.raises(TrackerError, match="did not end within"):
        runner.measure()
    assert time.monotonic() - started_s < 15


def test_progress_is_the_number_of_records(runner: Runner) -> None:
    write_record(runner.workspace.evidence.root, record_document())
    assert HD64.slug in str(next(runner.workspace.evidence.root.rglob("*.json")))
    runner.asv_will("time.sleep(1.3)")
    seen: list[int] = []
    with pytest.raises(TrackerError):
        runner.harness.measure(OLD, seen.append)
    assert seen == [1]


def test_asv_keeps_the_lock_of_a_driver_that_was_killed(runner: Runner) -> None:
    """Another make track must not start beside an asv that nobody watches any more."""
    runner.asv_will(f"print('has the lock:', os.fstat({runner.lock}).st_ino)")
    with pytest.raises(TrackerError, match="has the lock: "):
        runner.measure()
    with pytest.raises(TrackerError, match=str(os.fstat(runner.lock).st_ino)):
        runner.measure()


def test_a_folder_with_a_space_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="with a space"):
        AsvHarness(Workspace(tmp_path / "a b"), tmp_path / "releases.git", TARGET, 0)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("OSError: [Errno 28] No space left on device\\nlater: error: git failed", "the disk is full"),
        ("NewConnectionError('...')\\nError: pip failed", "not reachable"),
    ],
)
def test_the_cause_is_told_and_not_its_consequence(runner: Runner, says: str, words: str) -> None:
    runner.asv_will(f"print({says!r}.replace('\\\\n', chr(10)))")
    with pytest.raises(TrackerError, match=words):
        runner.measure()
