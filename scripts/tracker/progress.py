"""Progress of a long run: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Of one release, from the wheel's download to its last metric, when nothing was measured yet.
_FIRST_GUESS_S = 70.0


class RunProgress:
    """What is measured, how many of how many, and how long it will still take."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.total = total
        self._done = 0
        self._spent_s = 0.0

    def remaining(self, elapsed_s: float = 0.0) -> str:
        """How long the rest takes if it goes on like this. ``elapsed_s``: of the step that is going on."""
        mean_s = self._spent_s / self._done if self._done else _FIRST_GUESS_S
        left_s = mean_s * (self.total - self._done - 1) + max(0.0, mean_s - elapsed_s)
        return f"about {max(1, round(left_s / 60))} min left"

    @contextmanager
    def step(self, label: str, records: int) -> Iterator[Callable[[int], None]]:
        """One commit's measurement. ``records``: how many the store will have when it is compiled."""
        started_s = time.monotonic()
        position = f"{self._done + 1} of {self.total}"
        if self.console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            with Progress(*columns, console=self.console, transient=True) as bar:
                task = bar.add_task(f"{label} ({position}, {self.remaining()})", total=records)

                def tick(done: int) -> None:
                    words = f"{label} ({position}, {self.remaining(time.monotonic() - started_s)})"
                    bar.update(task, completed=done, description=words)

                yield tick
        else:
            self.console.print(f"{label} ({position}, {self.remaining()}): measuring", highlight=False)
            yield lambda done: None
        self._done += 1
        self._spent_s += time.monotonic() - started_s
