"""attribution.toml as types: which files can touch which stage, and which words speak of which change."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Stage

RULES_FILE = Path(__file__).resolve().parent.parent / "attribution.toml"
Weight = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Factor = Annotated[float, msgspec.Meta(ge=0.0, le=10.0)]


class Area(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files that do the same job in the compiler. Fields: see attribution.toml."""

    name: str
    paths: tuple[str, ...]
    first_seen: dict[Stage, Weight]
    reason: str
    backend: str | None = None
    bump: str | None = None
    bump_words: tuple[str, ...] = ()

    def weight(self, stage: Stage | None, target: str) -> float:
        """How well a change here explains that ``stage`` is the first to differ; None: it is not known
        which, so the best of all stages."""
        if self.backend is not None and self.backend != target.partition(":")[0]:
            return 0.0
        if stage is None:
            return max(self.first_seen.values(), default=0.0)
        return self.first_seen.get(stage, 0.0)


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a change of some metrics is about."""

    name: str
    metrics: tuple[str, ...]
    words: tuple[str, ...]
    files: tuple[str, ...]
    factor: Factor
    file_factor: Factor
    reason: str

    def weight(self, subject: str, files: tuple[str, ...]) -> float:
        """1 if a commit is not about this."""
        if spoken_of(self.words, subject):
            return self.factor
        if any(fnmatchcase(path, pattern) for path in files for pattern in self.files):
            return self.file_factor
        return 1.0


class Elsewhere(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Subjects that speak of something that the target does not have or do."""

    name: str
    target: str
    words: tuple[str, ...]
    factor: Factor
    reason: str


class AttributionRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of attribution.toml. ``area``: the first one that has a pattern for a file is the file's."""

    max_suspects: Annotated[int, msgspec.Meta(ge=1, le=100)]
    beside_a_bump: Weight
    undone: Weight
    area: Annotated[tuple[Area, ...], msgspec.Meta(min_length=1)]
    topic: tuple[Topic, ...]
    elsewhere: tuple[Elsewhere, ...]

    def area_of(self, path: str) -> Area | None:
        """The area of a file; None if no pattern has it."""
        return next((a for a in self.area if any(fnmatchcase(path, p) for p in a.paths)), None)


@lru_cache(maxsize=1024)
def _compiled(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{word})" for word in words), re.IGNORECASE)


def spoken_of(words: tuple[str, ...], text: str) -> str | None:
    """The first of the words that a text has, as it stands there."""
    found = _compiled(words).search(text) if words else None
    return found[0] if found else None


def read_rules(path: Path = RULES_FILE) -> AttributionRules:
    """Raises TrackerError naming the file and the key."""
    try:
        rules = msgspec.toml.decode(path.read_bytes(), type=AttributionRules)
        words = [t.words for t in rules.topic] + [e.words for e in rules.elsewhere]
        for listed in words + [area.bump_words for area in rules.area]:
            _compiled(listed)
        return rules
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, re.error) as error:
        raise TrackerError(f"{path}: {error}; restore it from git or mend the entry") from error
