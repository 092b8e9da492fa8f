"""The script that asv runs to get a wheel, alone in a process, with a pip that says what pip would say."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from history_builders import Repository

from scripts import build_triton
from scripts.builder.failure import BuildError, Kind
from scripts.builder.index import release_of
from scripts.builder.settings import Settings, read_settings

ROOT = Path(__file__).resolve().parents[2]
WHEEL = "triton-3.2.0-cp311-cp311-manylinux_2_17_x86_64.whl"

# Answers `python -m pip download ... --dest FOLDER triton==3.2.0` as a file beside it tells.
FAKE_PIP = """
import json, pathlib, sys
plan = json.loads(pathlib.Path(__file__).with_name("plan.json").read_text())
pathlib.Path(__file__).with_name("called.json").write_text(json.dumps(sys.argv[1:]))
dest = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
for name in plan["wheels"]:
    (dest / name).write_text("from the index")
print(plan["says"])
sys.exit(plan["status"])
"""


@dataclass
class Build:
    """A folder with everything that asv gives the script."""

    root: Path

    @property
    def out(self) -> Path:
        return self.root / "cache" / "wheel"

    @property
    def pip(self) -> Path:
        return self.root / "fake" / "pip"

    def pip_will(self, status: int = 0, says: str = "", wheels: tuple[str, ...] = ()) -> None:
        self.pip.mkdir(parents=True, exist_ok=True)
        (self.pip / "__init__.py").touch()
        (self.pip / "__main__.py").write_text(FAKE_PIP)
        plan = {"status": status, "says": says, "wheels": wheels}
        (self.pip / "plan.json").write_text(json.dumps(plan))

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        (self.root / "cache").mkdir(exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "scripts.build_triton",
            "--commit",
            "c" * 40,
            "--src",
            self.root,
            "--out",
            self.out,
        ]
        report = {"ATOMWATCH_BUILD_REPORT": str(self.root / "report.json")}
        own = {name: value for name, value in os.environ.items() if not name.startswith("ATOMWATCH_")}
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**own, "PYTHONPATH": str(self.root / "fake"), **report, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def failure(self, **environment: str) -> dict[str, Any]:
        """The report of a build that must fail, leaving no wheel and no traceback."""
        done = self.run(**environment)
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stderr
        assert list(self.out.glob("*")) == []
        report: dict[str, Any] = json.loads((self.root / "report.json").read_text())
        assert report["reason"] in done.stderr
        return report


@pytest.fixture
def build(tmp_path: Path) -> Build:
    (tmp_path / "release.json").write_text('{"version": "3.2.0", "tag": "v3.2.0"}')
    return Build(tmp_path)


def test_the_one_wheel_of_the_release(build: Build) -> None:
    build.pip_will(wheels=(WHEEL,), says="Successfully downloaded triton")
    done = build.run()
    assert done.returncode == 0, done.stderr
    assert [p.name for p in build.out.iterdir()] == [WHEEL]
    assert "Successfully downloaded" in done.stdout
    called = json.loads((build.pip / "called.json").read_text())
    assert (called[0], called[-1]) == ("download", "triton==3.2.0")
    assert {"--no-deps", "--only-binary=:all:"} <= set(called)
    # asv's cache folder holds the wheel and nothing of the download.
    assert [p.name for p in (build.root / "cache").iterdir()] == ["wheel"]
    assert not (build.root / "report.json").exists()


def test_a_stale_wheel_is_replaced(build: Build) -> None:
    build.out.mkdir(parents=True)
    (build.out / "triton-3.1.0-cp311-cp311-linux.whl").write_text("stale")
    build.pip_will(wheels=(WHEEL,))
    assert build.run().returncode == 0
    assert [p.name for p in build.out.iterdir()] == [WHEEL]


def test_a_wheel_that_waits_is_taken_and_pip_is_not_asked(build: Build) -> None:
    house = build.root / "house"
    house.mkdir()
    (house / "triton-3.2.0.post1-cp311-cp311-linux.whl").write_text("another release")
    (house / WHEEL).write_text("waited")
    build.pip_will(status=1, says="must not be asked")
    done = build.run(ATOMWATCH_WHEELHOUSE=str(house))
    assert done.returncode == 0, done.stderr
    assert (build.out / WHEEL).read_text() == "waited"
    assert not (build.pip / "called.json").exists()


def test_an_empty_wheelhouse_is_no_obstacle(build: Build) -> None:
    build.pip_will(wheels=(WHEEL,))
    assert build.run(ATOMWATCH_WHEELHOUSE=str(build.root / "none")).returncode == 0


@pytest.mark.parametrize(
    ("says", "reason", "transient"),
    [
        (
            "ERROR: Could not find a version that satisfies the requirement triton==3.2.0"
            " (from versions: 3.3.0, 3.4.0)\n"
            "ERROR: No matching distribution found for triton==3.2.0",
            "no wheel of triton==3.2.0 for Python",
            False,
        ),
        (
            # A portal, a proxy or a dead mirror: it answers, and lists nothing.
            "ERROR: Could not find a version that satisfies the requirement triton==3.2.0"
            " (from versions: none)\n"
            "ERROR: No matching distribution found for triton==3.2.0",
            "lists no release at all",
            True,
        ),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError(...)': /simple/triton/\n"
            "ERROR: No matching distribution found for triton==3.2.0",
            "the package index is not reachable",
            True,
        ),
        ("pip._vendor.urllib3.exceptions.ReadTimeoutError: Read timed out.", "not reachable", True),
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full", True),
        ("ERROR: something new\n", "pip download triton==3.2.0 failed: ERROR: something new", True),
        ("", "no message", True),
    ],
)
def test_the_reason_why_there_is_no_wheel(build: Build, says: str, reason: str, transient: bool) -> None:
    build.pip_will(status=1, says=says)
    report = build.failure()
    assert reason in report["reason"]
    assert report["transient"] is transient


@pytest.mark.parametrize("wheels", [(), (WHEEL, "numpy-1.0-py3-none-any.whl")])
def test_not_exactly_one_wheel_is_a_failure(build: Build, wheels: tuple[str, ...]) -> None:
    build.pip_will(wheels=wheels, says="odd")
    assert "odd" in build.failure()["reason"]


def test_a_commit_that_is_no_release(build: Build) -> None:
    (build.root / "release.json").unlink()
    report = build.failure()
    assert report["reason"] == f"no setup.py in {build.root.name} nor in its python/: no commit of Triton"
    assert report["transient"] is False


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"7", b"\xff"])
def test_a_release_that_is_damaged(build: Build, content: bytes) -> None:
    (build.root / "release.json").write_bytes(content)
    report = build.failure()
    assert "release.json: not a release" in report["reason"]
    assert "delete .cache/releases.git" in report["reason"]
    assert report["transient"] is False


def test_a_folder_that_cannot_be_made(build: Build) -> None:
    (build.root / "cache").mkdir()
    build.out.write_text("a file stands in the way")
    done = build.run()
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert json.loads((build.root / "report.json").read_text())["transient"] is True


# ---- A commit of triton-lang/triton that is a release by its tag ----


@pytest.fixture
def tagged(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "triton")
    repository.commit("base")
    repository.commit("release")
    repository.git("tag", "v3.2.0")
    repository.git("tag", "nightly")
    repository.git("tag", "v3.3.0-rc1")
    return repository


def test_a_tag_names_the_release(tagged: Repository) -> None:
    assert release_of(tagged.folder, tagged.head()) == "3.2.0"
    assert release_of(tagged.folder, tagged.git("rev-parse", "HEAD~1")) is None
    assert release_of(tagged.folder, "--help") is None
    assert release_of(tagged.folder.parent / "nowhere", tagged.head()) is None


def test_a_tagged_commit_that_the_index_does_not_offer_is_built(
    tagged: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offers_nothing(version: str, scratch: Path) -> Path:
        raise BuildError(f"no wheel of triton=={version}", False, Kind.NO_WHEEL)

    def builds(source: Path, scratch: Path, settings: Settings) -> tuple[Path, dict[str, object]]:
        (scratch / WHEEL).write_text("built")
        return scratch / WHEEL, {}

    monkeypatch.setattr(build_triton, "download_release", offers_nothing)
    monkeypatch.setattr(build_triton, "build_from_source", builds)
    settings = read_settings({}, tmp_path / "cache" / "out")
    wheel = build_triton.get_wheel(tagged.head(), tagged.folder, tmp_path / "cache" / "out", settings)
    assert wheel.read_text() == "built"

    def is_down(version: str, scratch: Path) -> Path:
        raise BuildError("the index is not reachable", True, Kind.DOWNLOAD)

    # The release's own wheel is cheaper than a build, so it is waited for.
    monkeypatch.setattr(build_triton, "download_release", is_down)
    with pytest.raises(BuildError, match="not reachable"):
        build_triton.get_wheel(tagged.head(), tagged.folder, tmp_path / "cache" / "out", settings)
    assert wheel.read_text() == "built"
