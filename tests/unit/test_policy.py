"""policy.toml: loads, and says which way is worse and how much matters."""

import re
from pathlib import Path

import pytest

from scripts.tracker.errors import TrackerError
from scripts.tracker.policy import POLICY_FILE, CodegenRule, read_policy


def rule(worse: str, share: float = 0.0) -> CodegenRule:
    return CodegenRule("registers", worse, False, share, "more", "fewer", "")  # type: ignore[arg-type]


def test_the_shipped_policy_loads_in_order_of_weight() -> None:
    metrics = [r.metric for r in read_policy().codegen.rule]
    assert metrics[0] == "dq_vector_width"
    assert len(set(metrics)) == len(metrics)
    assert all(r.reason and r.worse_words != r.better_words for r in read_policy().codegen.rule)


@pytest.mark.parametrize(
    ("worse", "before", "after", "direction"),
    [
        ("higher", 1, 2, 1),
        ("higher", 2, 1, -1),
        ("lower", 1, 2, -1),
        ("lower", 2, 1, 1),
        ("lower", 2, 2, 0),
        ("higher", 0, 1, 1),
        ("higher", None, 1, 0),
        ("higher", 1, None, 0),
        ("higher", None, None, 0),
    ],
)
def test_direction(worse: str, before: float | None, after: float | None, direction: int) -> None:
    assert rule(worse).direction(before, after) == direction


@pytest.mark.parametrize(("after", "direction"), [(109, 0), (110, 1), (91, 0), (90, -1), (111, 1), (100, 0)])
def test_a_share_that_matters(after: float, direction: int) -> None:
    assert rule("higher", 0.10).direction(100, after) == direction


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('worse = "lower"', 'worse = "slower"', "worse"),
        ("min_relative_change = 0.15", "min_relative_change = true", "min_relative_change"),
        ('metric = "gpu_fences"\n', "", "metric"),
        ("[[codegen.rule]]", "[[codegen.rules]]", "rule"),
        ("[[codegen.rule]]", "[[codegen.rule]", "line"),
    ],
)
def test_a_damaged_policy_names_the_file_and_the_key(tmp_path: Path, old: str, new: str, words: str) -> None:
    shipped = POLICY_FILE.read_text()
    assert old in shipped
    path = tmp_path / "policy.toml"
    path.write_text(shipped.replace(old, new))
    with pytest.raises(TrackerError, match=words) as caught:
        read_policy(path)
    assert str(path) in str(caught.value)
    assert "restore it from git" in str(caught.value)


def test_a_missing_policy_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrackerError, match=r"nothing\.toml"):
        read_policy(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (r"session_spread = .*", "session_spread = nan"),
        (r"session_spread = .*", "session_spread = -1.0"),
        (r"session_spread = .*", "session_spread = 1e9"),
        (r"min_blocks = .*", "min_blocks = 1000000"),
        (r"min_blocks = .*", "min_blocks = 0"),
        (r"min_blocks = .*", "min_blocks = 5\nmin_block = 5"),
    ],
)
def test_a_threshold_that_would_switch_judgement_off_is_refused(
    tmp_path: Path, entry: str, wrong: str
) -> None:
    content, changed = re.subn(f"^{entry}$", wrong, POLICY_FILE.read_text(), count=1, flags=re.M)
    assert changed
    (tmp_path / "policy.toml").write_text(content)
    with pytest.raises(TrackerError, match=r"policy\.toml"):
        read_policy(tmp_path / "policy.toml")


def test_no_rule_at_all_is_refused(tmp_path: Path) -> None:
    timing = POLICY_FILE.read_text().partition("[[codegen.rule]]")[0]
    (tmp_path / "policy.toml").write_text(timing + "[codegen]\nrule = []\n")
    with pytest.raises(TrackerError, match=r"policy\.toml"):
        read_policy(tmp_path / "policy.toml")


@pytest.mark.parametrize(
    "line", ["penalty = 0", "suspect_rate = nan", "min_commits = 1", "spike = 3", "relevant_change = -0.1"]
)
def test_a_threshold_of_detection_that_would_switch_it_off_is_refused(tmp_path: Path, line: str) -> None:
    name = line.split(" ")[0]
    text = [old for old in POLICY_FILE.read_text().splitlines() if not old.startswith(f"{name} =")]
    text.insert(text.index("[detection]") + 1, line)
    broken = tmp_path / "policy.toml"
    broken.write_text("\n".join(text))
    with pytest.raises(TrackerError, match=r"policy\.toml.*git"):
        read_policy(broken)


def test_the_spread_of_a_session_has_one_home(tmp_path: Path) -> None:
    policy = read_policy()
    assert policy.detection.session_spread == policy.timing.session_spread > 0
    path = tmp_path / "policy.toml"
    path.write_text(POLICY_FILE.read_text().replace("[detection]", "[detection]\nsession_spread = 0.5"))
    with pytest.raises(TrackerError, match=r"policy\.toml.*there is one, in \[timing\]"):
        read_policy(path)
