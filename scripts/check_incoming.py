"""Check what another machine handed in, before it is kept.

    python -m scripts.check_incoming FOLDER --planned FILE...
    python -m scripts.check_incoming FOLDER --planned FILE... --known RESULTS
    python -m scripts.check_incoming FOLDER --requests FOLDER

Results, evidence and sessions of planned commits (FILE: a hash a line), or of those that RESULTS knows
already: a session times planned commits beside known ones. With --requests answers of scripts.confirm.

Exit status: 0 all is as asked for, 2 it is not (the reasons are printed).
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import EXIT_CANNOT_JUDGE, TrackerError, run_command
from scripts.tracker.incoming import Asked, check_incoming
from scripts.tracker.results import read_results

_SHOWN = 50


def main() -> int:
    parser = command_parser("check_incoming", __doc__)
    parser.add_argument("folder", type=Path, help="holds results/, evidence/, sessions/ or confirmations/")
    parser.add_argument("--planned", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument(
        "--known", type=Path, metavar="RESULTS", help="commits that have results there may come too"
    )
    parser.add_argument("--requests", type=Path, metavar="FOLDER", help="what was asked to be confirmed")
    options = parser.parse_args()
    if not options.folder.is_dir():
        raise TrackerError(f"{options.folder}: no such folder; was anything handed in?")
    commits = {line for path in options.planned for line in path.read_text().split()}
    if options.known:
        commits |= {results.commit for results in read_results(options.known)[0]}
    findings = {path.stem for path in options.requests.glob("*.json")} if options.requests else set()
    problems = check_incoming(options.folder, Asked(commits, findings))
    for problem in problems[:_SHOWN]:
        print(problem.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
    if len(problems) > _SHOWN:
        print(f"and {len(problems) - _SHOWN} more", file=sys.stderr)
    asked = f"{len(commits)} commits and {len(findings)} answers may come"
    print(f"{options.folder}: {len(problems)} problems; {asked}")
    return EXIT_CANNOT_JUDGE if problems else 0


if __name__ == "__main__":
    sys.exit(run_command(main))
