"""Errors end as one line and a status; a traceback is for bugs alone."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.tracker.errors import TrackerError, run_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """A command sets how its process ends; this process goes on."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def run(error: BaseException) -> int:
    def main() -> int:
        raise error

    return run_command(main)


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_commands_own_status_is_kept(status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(lambda: status) == status
    assert capsys.readouterr() == ("", "")


def test_what_the_user_can_mend_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TrackerError("x.json: cut short; delete it")) == 2
    assert capsys.readouterr() == ("", "error: x.json: cut short; delete it\n")


def test_a_terminal_gets_it_in_its_width_and_no_path_is_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    path = "/a/folder-with-a-long-name/and-another/that-fills-the-line/x.json"
    assert run(TrackerError(f"{path}: cut short; delete it and run the same command again")) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error:", f"{path}:", "cut short; delete it and run the same", "command again"
    ]  # fmt: skip


def test_a_python_without_our_libraries_is_told_where_they_are(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "scripts.compare"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "make .venv/ready" in done.stderr
    assert "Traceback" not in done.stderr


def test_text_of_other_machines_does_not_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TrackerError("\x1b]0;title\x07label \u202egpj.exe\nsecond line")) == 2
    assert capsys.readouterr().err == "error: ?]0;title?label ?gpj.exe\nsecond line\n"


def test_an_error_of_the_system_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing.toml"
    assert run_command(lambda: len(missing.read_bytes())) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {missing}: No such file")
    assert err.count("\n") == 1


def test_an_error_of_the_system_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(OSError(errno.ENOSPC, "No space left on device")) == 2
    assert capsys.readouterr().err.startswith(
        "error: No space left on device; nothing already measured is lost"
    )
    assert run(OSError("odd")) == 2
    assert "error: odd" in capsys.readouterr().err


def test_an_interrupt_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(KeyboardInterrupt()) == 130
    assert "run the same command to go on" in capsys.readouterr().err


def test_a_cancelled_job_ends_as_an_interrupted_one(capsys: pytest.CaptureFixture[str]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that a failure does not end the tests
    assert run_command(lambda: os.kill(os.getpid(), signal.SIGTERM) or 0) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_bug_stays_a_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run(ZeroDivisionError())
