"""asv reads the long history that our speed is measured beside: the comparison is of the same values."""

from __future__ import annotations

from scripts.tracker.policy import read_policy
from scripts.tracker.speed import measure


def test_asv_publishes_the_same_history() -> None:
    speed = measure(100, read_policy().detection, beside_asv=True)
    assert speed.asv_publish_s is not None
    assert speed.asv_publish_s > 0
