"""The commands: one thin file each. The library behind them is `scripts.tracker`."""

import sys
from types import TracebackType


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C while a command still imports its libraries, before `run_command`, is no traceback either."""
    if issubclass(kind, KeyboardInterrupt):
        print("\ninterrupted; nothing was begun", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _say
