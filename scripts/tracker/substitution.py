"""Proof by substitution: one side's text of a stage through the other side's later tools.

If a metric follows the tools although the text is the other side's, what made the text is innocent; if it
follows the text, so is every later tool. The stage between the last that does the one and the first that
does the other is guilty. A text that the tools refuse proves nothing about its stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Stage

# What can be fed. SASS is what comes out: that ptxas makes it from the PTX is the last step.
FED = (Stage.TTIR, Stage.TTGIR, Stage.LLIR, Stage.PTX)
# The step that makes each stage.
_STEPS = {
    Stage.TTIR: "the front end",
    Stage.TTGIR: "the passes from TTIR to TTGIR",
    Stage.LLIR: "the lowering from TTGIR to LLVM IR",
    Stage.PTX: "LLVM, from its IR to PTX",
    Stage.SASS: "ptxas",
}
# A count of the whole kernel seldom lands on one side's number exactly: it belongs to a side if it is at
# least three times nearer to it than to the other.
_NEAR_SHARE = 0.25


class Side(StrEnum):
    BEFORE = "before"
    AFTER = "after"

    @property
    def other(self) -> Side:
        return Side.AFTER if self is Side.BEFORE else Side.BEFORE


class Trial(msgspec.Struct, frozen=True):
    """A stage's text of ``text_of`` through one side's later tools; ``refused``: why they do not take it."""

    text_of: Side
    stage: Stage
    metrics: dict[str, float | None] = {}
    identity: list[str] = []
    refused: str | None = None


class Follows(StrEnum):
    """Whose value a metric has when text and tools are of different sides."""

    TOOLS = "the tools"
    TEXT = "the text"
    NEITHER = "neither"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Swap:
    """The other side's text of a stage in ``tools``: the metric's value, and what it follows.

    ``same_code``: the machine code is all that of the text's side, so every later tool is innocent of
    everything.
    """

    tools: Side
    stage: Stage
    follows: Follows
    value: float | None = None
    reason: str = ""
    same_code: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """What the swaps say about one metric. ``guilty``: the stages that may have done it, in order; one is a
    proof, several a range that could not be closed; none, if more than one stage has a part in it."""

    metric: str
    before: float
    after: float
    swaps: tuple[Swap, ...]
    guilty: tuple[Stage, ...]

    def explain(self) -> str:
        moved = f"{self.metric} {self.before:g} -> {self.after:g}"
        ways = {swap.tools for swap in self.swaps if swap.follows in {Follows.TOOLS, Follows.TEXT}}
        if not ways and all(swap.follows is Follows.UNKNOWN for swap in self.swaps):
            return f"{moved}: nothing is proved, because no text could be swapped."
        if not self.guilty:
            return (
                f"{moved}: not one stage's doing alone. {' '.join(self._say_parts(tools) for tools in Side)}"
            )
        how = "both ways" if len(ways) == len(Side) else "one way only"
        if len(self.guilty) == 1:
            return f"{moved}: {self.guilty[0]} did it ({_STEPS[self.guilty[0]]}), shown {how}."
        names = ", ".join(self.guilty)
        return f"{moved}: one of {names} did it, shown {how}; no text between them could be swapped."

    def parts(self, tools: Side) -> list[tuple[tuple[Stage, ...], float]]:
        """How much each step moved the metric from before to after, as these tools see it: between two texts
        that could be fed lie one or more stages."""
        values = {Side.BEFORE: self.before, Side.AFTER: self.after}
        known = {
            swap.stage: swap.value for swap in self.swaps if swap.tools is tools and swap.value is not None
        }
        known[Stage.SASS] = values[tools.other]
        found, last, between = [], values[tools], list[Stage]()
        for stage in Stage:
            between.append(stage)
            value = known.get(stage)
            if value is not None:
                found.append((tuple(between), value - last if tools is Side.BEFORE else last - value))
                last, between = value, []
        return [(stages, delta) for stages, delta in found if delta]

    def _say_parts(self, tools: Side) -> str:
        said = [f"{' or '.join(stages)} {delta:+g}" for stages, delta in self.parts(tools)]
        return f"Text by text in the tools of {tools}: {', '.join(said)}."


def narrow_by_texts(proof: Proof, first_on_path: Stage | None) -> str | None:
    """What the texts add where the swaps leave several stages, for a metric of dQ's path; None for nothing.

    It is said apart from the proof: a text is evidence of what changed, a swap of what that does.
    """
    if len(proof.guilty) < 2 or first_on_path not in proof.guilty:
        return None
    return f"{proof.metric}: of these, {first_on_path} is the first whose text differs on dQ's path."


def read_trials(path: Path) -> list[Trial]:
    """What `kernels.substitute` wrote. Raises TrackerError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Trial])
    except (OSError, msgspec.MsgspecError) as error:
        raise TrackerError(f"{path}: no results of kernels.substitute ({error}); run prove again") from error


def prove(
    metric: str,
    values: Mapping[Side, float],
    trials: Mapping[Side, list[Trial]],
    own: Mapping[Side, list[str]],
) -> Proof:
    """Which stage moved a metric. ``values``: what each side measures of itself; ``trials``: by whose tools
    they were made; ``own``: each side's kernel identities, which its own texts must give again."""
    swaps = tuple(
        _swap(
            metric,
            values,
            _find(trials[tools], tools.other, stage),
            _find(trials[tools], tools, stage),
            tools,
            own,
        )
        for tools in Side
        for stage in FED
    )
    return Proof(metric, values[Side.BEFORE], values[Side.AFTER], swaps, _guilty(swaps))


def _find(trials: list[Trial], text_of: Side, stage: Stage) -> Trial:
    missing = Trial(text_of, stage, refused="was not tried")
    return next((t for t in trials if (t.text_of, t.stage) == (text_of, stage)), missing)


def _swap(
    metric: str,
    values: Mapping[Side, float],
    fed: Trial,
    control: Trial,
    tools: Side,
    own: Mapping[Side, list[str]],
) -> Swap:
    if control.refused is not None or control.identity != own[tools]:
        why = control.refused or "it comes out as another kernel"
        return Swap(tools, fed.stage, Follows.UNKNOWN, None, f"its own text cannot be fed back: {why}")
    value = fed.metrics.get(metric)
    if fed.refused is not None or value is None:
        return Swap(
            tools, fed.stage, Follows.UNKNOWN, None, f"cannot be fed: {fed.refused or 'no such metric'}"
        )
    gap = abs(values[Side.AFTER] - values[Side.BEFORE])
    near = {side: abs(value - values[side]) <= _NEAR_SHARE * gap for side in Side}
    follows = Follows.TOOLS if near[tools] else Follows.TEXT if near[tools.other] else Follows.NEITHER
    return Swap(tools, fed.stage, follows, value, same_code=fed.identity == own[tools.other])


def _guilty(swaps: tuple[Swap, ...]) -> tuple[Stage, ...]:
    """Stages that no swap clears: after the last text that does not carry the change, up to the first that
    does. Both ways must agree."""
    left = set(Stage)
    order = list(Stage)
    for swap in swaps:
        up_to = {stage for stage in order if order.index(stage) <= order.index(swap.stage)}
        if swap.follows is Follows.TOOLS:
            left -= up_to
        elif swap.follows is Follows.TEXT:
            left &= up_to
        elif swap.follows is Follows.NEITHER:
            return ()
    return tuple(stage for stage in order if stage in left)
