"""What several tests of sessions start from."""

from __future__ import annotations

from pathlib import Path

import pytest
from sessions import NEW, OLD, fill_store, plan

from kernels.plan import Plan


@pytest.fixture
def store(tmp_path: Path) -> None:
    fill_store(tmp_path)


@pytest.fixture
def both(tmp_path: Path) -> Plan:
    """Two commits, eight kernel blocks and no others."""
    return plan(
        tmp_path,
        commits=[[OLD, "old"], [NEW, "new"]],
        min_blocks=8,
        max_blocks=8,
        backward_blocks=0,
    )
