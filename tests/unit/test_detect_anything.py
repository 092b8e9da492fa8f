"""Histories of every kind of mess: the judgement stands, its file is whole, no order matters."""

from __future__ import annotations

import json
import random

import pytest
from builders import FACTS
from lived import CANARY, lived

from scripts.tracker.comment import render_all
from scripts.tracker.judge import judge
from scripts.tracker.measured import History
from scripts.tracker.model import Verdict
from scripts.tracker.report import findings_json


def a_mess(seed: int) -> History:
    """Steps, spikes, holes, repeated sessions, lost variants, changed code and drivers, all at random."""
    draw = random.Random(seed)
    n = draw.choice([1, 2, 19, 20, 25, 60, 90])
    series = {}
    for variant in [*FACTS, CANARY]:
        level, values = 1.0, []
        for _ in range(n):
            level *= draw.choice([1.0] * 30 + [1.1, 0.9, 2.0, 0.5])
            value: float | tuple[float, ...] | None = level * draw.choice([1.0] * 20 + [1.3])
            if draw.random() < 0.05:
                value = None
            elif draw.random() < 0.05:
                value = tuple(level * draw.uniform(0.9, 1.1) for _ in range(draw.randint(1, 4)))
            values.append(value)
        series[variant] = values
    canary = series.pop(CANARY) if draw.random() < 0.7 else None
    code = {v: [str(i // 10) for i in range(n)] for v in FACTS if draw.random() < 0.7}
    setups = [f"driver {i // 40}" for i in range(n)] if draw.random() < 0.3 else None
    series.pop(CANARY, None)
    history = lived(
        series, n, canary=canary, code=code, setups=setups, left_out=draw.sample(range(n), n // 9)
    )
    history.timings = [t for t in history.timings if draw.random() > 0.01]
    if n > 2:
        del history.commits[draw.randrange(n)]
    return history


@pytest.mark.parametrize("seed", range(25))
def test_nothing_breaks_it(seed: int) -> None:
    history = a_mess(seed)
    judgement = judge(history)
    document = json.loads(findings_json(judgement))
    ids = [f["id"] for f in document["findings"]]
    assert len(set(ids)) == len(ids)
    order = {c.commit: i for i, c in enumerate(history.commits)}
    for f in judgement.findings:
        assert order[f.before.commit] < order[f.after.commit]
        assert 0 <= f.unmeasured_commits < len(order)
        assert f.verdict is not Verdict.NO_CHANGE
        assert f.explanation
    comments = "".join(render_all(judgement.findings, history).values())
    assert "waiting for confirmation" not in comments.lower()
    before = findings_json(judgement)
    random.Random(seed).shuffle(history.timings)
    random.Random(seed).shuffle(history.canaries)
    assert findings_json(judge(history)) == before
