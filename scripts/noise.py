"""Say how far sessions of identical kernels scatter.

    python -m scripts.noise benchmarks/recorded_sessions/*/   # what is shipped

What policy.toml's thresholds rest on. Each folder is one session, a fresh process. Those whose plan has two
commits and the second of them again (A/A) give the spreads; all that have blocks with and without a power cap
show what the cap does.

Exit status: 0 printed, 2 a session cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.tracker.command_line import command_parser
from scripts.tracker.errors import run_command
from scripts.tracker.noise import Noise, PowerCap, is_for_noise, measure_noise, noise_json, power_cap
from scripts.tracker.session_files import Device, check_one_device, read_sessions
from scripts.tracker.terminal import terminal

_COLUMNS = {
    "block": "ratio, block to block",
    "own": "one kernel",
    "ratio": "ratio",
    "apart": "commits, two sessions",
    "paired": "commits, one session",
    "same": "A/A",
    "canary": "canary",
}


def main() -> int:
    parser = command_parser("noise", __doc__)
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("folders", nargs="+", type=Path, help="one session each")
    options = parser.parse_args()
    documents = [document for folder in options.folders for document in read_sessions(folder)]
    check_one_device(documents, ", ".join(map(str, options.folders)))
    rows = measure_noise([d for d in documents if is_for_noise(d)])
    caps = power_cap(documents)
    if options.format == "json":
        print(noise_json(documents[0].device, rows, caps))
    else:
        _print(terminal(), documents[0].device, rows, caps)
    return 0


def _print(console: Console, device: Device, rows: list[Noise], caps: list[PowerCap]) -> None:
    console.print(f"{device.gpu}, driver {device.driver}", highlight=False)
    if rows:
        title = f"Spread over {rows[0].sessions} sessions (1 standard deviation, %)"
        table = Table("hd, n_ctx", *_COLUMNS.values(), title=title)
        for row in rows:
            values = [f"{100 * getattr(row, name):.2f}" for name in _COLUMNS]
            table.add_row(f"{row.head_dim}, {row.n_ctx}", *values)
        console.print(table)
        for row in rows:
            console.print(_sentence(row), highlight=False)
    if caps:
        table = Table("hd, n_ctx", "blocks", "ratio", "commits", title="Shift by a power cap (%)")
        for cap in caps:
            share = f"{cap.capped_blocks} of {cap.blocks} capped"
            numbers = (f"{100 * cap.ratio:+.2f}", f"{100 * cap.commits:+.2f}")
            table.add_row(f"{cap.head_dim}, {cap.n_ctx}", share, *numbers)
        console.print(table)


def _sentence(row: Noise) -> str:
    widths = ", ".join(f"{100 * row.half_width(n):.2f} % with {n}" for n in (1, 2, 3))
    return (
        f"hd {row.head_dim}, n_ctx {row.n_ctx}: commit over commit within {widths} sessions (95 %); "
        f"A/A bias {100 * row.same_bias:+.3f} %."
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
