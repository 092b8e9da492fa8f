"""Answers of `scripts.confirm`, as they lie beside the results. A machine with a GPU wrote them: checked."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from scripts.tracker.confirmation import Confirmation, Effect
from scripts.tracker.errors import TrackerError

_MAX_ANSWER_BYTES = 100_000


def read_answers(folder: Path) -> dict[str, Confirmation]:
    """{finding: answer}. A folder that does not exist holds none. Raises TrackerError for a damaged file."""
    return {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}


def _read(path: Path) -> Confirmation:
    try:
        if path.stat().st_size > _MAX_ANSWER_BYTES:
            raise ValueError("larger than any answer")
        answer = msgspec.json.decode(path.read_bytes(), type=Confirmation)
        if answer.schema != 1:
            raise ValueError(f"schema {answer.schema}, this program reads 1")
        if answer.finding != path.stem:
            raise ValueError(f"it is the answer about {answer.finding}")
        effects = [leg.effect for leg in answer.legs] + ([answer.ratio] if answer.ratio else [])
        if not all(map(_is_sound, effects)):
            raise ValueError("an effect that is no interval around its change")
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise TrackerError(
            f"{path}: not an answer of scripts.confirm ({error}); delete it and confirm the finding again"
        ) from error
    return answer


def _is_sound(effect: Effect) -> bool:
    values = (effect.low, effect.change, effect.high)
    return all(map(math.isfinite, values)) and effect.low <= effect.change <= effect.high
