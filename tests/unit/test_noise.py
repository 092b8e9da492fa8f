"""How far sessions scatter: known spreads are found again, and the policy rests on what is shipped."""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
from builders import DEVICE, NEW, OLD, block_document, session_document, subject_document

from scripts import noise as command
from scripts.tracker.errors import TrackerError, run_command
from scripts.tracker.model import Commit
from scripts.tracker.noise import Noise, is_for_noise, measure_noise, power_cap
from scripts.tracker.policy import read_policy
from scripts.tracker.session_files import SessionFile, read_sessions

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "benchmarks" / "recorded_sessions"
AGAIN = Commit(NEW.commit, f"{NEW.label} again")
VARIANTS = ("atomic_add", "inline_asm", "store")
BLOCKS = 4


def session(
    tmp_path: Path,
    name: str,
    seconds: dict[tuple[str, str], float] | None = None,
    machine: float = 1.0,
    sides: tuple[Commit, ...] = (OLD, NEW, AGAIN),
    capped: tuple[bool, ...] = (False,) * BLOCKS,
    cap: dict[str, float] | None = None,
    **changes: Any,
) -> SessionFile:
    """A session whose blocks are all alike: ``seconds`` {(label, variant): factor}, ``machine`` for all, the
    canary too. In ``capped`` blocks a variant takes ``cap`` times as long."""
    (tmp_path / name).mkdir(parents=True)
    subjects = []
    for number, side in enumerate(sides):
        for variant in VARIANTS:
            factor = 1e-3 * machine * (seconds or {}).get((side.label, variant), 1.0)
            samples = [factor * ((cap or {}).get(variant, 1.0) if is_capped else 1.0) for is_capped in capped]
            copy = 1 + sum(side.commit == earlier.commit for earlier in sides[:number])
            subjects.append(subject_document(side, variant, samples, copy=copy))
    blocks = [block_document(capped=is_capped) for is_capped in capped]
    canaries = {
        "device_copy": {"message": None, "kernel_s": [1e-4 * machine] * len(blocks)},
        "sdpa_flash": {"message": "no torch", "kernel_s": []},
    }
    document = session_document(subjects, blocks, **{"canaries": canaries, **changes})
    (tmp_path / name / "hd64.json").write_text(json.dumps(document))
    [read] = read_sessions(tmp_path / name)
    return read


def exp(*logs: float) -> list[float]:
    return [math.exp(x) for x in logs]


@pytest.fixture(scope="module")
def shipped() -> list[SessionFile]:
    return [document for folder in sorted(SHIPPED.iterdir()) for document in read_sessions(folder)]


@pytest.fixture(scope="module")
def rows(shipped: list[SessionFile]) -> list[Noise]:
    return measure_noise([document for document in shipped if is_for_noise(document)])


# ---- what is shipped -----------------------------------------------------------------------------------


def test_the_policys_session_spread_is_the_largest_that_was_measured(rows: list[Noise]) -> None:
    largest = max(max(row.ratio, row.paired, row.same) for row in rows)
    assert read_policy().timing.session_spread == round(largest, 4)


def test_the_shipped_sessions_are_what_the_policy_says_of_them(
    rows: list[Noise], shipped: list[SessionFile]
) -> None:
    assert [(row.head_dim, row.n_ctx) for row in rows] == [(64, 2048), (64, 8192), (128, 2048), (128, 8192)]
    assert {row.sessions for row in rows} == {8}
    of_noise = [document for document in shipped if is_for_noise(document)]
    assert {len(document.blocks) for document in of_noise} == {12}
    assert len({s.variant for document in of_noise for s in document.subjects}) == 9
    labels = {tuple(dict.fromkeys(s.label for s in document.subjects)) for document in of_noise}
    assert labels == {("3.8.0", "3.9.0", "3.9.0 again")}
    assert len({document.device.uuid for document in of_noise}) == 1


def test_two_commits_in_one_session_compare_better_than_in_two(rows: list[Noise]) -> None:
    for row in rows:
        assert row.paired < row.apart
        assert row.half_width(1) == pytest.approx(1.96 * row.paired)
        assert row.half_width(4) == pytest.approx(row.half_width(1) / 2)


