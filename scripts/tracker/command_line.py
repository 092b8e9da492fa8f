"""How commands explain themselves: their docstring is their help, and the list of them is made of it."""

from __future__ import annotations

import argparse
import ast
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

from scripts.tracker.errors import TrackerError

COMMANDS = Path(__file__).resolve().parent.parent
WIDTH = 80
_EXAMPLE = "    "  # a line of a docstring that is shown as it is
_EXIT = "Exit status"


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(WIDTH, shutil.get_terminal_size().columns))


def command_parser(name: str, docstring: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the command's docstring, in the width of a terminal."""
    description = reflowed(docstring or "")
    return argparse.ArgumentParser(
        prog=f"python -m scripts.{name}", description=description, formatter_class=_Help
    )


def reflowed(docstring: str) -> str:
    """Paragraphs filled anew; examples (indented) as they are; the exit status in a paragraph of its own."""
    blocks: list[list[str]] = [[]]
    for line in docstring.strip().splitlines():
        is_example = line.startswith(_EXAMPLE)
        was_example = bool(blocks[-1]) and blocks[-1][0].startswith(_EXAMPLE)
        if not line.strip() or line.startswith(_EXIT) or is_example != was_example:
            blocks.append([])
        if line.strip():
            blocks[-1].append(line)
    return "\n\n".join(_block(lines) for lines in blocks if lines)


def _block(lines: list[str]) -> str:
    if lines[0].startswith(_EXAMPLE):
        return "\n".join(line.rstrip() for line in lines)
    return textwrap.fill(" ".join(lines), WIDTH, break_long_words=False, break_on_hyphens=False)


def list_commands(folder: Path = COMMANDS) -> Iterator[tuple[str, str]]:
    """(name, what it does) of every command. Raises TrackerError for one that does not say it."""
    for path in sorted(folder.glob("*.py")):
        if path.stem.startswith("_"):
            continue
        try:
            docstring = ast.get_docstring(ast.parse(path.read_bytes()))
        except SyntaxError as error:
            raise TrackerError(f"{path}: {error}; restore it from git") from error
        if not docstring:
            raise TrackerError(f"{path}: has no docstring, so nobody knows what it does; write one")
        yield path.stem, first_sentence(docstring)


def first_sentence(docstring: str) -> str:
    """Up to the first full stop that ends a word, or the end of the paragraph."""
    words = []
    for word in docstring.split("\n\n")[0].split():
        words.append(word)
        if word.endswith("."):
            break
    return " ".join(words).rstrip(".")
