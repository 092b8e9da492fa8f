"""GPU sessions of followed commits: each change beside its parent and the anchor, one session a change, and
from the session's files to asv results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.tracker.errors import TrackerError
from scripts.tracker.harness import Suite, describe_suite, write_json
from scripts.tracker.judge import TIMED_TARGET
from scripts.tracker.model import Case, Commit
from scripts.tracker.recording import in_words, record_change
from scripts.tracker.request import SUPPORT
from scripts.tracker.session_files import read_sessions
from scripts.tracker.store import EvidenceStore, atomic_write
from scripts.tracker.timing_backlog import Change, keep_anchor, read_anchor
from scripts.tracker.timing_run import SUITES, Effort, make_plan
from scripts.tracker.workspace import Workspace

_LABEL_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Choice:
    """What is timed of every change: all variants, in these cases."""

    variants: list[str]
    head_dims: list[int]
    n_ctx: list[int]

    def cases(self) -> list[Case]:
        return [Case(d, True, "fp16", n) for d in self.head_dims for n in self.n_ctx]


def plan_of_change(
    workspace: Workspace, change: Change, choice: Choice, effort: Effort, fresh: bool = False
) -> dict[str, Any]:
    """A plan for `benchmarks.session`: anchor, parent and commit side by side, where the code differs. Equal
    kernels are timed once, and those of a case that a session had together already not at all."""
    store = workspace.evidence
    anchor = read_anchor(store, TIMED_TARGET)
    if anchor is None:
        anchor = change.before.commit
        keep_anchor(store, TIMED_TARGET, anchor)
    sides = [change.before, change.after]
    if anchor not in (c.commit for c in sides):
        sides = [Commit(anchor, anchor[:_LABEL_DIGITS]), *sides]
    head_dims = [d for d in choice.head_dims if d in {case.head_dim for case in change.cases}]
    return make_plan(
        workspace, sides, choice.variants, head_dims, choice.n_ctx, effort, fresh,
        seed=int(change.after.commit[:8], 16),
    )  # fmt: skip


def pack(workspace: Workspace, plans: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """All that another machine needs besides a checkout: plans, and a store with their kernels alone. Their
    paths are relative to the checkout, in which ``folder`` must lie."""
    try:
        here = folder.resolve().relative_to(workspace.root.resolve())
    except ValueError as error:
        raise TrackerError(f"{folder}: not inside {workspace.root}: name a folder of the checkout") from error
    written = []
    for number, plan in enumerate(plans, 1):
        _pack_store(workspace.evidence, folder / "store", plan)
        out = here / "sessions" / Path(plan["out"]).name
        moved = {"store": str(here / "store"), "archive": str(here / "sessions"), "out": str(out)}
        path = folder / "plans" / f"{number:03}-{plan['commits'][-1][1]}.json"
        write_json(path, {**plan, **moved})
        written.append(path)
    return written


def _pack_store(store: EvidenceStore, into: Path, plan: dict[str, Any]) -> None:
    cases = dict.fromkeys(Case(c["head_dim"], c["causal"], c["dtype"]) for c in plan["cases"])
    for commit, label in plan["commits"]:
        for case in cases:
            for variant in [*plan["variants"], SUPPORT]:
                record = store.load(plan["target"], commit, case, variant)
                if record is None:
                    continue  # a variant that this commit was not asked for: the session says so
                paths = [store.record_path(plan["target"], commit, case, variant)]
                paths += [store.object_path(k.objects["cubin"]) for k in record.kernels]
                for path in paths:
                    _copy(path, into / path.relative_to(store.root), label)


def _copy(path: Path, to: Path, label: str) -> None:
    if to.exists() and to.suffix == ".zst":
        return  # named by its content
    try:
        atomic_write(to, path.read_bytes())
    except FileNotFoundError as error:
        raise TrackerError(f"{label}: {path} is not there: make follow renews it") from error


def record_folder_of_change(workspace: Workspace, folder: Path, suites: list[Suite]) -> str:
    """One session's files into asv results; says what was written. What it took from an earlier session has
    its results already."""
    found = read_sessions(folder)
    documents = [document for document in found if document.reused_from is None]
    if not documents:
        return f"{folder.name}: its kernels were timed together before"
    machine, commits = record_change(documents, suites, workspace.evidence, workspace.results)
    return in_words(workspace.results / machine, commits, documents)


def timed_suites(root: Path) -> list[Suite]:
    """The timed one first."""
    return [describe_suite(root, module, TIMED_TARGET) for module in SUITES]


def session_folders(folder: Path) -> list[Path]:
    """A session's folder, or all sessions in a folder of them."""
    inside = sorted({path.parent for path in folder.glob("*/hd*.json")})
    return [folder] if list(folder.glob("hd*.json")) or not inside else inside