def test_a_commit_against_itself_shows_nothing(rows: list[Noise]) -> None:
    """The mean of A/A, over sessions and variants, is within what one session is known to."""
    for row in rows:
        assert abs(row.same_bias) < 1.96 * row.same


def test_a_power_cap_moves_no_comparison_by_what_the_policy_calls_relevant(
    shipped: list[SessionFile],
) -> None:
    caps = power_cap(shipped)
    assert caps
    threshold = read_policy().timing.min_relative_change
    for cap in caps:
        assert 0 < cap.capped_blocks < cap.blocks
        assert max(abs(cap.ratio), abs(cap.commits)) < threshold / 4


def test_the_readmes_table_is_what_was_measured(rows: list[Noise]) -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text()
    for row in rows:
        values = (row.own, row.ratio, row.apart, row.paired, row.same, row.canary)
        cells = [f"{row.head_dim}, {row.n_ctx}", *(f"{100 * value:.2f}" for value in values)]
        assert f"| {' | '.join(cells)} |" in readme


def test_the_command_prints_every_shape(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "argv", ["noise", *map(str, sorted(SHIPPED.iterdir()))])
    assert run_command(command.main) == 0
    out = capsys.readouterr().out
    assert "Spread over 8 sessions" in out
    assert "hd 64, n_ctx 2048: commit over commit within" in out
    assert "Shift by a power cap" in out


# ---- known spreads -------------------------------------------------------------------------------------


def test_a_slower_machine_is_in_ones_own_time_and_cancels_in_pairs(tmp_path: Path) -> None:
    logs = [0.0, 0.01, -0.02, 0.04]
    sessions = [session(tmp_path, str(n), machine=factor) for n, factor in enumerate(exp(*logs))]
    [row] = measure_noise(sessions)
    spread = statistics.stdev(logs)
    assert row.own == pytest.approx(spread)
    assert row.canary == pytest.approx(spread)
    # One commit from each session, and the other from the next.
    apart = statistics.stdev(a - b for a, b in zip(logs, logs[1:] + logs[:1], strict=True))
    assert row.apart == pytest.approx(apart)
    for paired in (row.block, row.ratio, row.paired, row.same, row.same_bias):
        assert paired == pytest.approx(0, abs=1e-12)


def test_a_process_of_one_variant_is_in_its_ratio(tmp_path: Path) -> None:
    """One of two ratios to inline_asm scatters, so their root mean square is that by the root of two."""
    logs = [0.0, 0.01, -0.02]
    sessions = [
        session(tmp_path, str(n), {(label, "atomic_add"): factor for label in (NEW.label, AGAIN.label)})
        for n, factor in enumerate(exp(*logs))
    ]
    [row] = measure_noise(sessions)
    assert row.ratio == pytest.approx(statistics.stdev(logs) / math.sqrt(2))
    assert row.own == pytest.approx(statistics.stdev(logs) / math.sqrt(3))
    assert row.paired == pytest.approx(statistics.stdev(logs) / math.sqrt(3))
    assert row.same == pytest.approx(0, abs=1e-12)


def test_a_second_copy_that_is_slower_is_bias_and_not_spread(tmp_path: Path) -> None:
    slower = {(AGAIN.label, variant): math.exp(0.01) for variant in VARIANTS}
    [row] = measure_noise([session(tmp_path, str(n), slower) for n in range(3)])
    assert row.same_bias == pytest.approx(-0.01)
    assert row.same == pytest.approx(0, abs=1e-12)


def test_random_sessions_of_a_known_spread_give_that_spread(tmp_path: Path) -> None:
    rng = random.Random(4717)
    sessions = [
        session(
            tmp_path,
            str(n),
            {(side.label, v): math.exp(rng.gauss(0, 0.01)) for side in (OLD, NEW, AGAIN) for v in VARIANTS},
            machine=math.exp(rng.gauss(0, 0.03)),
        )
        for n in range(60)
    ]
    [row] = measure_noise(sessions)
    for pair in (row.ratio, row.paired, row.same):
        assert pair == pytest.approx(0.01 * math.sqrt(2), rel=0.2)
    assert row.own == pytest.approx(math.hypot(0.01, 0.03), rel=0.2)
    assert row.apart == pytest.approx(math.hypot(0.01, 0.03) * math.sqrt(2), rel=0.2)


