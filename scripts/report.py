"""Write the report, a static site.

    python -m scripts.report
    python -m scripts.report --commits

Of the releases into .asv/report, of the commits of main into .asv/commits/report. To be opened from disk or
put on any web server; it needs no network.

Exit status: 0 written, 2 written but a file could not be read (the page says which), or not written.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from plotly.offline import get_plotlyjs

from scripts.pages.folder import replace_site
from scripts.pages.render import SITE, render_site
from scripts.pages.sources import read_sources
from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, printable, run_command
from scripts.tracker.judge import judge
from scripts.tracker.measured import History, load_history
from scripts.tracker.steps import Judgement
from scripts.tracker.workspace import Workspace, workspace_of

ROOT = Path(__file__).resolve().parent.parent


def write_report(workspace: Workspace, judgement: Judgement, history: History) -> Path:
    """Write the site; returns the path of its first page."""
    sources = read_sources(workspace, history)
    replace_site(workspace.report, itertools.chain(_assets(), render_site(judgement, history, sources)))
    return workspace.report / "index.html"


def _assets() -> Iterator[tuple[str, str]]:
    for name in ("site.js", "site.css"):
        yield f"assets/{name}", (SITE / name).read_text()
    yield "assets/plotly.min.js", get_plotlyjs()


def main() -> int:
    parser = command_parser("report", __doc__)
    parser.add_argument("--commits", action="store_true", help="of the commits of main, not of releases")
    workspace = workspace_of(ROOT, parser.parse_args().commits)
    history = load_history(workspace)
    print(write_report(workspace, judge(history), history))
    for problem in history.problems:
        print(f"error: {printable(str(problem))}", file=sys.stderr)
    return EXIT_CANNOT_JUDGE if history.problems else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
