"""A session that is stopped: its workers write what they have, and none outlives it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sessions import fill_store, plan_document

from benchmarks import session
from kernels.plan import TimedCase

ROOT = Path(__file__).resolve().parents[2]
CASES = [TimedCase(64, True, "fp16", n_ctx) for n_ctx in (2048, 4096, 8192)]
GPUS = ["GPU-1", "GPU-2"]


# A worker that takes its time to write what it has.
WORKER = (
    "import pathlib, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
    "here = pathlib.Path({folder!r})\n"
    "try:\n"
    "    (here / 'started').touch()\n"
    "    time.sleep(60)\n"
    "except KeyboardInterrupt:\n"
    "    time.sleep(0.3)\n"
    "    (here / 'written').touch()\n"
    "    sys.exit(130)\n"
)


def wait_for(path: Path) -> None:
    deadline_s = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline_s, path
        time.sleep(0.02)


def started(workers: session.Workers, code: str, ends: list[int]) -> threading.Thread:
    def run() -> None:
        ends.append(workers.run([sys.executable, "-c", code], "GPU-1", 60.0))

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_worker_sees_its_own_gpu_only(tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(os.environ['CUDA_VISIBLE_DEVICES'] != 'GPU-1')"
    assert session.Workers().run([sys.executable, "-c", code], "GPU-1", 60.0) == 0


def test_a_worker_that_does_not_end_is_killed(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import time; time.sleep(60)"
    assert session.Workers().run([sys.executable, "-c", code], "GPU-1", 0.5) == 1
    assert "the worker on GPU-1 did not end within 0 s" in capsys.readouterr().err


def test_a_worker_that_a_signal_ended_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    """The session's status is the greatest of its workers': a negative one would lose to a zero."""
    code = "import os; os.abort()"
    assert session.Workers().run([sys.executable, "-c", code], "GPU-1", 60.0) == 1
    assert "signal 6 ended the worker on GPU-1" in capsys.readouterr().err


def test_workers_that_are_stopped_write_what_they_have(tmp_path: Path) -> None:
    workers, ends = session.Workers(), []
    thread = started(workers, WORKER.format(folder=str(tmp_path)), ends)
    wait_for(tmp_path / "started")
    workers.stop()
    thread.join(30)
    assert ends == [130]
    assert (tmp_path / "written").exists()


def test_no_worker_starts_after_a_stop() -> None:
    """A worker may be lost to a culprit in the very moment of the stop."""
    workers = session.Workers()
    workers.stop()
    assert workers.run([sys.executable, "-c", "raise SystemExit(0)"], "GPU-1", 60.0) == 130


def test_a_worker_that_ignores_the_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_STOP_DEADLINE_S", 0.5)
    code = (
        "import pathlib, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path / 'started')!r}).touch()\n"
        "time.sleep(60)\n"
    )
    workers, ends = session.Workers(), []
    thread = started(workers, code, ends)
    wait_for(tmp_path / "started")
    workers.stop()
    thread.join(30)
    assert ends == [1]


# Runs the real `main` with two modules that need a GPU exchanged.
DRIVER = (
    "import pathlib, sys, time, types\n"
    "here = pathlib.Path({folder!r})\n"
    "telemetry = types.ModuleType('kernels.telemetry')\n"
    "telemetry.visible_gpus = lambda: ['GPU-1']\n"
    "telemetry.Telemetry = lambda gpu: types.SimpleNamespace(describe=lambda: {{'gpu': 'fake'}})\n"
    "interleave = types.ModuleType('kernels.interleave')\n"
    "class CulpritError(RuntimeError):\n"
    "    def __init__(self, key, reason):\n"
    "        super().__init__(reason)\n"
    "        self.key = key\n"
    "class Session:\n"
    "    def __init__(self, plan, excluded):\n"
    "        self.excluded = excluded\n"
    "    def run(self, cases):\n"
    "{run}"
    "interleave.CulpritError, interleave.Session = CulpritError, Session\n"
    "sys.modules |= {{'kernels.telemetry': telemetry, 'kernels.interleave': interleave}}\n"
    "from benchmarks import session\n"
    "sys.executable = {python!r}\n"
    "sys.exit(session.main())\n"
)
SLOW = (
    "        try:\n"
    "            (here / 'started').touch()\n"
    "            time.sleep(60)\n"
    "        finally:\n"
    "            time.sleep(1)\n"
    "            (here / 'written').touch()\n"
)


def driver(tmp_path: Path, run: str, *arguments: str, python: str = sys.executable) -> subprocess.Popen[str]:
    fill_store(tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps(plan_document(tmp_path)))
    code = DRIVER.format(folder=str(tmp_path), run=run, python=python)
    command = [sys.executable, "-c", code, str(tmp_path / "plan.json"), *arguments]
    # Under nohup, or in the background of a shell, the tests would hand on what they themselves ignore.
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_signals)


def _heed_signals() -> None:
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL if ending is not signal.SIGINT else signal.default_int_handler)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_session_stops_its_workers(tmp_path: Path, ending: signal.Signals) -> None:
    worker = tmp_path / "python"
    worker.write_text(f"#!{sys.executable}\n" + WORKER.format(folder=str(tmp_path)))
    worker.chmod(0o755)
    process = driver(tmp_path, "        return []\n", python=str(worker))
    wait_for(tmp_path / "started")
    process.send_signal(ending)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.endswith("session: stopped; the same command goes on from here\n")
    assert (tmp_path / "written").exists()


def test_a_second_signal_does_not_cut_short_what_a_worker_writes(tmp_path: Path) -> None:
    """Ctrl-C reaches a worker from the terminal and then from its supervisor."""
    process = driver(tmp_path, SLOW, "--worker", str(tmp_path / "excluded.json"))
    wait_for(tmp_path / "started")
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert (tmp_path / "written").exists()


def test_a_worker_names_its_culprit_once(tmp_path: Path) -> None:
    state = tmp_path / "excluded.json"
    run = "        raise CulpritError('kernel 1', 'hung')\n"
    process = driver(tmp_path, run, "--worker", str(state))
    assert process.communicate(timeout=30)[1] == "session: kernel 1: hung\n"
    assert process.returncode == 75
    assert json.loads(state.read_text()) == {"kernel 1": "hung"}
    again = driver(tmp_path, run, "--worker", str(state))
    assert again.communicate(timeout=30)[1] == "session: kernel 1 again: hung\n"
    assert again.returncode == 1


@pytest.mark.parametrize(("problems", "status"), [([], 0), (["hd64: no memory", "hd128: no record"], 1)])
def test_a_worker_says_what_went_wrong_with_each_case(
    tmp_path: Path, problems: list[str], status: int
) -> None:
    process = driver(tmp_path, f"        return {problems!r}\n", "--worker", str(tmp_path / "excluded.json"))
    assert process.communicate(timeout=30)[1] == "".join(f"session: {problem}\n" for problem in problems)
    assert process.returncode == status
