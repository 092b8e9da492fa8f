"""policy.toml as types: which changes matter, and how much."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Verdict

POLICY_FILE = Path(__file__).resolve().parent.parent / "policy.toml"


# Finite and in range: a NaN or a negative threshold would switch judgement off in silence.
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class CodegenRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a code-generation metric matters, and what its change means. Fields: see policy.toml."""

    metric: str
    worse: Literal["lower", "higher"]
    dq_path: bool
    min_relative_change: Share
    worse_words: str
    better_words: str
    reason: str

    def direction(self, before: float | None, after: float | None) -> int:
        """+1 worse, -1 better, 0 no relevant change. A metric that does not apply cannot change."""
        if before is None or after is None or before == after:
            return 0
        if abs(after - before) < self.min_relative_change * abs(before):
            return 0
        return 1 if (after > before) == (self.worse == "higher") else -1


class CodegenPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``rule``: in order of weight."""

    rule: Annotated[tuple[CodegenRule, ...], msgspec.Meta(min_length=1)]


class TimingPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a change of GPU time counts. Spreads and changes are shares (0.01 is 1 %)."""

    min_blocks: Annotated[int, msgspec.Meta(ge=3, le=1000)]
    session_spread: Share
    min_relative_change: Share


class ConfirmPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a suspicion is settled; see `confirmation`. ``n_ctx``: where only code was compared."""

    blocks: Annotated[int, msgspec.Meta(ge=3, le=1000)]
    min_sessions: Annotated[int, msgspec.Meta(ge=2, le=20)]
    max_sessions: Annotated[int, msgspec.Meta(ge=2, le=20)]
    budget_s: Annotated[float, msgspec.Meta(gt=0, le=3600)]
    min_relative_change: Share
    n_ctx: Annotated[int, msgspec.Meta(ge=128, multiple_of=128)]

    def __post_init__(self) -> None:
        if self.min_sessions > self.max_sessions:
            raise ValueError("min_sessions is more than max_sessions: no suspicion would ever be settled")


class DetectionPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a change in a series of consecutive commits counts. Fields: see policy.toml. ``session_spread``:
    not there, `Policy` takes [timing]'s."""

    min_commits: Annotated[int, msgspec.Meta(ge=8, le=1000)]
    window_commits: Annotated[int, msgspec.Meta(ge=8, le=1000)]
    relevant_change: Share
    environment_change: Share
    spike_z: Annotated[float, msgspec.Meta(gt=0.0, le=100.0)]
    suspect_z: Annotated[float, msgspec.Meta(gt=0.0, le=100.0)]
    suspect_rate: Annotated[float, msgspec.Meta(gt=0.0, le=0.5)]
    penalty: Annotated[float, msgspec.Meta(gt=0.0, le=1000.0)]
    sessions_to_confirm: Annotated[int, msgspec.Meta(ge=2, le=100)]
    false_discovery_rate: Annotated[float, msgspec.Meta(gt=0.0, le=0.5)]
    session_spread: Share = 0.0


class CommentPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may be said to whom; see policy.toml. ``max_new``: of one run."""

    pull_request_verdicts: tuple[Verdict, ...]
    issue_verdicts: tuple[Verdict, ...]
    min_sessions: Annotated[int, msgspec.Meta(ge=2, le=20)]
    exact_metrics: tuple[str, ...]
    max_pull_requests: Annotated[int, msgspec.Meta(ge=1, le=5)]
    min_suspect_share: Share
    max_new: Annotated[int, msgspec.Meta(ge=1, le=500)]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of policy.toml."""

    codegen: CodegenPolicy
    timing: TimingPolicy
    confirm: ConfirmPolicy
    detection: DetectionPolicy
    comment: CommentPolicy

    def __post_init__(self) -> None:
        if self.detection.session_spread:
            raise ValueError("[detection] has a session_spread: there is one, in [timing]")
        msgspec.structs.force_setattr(self.detection, "session_spread", self.timing.session_spread)


def read_policy(path: Path = POLICY_FILE) -> Policy:
    """Raises TrackerError naming the file and the key."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Policy)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TrackerError(f"{path}: {error}; restore it from git or mend the entry") from error
