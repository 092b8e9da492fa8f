"""What is committed: text that we wrote, nothing built and nothing fetched."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_nothing_built_or_fetched_is_committed() -> None:
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    names = [name for name in done.stdout.decode().split("\0") if name]
    assert names
    for name in names:
        content = (ROOT / name).read_bytes() if (ROOT / name).is_file() else b""
        assert b"\0" not in content, f"{name} is no text"
        assert len(content) < 500_000, f"{name} is too large to have been written"
