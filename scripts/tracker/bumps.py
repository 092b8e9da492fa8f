"""What a moved pin pulls in: the old and the new version of LLVM or of NVIDIA's tools, where they are known.

Whoever moved the pin did not write what came with it, so a bump is named as one.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import msgspec

from scripts.tracker.attribution_rules import Area
from scripts.tracker.history import CommitHistory, LandedCommit

_HASH = re.compile(r"\s*([0-9a-f]{7,40})\s*", re.ASCII)
# Subjects name the new hash, or the version: "Update ptxas to version 12.8.93".
_IN_SUBJECT = re.compile(r"llvm-project(?:/commit/|@)([0-9a-f]{6,40})|\b(\d{2}\.\d+\.\d+)\b", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,40}", re.ASCII)


def pulled_in(area: Area, commit: LandedCommit, history: CommitHistory) -> str:
    """Like "LLVM 86b69c3 .. 1f20eee": only words that were checked, so it may be shown as it is."""
    path = next(file for file in commit.files if any(fnmatchcase(file, p) for p in area.paths))
    pins = history.pins(commit, path)
    if pins is not None and (change := _between(*pins)):
        return f"{area.bump} {change}"
    said = _IN_SUBJECT.search(commit.subject)
    if said:
        return f"{area.bump} to {(said[1] or said[2])[:12]}, says its subject; from what is not known here"
    return f"{area.bump}, from what to what is not known here"


def _between(before: str, after: str) -> str | None:
    old, new = _HASH.fullmatch(before), _HASH.fullmatch(after)
    if old and new:
        return f"{old[1][:12]} .. {new[1][:12]}"
    try:
        was, now = (msgspec.json.decode(text, type=dict[str, str]) for text in (before, after))
    except msgspec.MsgspecError:
        return None
    moved = [
        f"{name} {was.get(name, 'none')} .. {now.get(name, 'none')}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    ]
    words = [word for line in moved for word in line.split() if word != ".."]
    return ", ".join(moved) if moved and all(map(_WORD.fullmatch, words)) else None
