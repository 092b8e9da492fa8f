"""Write the comments as Markdown files (dry run; posting to GitHub is not there yet)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.tracker.comment import render_all
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, printable, run_command
from scripts.tracker.judge import judge
from scripts.tracker.measured import History, load_history
from scripts.tracker.steps import Judgement
from scripts.tracker.store import atomic_write
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent


def write_comments(workspace: Workspace, judgement: Judgement, history: History) -> Path:
    """Write one file a comment and delete those of findings that are no more; returns the folder.

    Nothing is deleted while a file cannot be read: its findings are unknown, not gone.
    """
    folder = workspace.report / "comments"
    comments = render_all(judgement.findings, history)
    for name, markdown in comments.items():
        atomic_write(folder / name, markdown.encode())
    for stale in folder.glob("*.md"):
        if stale.name not in comments and not history.problems:
            stale.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main() -> int:
    argparse.ArgumentParser(prog="python -m scripts.comment_on_prs", description=__doc__).parse_args()
    workspace = Workspace(ROOT)
    history = load_history(workspace)
    print(write_comments(workspace, judge(history), history))
    for problem in history.problems:
        print(f"error: {printable(str(problem))}", file=sys.stderr)
    return EXIT_CANNOT_JUDGE if history.problems else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