# ---- what is no basis ----------------------------------------------------------------------------------


def test_two_sessions_are_too_few(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match="2 sessions; a spread needs three or more"):
        measure_noise([session(tmp_path, name) for name in "ab"])


@pytest.mark.parametrize("sides", [(OLD, NEW), (OLD, NEW, Commit("e" * 40, "3.5.0")), (NEW, AGAIN, OLD)])
def test_a_session_without_a_second_commit_twice_is_not_for_noise(
    tmp_path: Path, sides: tuple[Commit, ...]
) -> None:
    assert not is_for_noise(session(tmp_path, "a", sides=sides))


def test_a_session_without_valid_data_is_not_for_noise(tmp_path: Path) -> None:
    assert is_for_noise(session(tmp_path, "a"))
    assert not is_for_noise(session(tmp_path, "b", status="no_valid_data", note="throttled"))


def test_sessions_of_other_commits_are_not_joined(tmp_path: Path) -> None:
    other = Commit("e" * 40, "3.5.0")
    pair = [session(tmp_path, name) for name in "ab"]
    odd = session(tmp_path, "c", sides=(other, other, Commit(other.commit, "3.5.0 again"))[:1])
    with pytest.raises(TrackerError, match="share no commits"):
        measure_noise([*pair, odd])


def test_a_canary_that_one_session_has_not_is_left_out(tmp_path: Path) -> None:
    sessions = [session(tmp_path, name) for name in "ab"]
    sessions.append(session(tmp_path, "c", canaries={}))
    [row] = measure_noise(sessions)
    assert math.isnan(row.canary)


def test_sessions_of_two_devices_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, driver in enumerate(("580.1", "580.1", "590.1")):
        session(tmp_path, str(number), device={**DEVICE, "driver": driver})
    monkeypatch.setattr(sys, "argv", ["noise", *(str(tmp_path / str(n)) for n in range(3))])
    assert run_command(command.main) == 2
    assert "different devices or drivers" in capsys.readouterr().err


# ---- power cap -----------------------------------------------------------------------------------------


def test_what_a_cap_does_to_all_alike_is_no_shift(tmp_path: Path) -> None:
    capped = (True, False, False, True)
    [found] = power_cap([session(tmp_path, "a", capped=capped, cap=dict.fromkeys(VARIANTS, 1.1))])
    assert (found.capped_blocks, found.blocks) == (2, 4)
    assert found.ratio == pytest.approx(0, abs=1e-12)
    assert found.commits == pytest.approx(0, abs=1e-12)


def test_what_a_cap_does_to_one_variant_shifts_its_ratio(tmp_path: Path) -> None:
    capped = (True, False, False, True)
    [found] = power_cap([session(tmp_path, "a", capped=capped, cap={"store": math.exp(-0.02)})])
    assert found.ratio == pytest.approx(-0.02)
    assert found.commits == pytest.approx(0, abs=1e-12)


def test_blocks_of_one_kind_say_nothing_of_a_cap(tmp_path: Path) -> None:
    assert power_cap([session(tmp_path, "a"), session(tmp_path, "b", capped=(True,) * 4)]) == []


def test_json_has_the_spreads_of_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(path) for path in sorted(SHIPPED.glob("noise-*"))]
    monkeypatch.setattr(sys, "argv", ["noise", "--format", "json", *folders])
    assert run_command(command.main) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["device"]["gpu"]) == (1, "NVIDIA H200")
    documents = [d for folder in folders for d in read_sessions(Path(folder))]
    rows = measure_noise([d for d in documents if is_for_noise(d)])
    assert [(row["head_dim"], row["n_ctx"], row["own"]) for row in document["noise"]] == [
        (row.head_dim, row.n_ctx, row.own) for row in rows
    ]
