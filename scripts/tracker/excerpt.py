"""The difference between two sides of dQ's path, short enough to read. Pure."""

from __future__ import annotations

import difflib

_EXCERPT_LINES = 20
_EXCERPT_WIDTH = 240
_LONGEST_REPEAT = 8


def excerpt(before: list[str], after: list[str]) -> str:
    """A unified difference of dQ's path, repeats folded, short enough to read."""
    lines = list(difflib.unified_diff(_folded(before), _folded(after), n=3, lineterm=""))[2:]
    # The numbers of lines are those of folded ones and say nothing: only that something is left out.
    lines = ["…" if line.startswith("@@") else line for line in lines][1:]
    cut = [_cut(line, start) for line, start in zip(lines, _where_they_differ(lines), strict=True)]
    if len(cut) > _EXCERPT_LINES:
        left = len(cut) - _EXCERPT_LINES + 1
        cut = [*cut[: _EXCERPT_LINES - 1], f"… {left} more lines"]
    return "\n".join(cut)


def _where_they_differ(lines: list[str]) -> list[int]:
    """For each line of a difference, where it leaves the line that it stands for; 0 for one that has none."""
    starts = [0] * len(lines)
    position = 0
    while position < len(lines):
        old = _run(lines, position, "-")
        new = _run(lines, old, "+")
        for i, j in zip(range(position, old), range(old, new), strict=False):
            pairs = enumerate(zip(lines[i][1:], lines[j][1:], strict=False), start=1)
            starts[i] = starts[j] = next((at for at, (a, b) in pairs if a != b), 0)
        position = max(new, position + 1)
    return starts


def _run(lines: list[str], start: int, sign: str) -> int:
    end = start
    while end < len(lines) and lines[end].startswith(sign):
        end += 1
    return end


def _cut(line: str, shows: int) -> str:
    """At most so wide, with the place ``shows`` in it: cut before it, both sides would look the same."""
    if len(line) <= _EXCERPT_WIDTH:
        return line
    if shows < _EXCERPT_WIDTH * 3 // 4:
        return line[: _EXCERPT_WIDTH - 2] + " …"
    start = shows - _EXCERPT_WIDTH // 3
    kept = line[start : start + _EXCERPT_WIDTH - 6]
    return f"{line[0]} … {kept}" + (" …" if start + len(kept) < len(line) else "")


def _folded(lines: list[str]) -> list[str]:
    """Repeats of up to a few lines as one: "8 x" before the first, the others below it."""
    folded: list[str] = []
    position = 0
    while position < len(lines):
        length, times = _repeat_at(lines, position)
        group = lines[position : position + length]
        folded += [f"{times} x {group[0]}", *(f"    {line}" for line in group[1:])] if times > 1 else group
        position += length * times
    return folded


def _repeat_at(lines: list[str], position: int) -> tuple[int, int]:
    """The (length, times) of the repeat that starts here and covers most; (1, 1) if none does."""
    best = (1, 1)
    for length in range(1, _LONGEST_REPEAT + 1):
        group = lines[position : position + length]
        times = 1
        while lines[position + times * length : position + (times + 1) * length] == group:
            times += 1
        if times > 1 and length * times > best[0] * best[1]:
            best = (length, times)
    return best
