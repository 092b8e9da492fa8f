"""One run over the changes of followed commits that wait for a GPU: a session each, recorded at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.tracker.change_sessions import (
    Choice,
    pack,
    plan_of_change,
    record_folder_of_change,
    timed_suites,
)
from scripts.tracker.errors import EXIT_INTERRUPTED, TrackerError, printable
from scripts.tracker.harness import Suite
from scripts.tracker.judge import TIMED_TARGET
from scripts.tracker.processes import GPU_LOCK_FILE, only_one, run_gpu_session
from scripts.tracker.timing_backlog import Change, in_numbers, read_backlog
from scripts.tracker.timing_run import Effort
from scripts.tracker.workspace import Workspace

# One commit's kernels may fail; the next ones' as well means that the machine does.
_MAX_IN_A_ROW = 3
_STOPPED = (
    f"stopped after {_MAX_IN_A_ROW} sessions in a row without a result, the reasons are above: mend it and "
    "run the same command again"
)


@dataclass(frozen=True, slots=True)
class ChangeTimer:
    """``effort``: its budget is for all sessions of a run together. ``fresh``: time again, also what has its
    time. ``say``: prints a line."""

    workspace: Workspace
    choice: Choice
    effort: Effort
    fresh: bool
    say: Callable[[str], None]

    def write_plans(self, folder: Path, limit: int | None) -> int:
        """For a machine that has a GPU and no more than a checkout; each plan has the whole budget."""
        todo = self._todo(timed_suites(self.workspace.root), limit)
        plans = [
            plan_of_change(self.workspace, change, self.choice, self.effort, self.fresh) for change in todo
        ]
        for path in pack(self.workspace, plans, folder):
            self.say(str(path))
        return 0

    def run(self, python: Path, options: list[str], limit: int | None) -> int:
        """Time and record, newest first, until nothing waits, ``limit`` or the budget is reached; the exit
        status. Raises TrackerError where going on makes no sense."""
        with only_one(self.workspace, GPU_LOCK_FILE) as lock:
            suites = timed_suites(self.workspace.root)
            todo = self._todo(suites, limit)
            ends_s = time.monotonic() + self.effort.budget_s
            failed = in_a_row = 0
            for number, change in enumerate(todo):
                left_s = ends_s - time.monotonic()
                if left_s <= 0:
                    self.say(f"the budget is spent: {len(todo) - number} changes wait for the next run")
                    return 1
                self.say(f"[{number + 1}/{len(todo)}] {change.after.label} beside {change.before.label}")
                effort = replace(self.effort, budget_s=left_s)
                plan = plan_of_change(self.workspace, change, self.choice, effort, self.fresh)
                status = run_gpu_session(self.workspace.root, python, plan, options, lock)
                if status == EXIT_INTERRUPTED:
                    return status
                if status == 0 and self._record(Path(plan["out"]), suites):
                    in_a_row = 0
                    continue
                failed, in_a_row = failed + 1, in_a_row + 1
                if in_a_row == _MAX_IN_A_ROW:
                    raise TrackerError(_STOPPED)
            return int(failed > 0)

    def _record(self, folder: Path, suites: list[Suite]) -> bool:
        """A session that cannot be recorded must not keep the next ones from being timed."""
        try:
            self.say(record_folder_of_change(self.workspace, folder, suites))
        except TrackerError as error:
            print(f"error: {printable(str(error))}", file=sys.stderr)
            return False
        return True

    def _todo(self, suites: list[Suite], limit: int | None) -> list[Change]:
        backlog, errors = read_backlog(self.workspace, TIMED_TARGET, suites[0].version, self.choice.cases())
        for error in errors:  # the session behind a damaged result is still there, and is recorded again
            print(f"warning: {printable(str(error))}", file=sys.stderr)
        self.say(in_numbers(backlog))
        return list(backlog.changes if self.fresh else backlog.waiting)[:limit]
