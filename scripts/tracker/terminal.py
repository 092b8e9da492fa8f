"""What commands print on. Everything that a user reads goes through it."""

from __future__ import annotations

from rich.console import Console


def terminal(stderr: bool = False) -> Console:
    """In the width of the terminal, plain in a log; "cuda:100:" stays what it is and becomes no picture."""
    return Console(stderr=stderr, emoji=False)
