"""Wheels that somebody else built, by folder, index file and page; and that building is the last resort."""

import functools
import hashlib
import json
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from triton_stand_in import COMMIT, NAME, PLATFORM, TAG, SourceBuild, write_project, write_wheel

from scripts.builder.failure import BuildError
from scripts.builder.prebuilt import find_prebuilt

NAMED = f"triton-3.1.0+git{COMMIT[:8]}-{TAG}-{TAG}-{PLATFORM}.whl"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def name_of(found: Path | None) -> str | None:
    return found.name if found else None


@pytest.mark.parametrize(
    ("version", "found"),
    [
        (f"3.1.0+git{COMMIT[:8]}", True),
        (f"3.1.0+g{COMMIT[:7]}", True),
        (f"3.1.0+{COMMIT}", True),
        (f"3.1.0+git{COMMIT[:8]}.cu128", True),
        (f"3.1.0+git{COMMIT[:6]}", False),  # too short to name a commit
        ("3.1.0+gitdddddddd", False),
        ("3.1.0", False),
        ("3.1.0+cu128", False),
    ],
)
def test_a_folder_by_local_version(tmp_path: Path, scratch: Path, version: str, found: bool) -> None:
    write_wheel(tmp_path / "wheels" / f"triton-{version}-{TAG}-{TAG}-{PLATFORM}.whl")
    assert (find_prebuilt(str(tmp_path / "wheels"), COMMIT, scratch) is not None) is found


def test_of_wheels_for_many_pythons_ours_is_taken(tmp_path: Path, scratch: Path) -> None:
    for tag in ("cp38", TAG, "cp399"):
        write_wheel(tmp_path / "wheels" / f"triton-3.1.0+git{COMMIT[:8]}-{tag}-{tag}-{PLATFORM}.whl")
    assert name_of(find_prebuilt(str(tmp_path / "wheels"), COMMIT, scratch)) == NAMED


def test_a_wheel_for_another_python_is_said(tmp_path: Path, scratch: Path) -> None:
    write_wheel(tmp_path / "wheels" / f"triton-3.1.0+git{COMMIT[:8]}-cp38-cp38-{PLATFORM}.whl")
    with pytest.raises(BuildError, match="no wheel of Triton for this Python") as caught:
        find_prebuilt(str(tmp_path / "wheels"), COMMIT, scratch)
    assert not caught.value.transient


def index(tmp_path: Path, entry: object) -> str:
    path = tmp_path / "index.json"
    path.write_text(json.dumps({COMMIT: entry}))
    return str(path)


def test_an_index_file(tmp_path: Path, scratch: Path) -> None:
    wheel = write_wheel(tmp_path / "deep" / NAME)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for entry in (f"deep/{NAME}", f"deep/{NAME}#sha256={digest}", str(wheel)):
        assert name_of(find_prebuilt(index(tmp_path, entry), COMMIT, scratch)) == NAME
    assert find_prebuilt(index(tmp_path, f"deep/{NAME}"), "d" * 40, scratch) is None


def test_a_wheel_with_another_checksum_is_refused(tmp_path: Path, scratch: Path) -> None:
    write_wheel(tmp_path / NAME)
    with pytest.raises(BuildError, match="not the file that its sha256 names"):
        find_prebuilt(index(tmp_path, f"{NAME}#sha256={'0' * 64}"), COMMIT, scratch)
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("content", ["{", json.dumps({COMMIT: 7}), json.dumps({COMMIT: ["x"]})])
def test_a_damaged_index(tmp_path: Path, scratch: Path, content: str) -> None:
    (tmp_path / "index.json").write_text(content)
    with pytest.raises(BuildError, match=r"index\.json: not an index of wheels"):
        find_prebuilt(str(tmp_path / "index.json"), COMMIT, scratch)


@pytest.mark.parametrize("where", ["nowhere", "http://127.0.0.1:9/", "ftp://127.0.0.1/x", "http://[broken"])
def test_a_place_that_cannot_be_read(tmp_path: Path, scratch: Path, where: str) -> None:
    with pytest.raises(BuildError, match="cannot be read") as caught:
        find_prebuilt(where, COMMIT, scratch)
    assert caught.value.transient


def test_an_entry_whose_wheel_is_not_there(tmp_path: Path, scratch: Path) -> None:
    with pytest.raises(BuildError, match="cannot be fetched"):
        find_prebuilt(index(tmp_path, NAME), COMMIT, scratch)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_page_of_links(tmp_path: Path, scratch: Path) -> None:
    write_wheel(tmp_path / "web" / NAMED)
    page = f'<a href="{NAMED.replace("+", "%2B")}">a</a> <a href="gone%2Bgit{"d" * 8}.whl">b</a><a>c</a>'
    (tmp_path / "web" / "index.html").write_text(page)
    handler = functools.partial(_Quiet, directory=str(tmp_path / "web"))
    with HTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        where = f"http://127.0.0.1:{httpd.server_port}/"
        try:
            assert name_of(find_prebuilt(where, COMMIT, scratch)) == NAMED
            assert find_prebuilt(where, "d" * 40, scratch) is None
        finally:
            httpd.shutdown()
            thread.join()


def test_what_others_built_is_taken_before_building(tmp_path: Path) -> None:
    build = SourceBuild(tmp_path)
    write_project(build.source, plan="raise SystemExit('must not be built')")
    write_wheel(tmp_path / "wheels" / NAMED, "built elsewhere")
    done = build.run(ATOMWATCH_PREBUILT=str(tmp_path / "wheels"))
    assert done.returncode == 0, done.stderr
    assert [p.name for p in build.out.iterdir()] == [NAMED]
    assert (tmp_path / "wheels" / NAMED).exists()
    # What is built here before comes first.
    write_wheel(build.house / COMMIT / NAME)
    assert build.run(ATOMWATCH_PREBUILT=str(tmp_path / "wheels")).returncode == 0
    assert [p.name for p in build.out.iterdir()] == [NAME]
