"""Where Triton's commits are looked up: a clone or a history file in the cache, or one that is named."""

from __future__ import annotations

from pathlib import Path

from scripts.tracker.clone import clone_at
from scripts.tracker.history import CommitHistory, read_history_file

CLONE = "triton.git"
HISTORY_FILE = "triton-history.jsonl.gz"


def open_history(path: Path) -> CommitHistory:
    """A clone (a folder) or a history file. Raises TrackerError naming it."""
    return clone_at(path) if path.is_dir() else read_history_file(path)


def find_history(cache: Path) -> CommitHistory | None:
    """The clone if there is one, else the history file; None without either."""
    for path in (cache / CLONE, cache / HISTORY_FILE):
        if path.exists():
            return open_history(path)
    return None
