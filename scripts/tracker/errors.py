"""The one error that a command reports as a sentence instead of a traceback."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

EXIT_CANNOT_JUDGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells say it


class TrackerError(Exception):
    """Something that the user can mend. The message names the file (or command) and the remedy."""


def run_command(main: Callable[[], int]) -> int:
    """Run a command's main; the only place that turns errors into messages and exit statuses.

    SIGTERM (a job that is cancelled) counts as an interrupt, so that what was started is stopped too.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return main()
    except TrackerError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CANNOT_JUDGE
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}; nothing already measured is lost", file=sys.stderr)
        return EXIT_CANNOT_JUDGE
    except KeyboardInterrupt:
        print("\ninterrupted; what was measured is kept, run the same command to go on", file=sys.stderr)
        return EXIT_INTERRUPTED
