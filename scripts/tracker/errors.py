"""The one error that a command reports as a sentence instead of a traceback."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable
from typing import TextIO

EXIT_CANNOT_JUDGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells say it
EXIT_NOBODY_READS = 141  # 128 + SIGPIPE: of `... | head`


def printable(text: str) -> str:
    """Text of other machines for the terminal: no escape sequence, no character that turns the line round."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text)


class TrackerError(Exception):
    """Something that the user can mend. The message names the file (or command) and the remedy."""


def run_command(main: Callable[[], int]) -> int:
    """Run a command's main; the only place that turns errors into messages and exit statuses.

    SIGTERM and SIGHUP (a cancelled job, a closed terminal) count as an interrupt: what was started is
    stopped too.
    """
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)
    _speak_anywhere(sys.stdout)
    _speak_anywhere(sys.stderr)
    status = _run(main)
    try:
        sys.stdout.flush()  # here and not at Python's end, where a full disk would be a traceback
    except BrokenPipeError:
        status = EXIT_NOBODY_READS
    except OSError as error:
        print(f"error: standard output: {error.strerror}; send it elsewhere", file=sys.stderr)
        status = EXIT_CANNOT_JUDGE
    else:
        return status
    # What is left in the buffer has no place to go, and Python would try again at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _speak_anywhere(stream: TextIO) -> None:
    """No character ends a command because a locale does not know it. Files and pipes are read by programs,
    so they get UTF-8; a terminal gets what it can show, and escapes for the rest."""
    if stream.encoding.lower().replace("-", "") != "utf8" and hasattr(stream, "reconfigure"):
        if stream.isatty():
            stream.reconfigure(errors="backslashreplace")
        else:
            stream.reconfigure(encoding="utf-8")


def _run(main: Callable[[], int]) -> int:
    try:
        return main()
    except TrackerError as error:
        _say(f"error: {printable(str(error))}")
        return EXIT_CANNOT_JUDGE
    except BrokenPipeError:
        return EXIT_NOBODY_READS
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"error: {where}{error.strerror or error}; nothing already measured is lost")
        return EXIT_CANNOT_JUDGE
    except (MemoryError, RecursionError, UnicodeError, OverflowError) as error:
        # What no reader of a file foresaw: a hostile or huge one.
        _say(f"error: a file holds what cannot be read: {type(error).__name__}: {error}")
        return EXIT_CANNOT_JUDGE
    except KeyboardInterrupt:
        _say("\ninterrupted; what was measured is kept, run the same command to go on")
        return EXIT_INTERRUPTED


def _say(text: str) -> None:
    """Filled to a terminal's width; one line in a log, where it is searched for. A path is never cut."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        lines = [
            textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
            for line in text.split("\n")
        ]
        text = "\n".join(lines)
    print(text, file=sys.stderr)
