"""The commands: one thin file each. The library behind them is `scripts.tracker`."""

import os
import sys
from types import TracebackType

_OURS = ("scripts", "kernels", "benchmarks")


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What ends a command while it still imports its libraries, before `run_command`, is no traceback either:
    Ctrl-C, and a Python that does not have them."""
    if isinstance(error, KeyboardInterrupt):
        print("\ninterrupted; nothing was begun", file=sys.stderr)
    elif isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] not in _OURS:
        print(
            f"error: {sys.executable} has no {error.name}: make .venv/ready makes a Python that has;\n"
            "then .venv/bin/python -m scripts.COMMAND",
            file=sys.stderr,
        )
        sys.stderr.flush()
        os._exit(2)  # as "could not judge": else Python ends with 1, which says findings
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _say
