"""Runs a build with a deadline and a log; nothing that it started outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# asv ends a command that is silent for too long; a compiler may well be.
_SIGN_OF_LIFE_S = 60.0
_POLL_S = 0.2


class DeadlineError(Exception):
    """It did not end in time, and was stopped."""


def run_logged(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path, deadline_s: float
) -> int:
    """Run a command with its output in ``log``; its exit status. Raises DeadlineError.

    Its processes are a group of their own, but of our session: whoever stops asv's session stops them too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started_s = said_s = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - pip of this very Python
            command, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, process_group=0,
        )  # fmt: skip
        try:
            while True:
                try:
                    return process.wait(_POLL_S)
                except subprocess.TimeoutExpired:
                    now_s = time.monotonic()
                if now_s - started_s > deadline_s:
                    raise DeadlineError
                if now_s - said_s > _SIGN_OF_LIFE_S:
                    said_s = now_s
                    print(f"build_triton: building for {now_s - started_s:.0f} s; see {log}", flush=True)
        finally:
            # Compilers outlive a killed pip.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
