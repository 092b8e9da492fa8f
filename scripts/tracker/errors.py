"""The one error that a command reports as a sentence instead of a traceback."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

EXIT_CANNOT_JUDGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells say it


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
    try:
        return main()
    except TrackerError as error:
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return EXIT_CANNOT_JUDGE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}; nothing already measured is lost", file=sys.stderr)
        return EXIT_CANNOT_JUDGE
    except (MemoryError, RecursionError, UnicodeError, OverflowError) as error:
        # What no reader of a file foresaw: a hostile or huge one.
        print(f"error: a file holds what cannot be read: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_CANNOT_JUDGE
    except KeyboardInterrupt:
        print("\ninterrupted; what was measured is kept, run the same command to go on", file=sys.stderr)
        return EXIT_INTERRUPTED
