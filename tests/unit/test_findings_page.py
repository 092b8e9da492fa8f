"""benchmarks/FINDINGS.md says what the recorded samples say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.tracker.measured import History, load_history
from scripts.tracker.model import MeasurementStatus, TimingMeasurement
from scripts.tracker.timing import leg
from scripts.tracker.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "benchmarks" / "FINDINGS.md").read_text()
STEPS = ["3.2.0", "3.3.1", "3.4.0", "3.5.1", "3.6.0", "3.7.1", "3.8.0", "3.9.0"]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """What is recorded with the project, without what this machine measured."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    return load_history(Workspace(folder))


def cell(history: History, variant: str, head_dim: int, before: str, after: str) -> str:
    """The variant's own change over all n_ctx, smallest and largest, in percent, as the page has it."""
    timed: dict[tuple[str, int | None], TimingMeasurement] = {
        (history.label(t.commit), t.case.n_ctx): t
        for t in history.timings
        if t.variant == variant and t.case.head_dim == head_dim and t.status is MeasurementStatus.OK
    }
    shapes = sorted(
        {n_ctx for label, n_ctx in timed if n_ctx and (before, n_ctx) in timed and label == after}
    )
    changes = [100 * leg(timed[before, n_ctx], timed[after, n_ctx]) for n_ctx in shapes]
    return f"{min(changes):+.1f} to {max(changes):+.1f}" if changes else "n/a"


@pytest.mark.parametrize("head_dim", [64, 128])
def test_every_cell_is_what_was_measured(history: History, head_dim: int) -> None:
    before = ["3.1.0", *STEPS]
    section = PAGE.split(f"head_dim {head_dim}, % |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    assert {variant for variant, _ in rows} == {t.variant for t in history.timings}
    for variant, cells in rows:
        measured = [cell(history, variant, head_dim, a, b) for a, b in zip(before, STEPS, strict=False)]
        assert cells.split(" | ") == measured, variant
