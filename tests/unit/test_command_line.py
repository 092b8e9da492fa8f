"""Every command explains itself in 80 columns, by examples that it takes; no mistake is a traceback."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.tracker.command_line import WIDTH, first_sentence, list_commands, reflowed
from scripts.tracker.errors import EXIT_NOBODY_READS, TrackerError, run_command

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [name for name, _ in list_commands()]
HASH = "0123456789abcdef" * 2 + "01234567"
# What people get wrong: words, exit status, what is said. In an empty checkout; FILE and FOLDER are there.
MISTAKES: dict[str, list[tuple[str, int, str]]] = {
    "attribute": [
        ("", 2, "no history of Triton's commits"),
        ("--history missing", 2, "missing"),
        ("--history FOLDER", 2, "FOLDER"),
        ("--backtest FOLDER --history FILE", 2, "FILE"),
        ("--write-history FILE", 2, "FILE"),
    ],
    "compare": [
        ("", 2, "--base, --head"),
        ("--base 3.8.0 --head nonsense", 2, "'nonsense' is no release (like 3.2.0), no wheel"),
        ("--base missing.whl --head 3.8.0", 2, "missing.whl: no such wheel"),
        ("--base 3.8.0 --head FOLDER", 2, "FOLDER"),
    ],
    "bisect_range": [
        ("", 2, "name a --finding, or --metric"),
        ("--finding 0 --budget 0", 2, "--budget: at least 1"),
        ("--finding 0123456789ab --no-compile", 2, "error: "),
    ],
    "build_triton": [
        ("--commit HASH --src missing", 2, "--out"),
        ("--commit HASH --src missing --out FILE", 1, "build_triton: "),
    ],
    "check_compile_order": [("--releases 9.9.9", 2, "9.9.9")],
    "check_incoming": [
        ("missing", 2, "no such folder"),
        ("FOLDER --planned FOLDER", 2, "FOLDER"),
        ("FOLDER --planned missing", 2, "missing"),
    ],
    "comment_on_prs": [
        ("--mode aloud", 2, "invalid choice"),
        ("--mode own-issue", 2, "not in the environment"),
    ],
    "confirm": [
        ("", 2, "one of the arguments"),
        ("0123456789ab", 2, "nothing"),
        ("--request missing", 2, "missing"),
        ("--request FOLDER", 2, "FOLDER"),
        ("--request FILE", 2, "FILE"),
    ],
    "flag_regressions": [("", 2, "nothing"), ("--releases 9.9.9", 2, "9.9.9"), ("--format yaml", 2, "yaml")],
    "follow": [("--limit 0", 2, "--limit: at least 1"), ("--source missing", 2, "missing")],
    "merge_results": [("missing", 2, "missing"), ("FILE", 2, "FILE")],
    "noise": [("missing", 2, "missing"), ("FILE", 2, "FILE"), ("FOLDER", 2, "FOLDER")],
    "prove": [("--before 3.1.0", 2, "--after"), ("0123456789ab", 2, "nothing")],
    "publish_asv": [("", 2, "make follow")],
    "record_sessions": [("missing", 2, "missing"), ("FILE", 2, "FILE"), ("FOLDER", 2, "FOLDER")],
    "replay": [("--speed 0", 2, "--speed"), ("--worlds x", 2, "invalid int"), ("--worlds 0", 2, "--worlds")],
    "report": [("more", 2, "unrecognized"), ("", 2, "nothing")],
    "request_confirmations": [("", 2, "--out"), ("--out FILE", 2, "nothing")],
    "select_commits": [
        ("--out next.txt --limit 0", 2, "--limit: at least 1"),
        ("--out next.txt --history missing", 2, "missing"),
        ("--out next.txt", 2, "no history of Triton"),
    ],
    "status": [("--stale-days 0", 2, "--stale-days"), ("", 2, "run make follow first")],
    "tflops": [("", 2, "no commit is timed"), ("--head-dim x", 2, "invalid int")],
    "time_commits": [("--releases 9.9.9", 2, "9.9.9"), ("", 2, "nothing is compiled yet")],
    "track": [("--releases 9.9.9", 2, "9.9.9"), ("--targets ''", 2, "TARGETS is empty")],
    "verify_evidence": [("missing", 2, "missing"), ("FILE", 2, "FILE")],
}


def main_of(command: str) -> Callable[[], int]:
    main: Callable[[], int] = importlib.import_module(f"scripts.{command}").main
    return main


def status_of(command: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """As `python -m` would end, in this process; an error that nobody made a sentence of is raised."""
    monkeypatch.setattr(sys, "argv", [f"scripts/{command}.py", *words])
    try:
        return run_command(main_of(command))
    except SystemExit as end:  # argparse's
        return int(end.code or 0)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which nothing was measured, with a FILE and a FOLDER, and as little environment."""
    for name in ("asv.conf.json", "kernels", "benchmarks/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(ROOT / name)
    for path in (ROOT / "benchmarks").glob("*.py"):
        if not (tmp_path / "benchmarks" / path.name).exists():
            (tmp_path / "benchmarks" / path.name).symlink_to(path)
    (tmp_path / "FILE").write_text("no JSON")
    (tmp_path / "FOLDER").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("ATOMWATCH", "GITHUB")):
            monkeypatch.delenv(name)
    return tmp_path


