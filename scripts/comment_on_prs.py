"""Say what was found, as files, issues or comments.

    python -m scripts.comment_on_prs                      # files, posts nothing
    python -m scripts.comment_on_prs --mode own-issue
    python -m scripts.comment_on_prs --mode pull-request

By default a dry run: Markdown is written, nothing is posted. own-issue: one issue a finding, in our
repository. pull-request: under pull requests too, where Triton has installed the App.

From the environment: GITHUB_REPOSITORY (ours), GITHUB_TOKEN and ATOMWATCH_HOME_LOGIN (who writes our issues);
for pull requests ATOMWATCH_LOGIN and either ATOMWATCH_TOKEN, or ATOMWATCH_APP_ID and ATOMWATCH_APP_KEY (PEM).
GITHUB_API_URL is the API's address, also of an Enterprise; GITHUB_STEP_SUMMARY gets the dry run's text.

Exit status: 0 done, 1 something could not be said (the reason is printed), 2 could not judge.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from scripts.tracker.command_line import command_parser
from scripts.tracker.comment import render_all
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.github import PUBLIC_API, Account, GitHub
from scripts.tracker.github_answers import ForbiddenError, MissingError
from scripts.tracker.judge import judge
from scripts.tracker.ledger import Kind, Ledger
from scripts.tracker.measured import History, load_history
from scripts.tracker.posts import Mode
from scripts.tracker.publish import Publisher
from scripts.tracker.saying import judge_groups, say_all, say_trouble, standings_of
from scripts.tracker.steps import Judgement
from scripts.tracker.store import atomic_write
from scripts.tracker.workspace import Workspace, workspace_of

ROOT = Path(__file__).resolve().parent.parent
UPSTREAM = "triton-lang/triton"
_MAX_SUMMARY_BYTES = 900_000  # GitHub takes 1 MiB a step


def write_comments(workspace: Workspace, judgement: Judgement, history: History) -> Path:
    """Write one file a comment and delete those of findings that are no more; returns the folder.

    Nothing is deleted while a file cannot be read: its findings are unknown, not gone.
    """
    folder = workspace.report / "comments"
    comments = render_all(judgement.findings, history, standings_of(workspace, judgement, history))
    for name, markdown in comments.items():
        atomic_write(folder / name, markdown.encode())
    for stale in folder.glob("*.md"):
        if stale.name not in comments and not history.problems:
            stale.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main() -> int:
    parser = command_parser("comment_on_prs", __doc__)
    modes = [mode.value for mode in Mode]
    parser.add_argument(
        "--mode", choices=modes, default=Mode.DRY_RUN.value, metavar="MODE", help=", ".join(modes)
    )
    parser.add_argument("--upstream", default=UPSTREAM, help=f"whose pull requests; default: {UPSTREAM}")
    parser.add_argument("--commits", action="store_true", help="of the commits of main, not of releases")
    options = parser.parse_args()
    mode = Mode(options.mode)
    workspace = workspace_of(ROOT, options.commits)
    if mode is Mode.DRY_RUN:
        history, judgement = _judge_all(workspace)
        folder = write_comments(workspace, judgement, history)
        _summarise(folder, os.environ)
        print(folder)
        return 0
    home = _need(os.environ, "GITHUB_REPOSITORY")
    hosts = _hosts(os.environ, mode, options.upstream)
    if mode is Mode.PULL_REQUEST and Kind.COMMENT not in hosts:
        mode = Mode.OWN_ISSUE
    ledger = Ledger(workspace.ledger)
    with ledger.locked():
        publisher = Publisher(hosts, ledger, lambda: datetime.datetime.now(datetime.UTC), time.sleep)
        try:
            history, judgement = _judge_all(workspace)
            groups = judge_groups(workspace, judgement, history, hosts.get(Kind.COMMENT), options.upstream)
        except TrackerError as error:
            print(say_trouble(str(error), publisher, home))
            raise
        said = say_all(groups, history, publisher, mode, (options.upstream, home))
        said.lines.append(say_trouble("", publisher, home))
    for line in said.lines:
        print(line)
    return 0 if said.complete else 1


def _judge_all(workspace: Workspace) -> tuple[History, Judgement]:
    """Raises TrackerError if a file is damaged: half a history could take back what is true."""
    history = load_history(workspace)
    judgement = judge(history)
    if history.problems:
        raise TrackerError("; ".join(map(str, history.problems)))
    return history, judgement


def _hosts(environment: Mapping[str, str], mode: Mode, upstream: str) -> dict[Kind, GitHub]:
    """Who speaks where; nobody upstream, if it does not have the App any more. Raises TrackerError naming
    what the environment lacks."""
    url = environment.get("GITHUB_API_URL", PUBLIC_API)
    home = Account(_need(environment, "ATOMWATCH_HOME_LOGIN"), token=_need(environment, "GITHUB_TOKEN"))
    hosts = {Kind.ISSUE: GitHub(home, url)}
    if mode is Mode.PULL_REQUEST:
        token = environment.get("ATOMWATCH_TOKEN", "")
        app = "" if token else _need(environment, "ATOMWATCH_APP_ID")
        key = "" if token else _need(environment, "ATOMWATCH_APP_KEY")
        theirs = GitHub(Account(_need(environment, "ATOMWATCH_LOGIN"), token, app, key), url)
        try:
            theirs.enter(upstream)
            hosts[Kind.COMMENT] = theirs
        except (MissingError, ForbiddenError) as error:
            # To take the App away, or to suspend it, is how Triton says no.
            print(f"no pull request is told, the App is not installed: {error}", file=sys.stderr)
    return hosts


def _need(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise TrackerError(f"{name} is not in the environment: see python -m scripts.comment_on_prs --help")
    return value


def _summarise(folder: Path, environment: Mapping[str, str]) -> None:
    """Into the summary of a workflow's step, where there is one."""
    if path := environment.get("GITHUB_STEP_SUMMARY"):
        texts = [file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.md"))]
        whole = "\n---\n\n".join(texts) or "Nothing was found.\n"
        content = whole.encode()[:_MAX_SUMMARY_BYTES].decode(errors="ignore")
        with Path(path).open("a", encoding="utf-8") as summary:
            summary.write(content)


if __name__ == "__main__":
    sys.exit(run_command(main))
