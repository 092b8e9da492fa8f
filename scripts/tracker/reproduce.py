"""How a reader sees a finding again, in one command; and where its commits are. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scripts.tracker.groups import FindingGroup
from scripts.tracker.model import Commit

# This address of GitHub's own leads to Triton and leaves no trace in its timeline.
UPSTREAM = "https://redirect.github.com/triton-lang/triton"
_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Reproduce:
    """Commands, to be pasted into a shell in a checkout. ``time``: for a machine with a GPU."""

    code: str
    time: str


def commands(group: FindingGroup, worst: str) -> Reproduce:
    """``worst``: id of the finding that a GPU is asked about."""
    before, after = group.before, group.after
    if not (is_of_main(before) and is_of_main(after)):
        return Reproduce(
            f'make track RELEASES="{before.label} {after.label}"',
            f".venv/bin/python -m scripts.confirm {worst}",
        )
    return Reproduce(
        "make .venv/ready && .venv/bin/python -m scripts.follow "
        f"--only <(echo {before.commit} {after.commit})",
        "make .venv/ready .venv-gpu/ready && .github/scripts/results.sh take && "
        f".venv/bin/python -m scripts.confirm --commits {worst}",
    )


def is_of_main(commit: Commit) -> bool:
    """Whether it has no name but its hash: it was followed, and is no release."""
    return bool(_SHA.fullmatch(commit.commit)) and commit.commit.startswith(commit.label)


def commit_links(group: FindingGroup) -> str:
    """Markdown; empty for releases, whose commits are our own history's and not Triton's."""
    before, after = group.before, group.after
    if not (is_of_main(before) and is_of_main(after)):
        return ""
    ends = [f"[`{c.commit[:10]}`]({UPSTREAM}/commit/{c.commit})" for c in (before, after)]
    between = f"{UPSTREAM}/compare/{before.commit}...{after.commit}"
    return f"Before: {ends[0]}. After: {ends[1]}. [What lies between]({between})."