def test_every_command_is_asked() -> None:
    assert sorted(MISTAKES) == COMMANDS


@pytest.mark.parametrize(
    ("command", "words", "status", "said"),
    [(command, *mistake) for command, mistakes in MISTAKES.items() for mistake in mistakes],
)
def test_a_mistake_is_a_sentence(
    command: str,
    words: str,
    status: int,
    said: str,
    empty: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if hasattr(importlib.import_module(f"scripts.{command}"), "ROOT"):
        monkeypatch.setattr(f"scripts.{command}.ROOT", empty)
    arguments = [word.replace("HASH", HASH) for word in shlex.split(words)]
    assert status_of(command, arguments, monkeypatch) == status
    errors = capsys.readouterr().err
    assert said in errors
    assert len(errors.splitlines()) <= 20  # argparse prints the usage before it


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_option_is_a_sentence_and_2(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(command, ["--no-such-option"], monkeypatch) == 2
    assert "error: " in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_and_has_an_example_and_exit_statuses(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert status_of(command, ["--help"], monkeypatch) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"usage: python -m scripts.{command}")
    assert [line for line in lines if len(line) > WIDTH] == []
    assert examples(command, "\n".join(lines))
    assert any(line.startswith("Exit status: 0") for line in lines)


def examples(command: str, text: str) -> list[list[str]]:
    """The words after the command, of each example that does not go through make."""
    joined = text.replace("\\\n", " ")
    prefix = f"    python -m scripts.{command}"
    lines = [line for line in joined.splitlines() if line.startswith(prefix)]
    return [shlex.split(line.removeprefix(prefix), comments=True) for line in lines]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_takes_its_examples(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class TakenError(Exception):
        pass

    def parse(self: argparse.ArgumentParser) -> argparse.Namespace:
        real(self)
        raise TakenError

    real = argparse.ArgumentParser.parse_args
    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    text = importlib.import_module(f"scripts.{command}").__doc__ or ""
    for words in examples(command, text):
        with pytest.raises(TakenError):
            status_of(command, words, monkeypatch)


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words]
    env = {"COLUMNS": "200", "PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False, env=env, timeout=60
    )


def test_the_list_has_a_line_for_each_command() -> None:
    done = run("scripts")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()[2:]
    assert [line.split()[0] for line in lines] == COMMANDS
    assert {"track", "report", "flag_regressions"} <= set(COMMANDS)
    assert all(len(line.split()) > 2 and len(line) <= WIDTH for line in lines)
    assert "…" not in done.stdout  # each is short enough to be said whole


@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_text_that_a_locale_does_not_know_comes_out_as_utf_8(locale: dict[str, str]) -> None:
    code = "from scripts.tracker.errors import run_command\nrun_command(lambda: print('a \\u2026 b') or 0)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, env=locale, check=True)
    assert done.stdout.decode() == "a … b\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    """As `| head -1` does it. The output is longer than what a pipe holds."""
    code = "from scripts.tracker.errors import run_command\nimport sys\n"
    code += "sys.exit(run_command(lambda: print('long ' * 100_000) or 0))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(5)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == EXIT_NOBODY_READS


def test_a_full_disk_is_a_sentence() -> None:
    code = "from scripts.tracker.errors import run_command\nimport sys\n"
    code += "sys.exit(run_command(lambda: print('a') or 0))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert b"No space left on device" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_ctrl_c_while_libraries_are_imported_is_no_traceback() -> None:
    command = [sys.executable, "-c", "import scripts\nraise KeyboardInterrupt"]
    stopped = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert stopped.stderr == "\ninterrupted; nothing was begun\n"
    assert stopped.returncode != 0


def test_examples_stay_and_words_flow() -> None:
    text = reflowed("Do it.\n\nIt is\nlong.\n    python x   # as it is\nMore.\nExit status: 0\ndone.")
    assert text == "Do it.\n\nIt is long.\n\n    python x   # as it is\n\nMore.\n\nExit status: 0 done."
    assert max(map(len, reflowed("word " * 100).splitlines())) <= WIDTH


def test_the_first_sentence_ends_at_its_full_stop() -> None:
    assert (
        first_sentence("Reads policy.toml of 3.1.0\nand more. Not this.")
        == "Reads policy.toml of 3.1.0 and more"
    )


def test_a_command_that_does_not_say_what_it_does_is_named(tmp_path: Path) -> None:
    (tmp_path / "mute.py").write_text("x = 1\n")
    with pytest.raises(TrackerError, match=r"mute\.py: has no docstring"):
        list(list_commands(tmp_path))
    (tmp_path / "mute.py").write_text("def\n")
    with pytest.raises(TrackerError, match=r"mute\.py: invalid syntax"):
        list(list_commands(tmp_path))
