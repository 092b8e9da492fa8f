"""Write the HTML page of everything measured."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from scripts.tracker.errors import EXIT_CANNOT_JUDGE, printable, run_command
from scripts.tracker.judge import judge
from scripts.tracker.measured import History, load_history
from scripts.tracker.report import render_html
from scripts.tracker.steps import Judgement
from scripts.tracker.store import atomic_write
from scripts.tracker.workspace import Workspace, workspace_of

ROOT = Path(__file__).resolve().parent.parent


def write_report(workspace: Workspace, judgement: Judgement, history: History) -> Path:
    """Write the page; returns its path."""
    page = workspace.report / "index.html"
    atomic_write(page, render_html(judgement, history).encode())
    return page


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.report", description=__doc__)
    parser.add_argument("--commits", action="store_true", help="of the commits of main, not of releases")
    workspace = workspace_of(ROOT, parser.parse_args().commits)
    history = load_history(workspace)
    print(write_report(workspace, judge(history), history))
    for problem in history.problems:
        print(f"error: {printable(str(problem))}", file=sys.stderr)
    return EXIT_CANNOT_JUDGE if history.problems else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
