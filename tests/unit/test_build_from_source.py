"""Building a commit, on a small project of Triton's shape: the real pip, and each reason of failure."""

import json
import os
import shutil
import stat
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from triton_stand_in import COMMIT, NAME, SourceBuild, write_project, write_wheel

from scripts.builder.failure import Kind, explain
from scripts.builder.processes import DeadlineError, run_logged
from scripts.builder.settings import available_bytes, read_settings

SHOW_ENVIRONMENT = (
    "import json, os, pathlib\npathlib.Path('seen.json').write_text(json.dumps(dict(os.environ)))"
)
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ on this machine")


@pytest.fixture
def build(tmp_path: Path) -> SourceBuild:
    write_project(tmp_path / "project")
    return SourceBuild(tmp_path)


def plan(build: SourceBuild, text: str) -> None:
    (build.source / "python" / "plan.py").write_text(text)


def seen(build: SourceBuild) -> dict[str, str]:
    return dict(json.loads((build.source / "python" / "seen.json").read_text()))


@pytest.mark.parametrize("at", ["python", "."])
def test_a_commit_is_built_and_kept(tmp_path: Path, at: str) -> None:
    build = SourceBuild(tmp_path)
    write_project(build.source, at=at)
    done = build.run()
    assert done.returncode == 0, done.stderr
    assert [p.name for p in build.out.iterdir()] == [NAME]
    assert [p.name for p in (build.root / "cache").iterdir()] == ["wheel"]
    assert (build.house / COMMIT / NAME).read_bytes() == (build.out / NAME).read_bytes()
    facts = build.facts()
    assert (facts["commit"], facts["provider"], facts["llvm"]) == (COMMIT, "source", "pinned")
    assert build.log.stat().st_size > 0
    # The second time nothing is built, whatever the checkout holds by then.
    plan_file = build.source / at / "plan.py"
    plan_file.write_text("raise SystemExit('must not be built again')")
    (build.out / NAME).unlink()
    done = build.run()
    assert done.returncode == 0, done.stderr
    assert "was built before" in done.stdout
    assert [p.name for p in build.out.iterdir()] == [NAME]


def test_what_the_build_is_told(build: SourceBuild) -> None:
    plan(build, SHOW_ENVIRONMENT)
    assert build.run(MAX_JOBS="3", LDFLAGS="-Wl,-x", TRITON_APPEND_CMAKE_ARGS="-DX=1").returncode == 0
    told = seen(build)
    assert told["TRITON_BUILD_PROTON"] == "OFF"
    assert told["MAX_JOBS"] == "3"
    assert told["LDFLAGS"].startswith("-Wl,-x")
    assert told["TRITON_APPEND_CMAKE_ARGS"] == "-DTRITON_BUILD_UT=OFF -DX=1"
    assert told["TRITON_HOME"].endswith("compiler-cache/toolchains/4713bd4ccc0c0d568f92916e7851d993291742c0")
    if shutil.which("ccache"):
        assert (told["CCACHE_BASEDIR"], told["TRITON_BUILD_WITH_CCACHE"]) == (str(build.source), "true")


def test_what_the_user_set_stays(build: SourceBuild) -> None:
    plan(build, SHOW_ENVIRONMENT)
    assert build.run(TRITON_BUILD_PROTON="ON", TRITON_HOME="/elsewhere").returncode == 0
    assert (seen(build)["TRITON_BUILD_PROTON"], seen(build)["TRITON_HOME"]) == ("ON", "/elsewhere")


def test_toolchains_of_other_pins_stay_up_to_three(build: SourceBuild) -> None:
    pin = build.source / "cmake" / "llvm-hash.txt"
    for digit in "abcd":
        pin.write_text(digit * 40)
        assert build.run(commit=digit * 40).returncode == 0
    homes = {p.name[0] for p in (build.root / "compiler-cache" / "toolchains").iterdir()}
    assert homes == {"b", "c", "d"}


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_tools_of_an_installed_triton_get_into_the_wheels_tree(build: SourceBuild) -> None:
    tools = build.root / "nvidia"
    executable(tools / "bin" / "ptxas", "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.131'\n")
    (tools / "include").mkdir()
    (tools / "include" / "cuda.h").touch()
    plan(build, SHOW_ENVIRONMENT)
    done = build.run(ATOMWATCH_NVIDIA_TOOLS=str(tools))
    assert done.returncode == 0, done.stderr
    backend = build.source / "third_party" / "nvidia" / "backend"
    assert (backend / "bin" / "ptxas").exists()
    assert (backend / "include" / "cuda.h").exists()
    # setup.py downloads what these do not name.
    assert seen(build)["TRITON_PTXAS_PATH"] == str(backend / "bin" / "ptxas")
    assert (build.facts()["nvidia_tools"], build.facts()["nvidia_tools_pinned"]) == ("12.4.131", "12.4.99")


def test_a_system_llvm_is_named(build: SourceBuild) -> None:
    executable(build.root / "llvm" / "bin" / "llvm-config", "#!/bin/sh\necho 19.1.7\n")
    executable(build.root / "llvm" / "bin" / "ld.lld", "#!/bin/sh\n")
    plan(build, SHOW_ENVIRONMENT)
    assert build.run(LLVM_SYSPATH=str(build.root / "llvm")).returncode == 0
    assert build.facts()["llvm"] == "system 19.1.7"
    assert "-fuse-ld=lld" in seen(build)["LDFLAGS"]


@pytest.mark.parametrize("system", [True, False])
def test_only_another_llvm_than_the_pinned_one_may_call_old_what_the_commit_uses(
    build: SourceBuild, system: bool
) -> None:
    executable(build.root / "llvm" / "bin" / "llvm-config", "#!/bin/sh\necho 19.1.7\n")
    plan(build, SHOW_ENVIRONMENT)
    llvm = {"LLVM_SYSPATH": str(build.root / "llvm")} if system else {}
    assert build.run(CXXFLAGS="-g0", **llvm).returncode == 0
    assert seen(build)["CXXFLAGS"] == ("-g0 -Wno-error=deprecated-declarations" if system else "-g0")


# ---- Reasons of failure ----


@needs_compiler
def test_a_compiler_error(build: SourceBuild) -> None:
    (build.source / "lib").mkdir()
    (build.source / "lib" / "x.cpp").write_text("int main() { return no_such_name; }\n")
    plan(build, "import subprocess\nsubprocess.run(['g++', '-c', '../lib/x.cpp'], check=True)")
    report = build.failure()
    assert report["kind"] == Kind.COMPILER
    assert report["transient"] is False
    assert "x.cpp:1:21: error: " in str(report["reason"])
    assert not (build.house / COMMIT).exists()


@needs_compiler
def test_a_killed_compiler_is_out_of_memory_and_gets_one_job_once(build: SourceBuild) -> None:
    executable(build.root / "fake" / "cc1plus", "#!/bin/sh\nkill -9 $$\n")
    plan(
        build,
        "import os, subprocess\n"
        "open('tries', 'a').write(os.environ['MAX_JOBS'])\nopen('x.cpp', 'w').close()\n"
        f"subprocess.run(['g++', '-B{build.root}/fake', '-c', 'x.cpp'], check=True)",
    )
    report = build.failure(MAX_JOBS="4")
    assert (report["kind"], report["transient"]) == (Kind.OUT_OF_MEMORY, True)
    assert (build.source / "python" / "tries").read_text() == "41"


def test_memory_that_suffices_for_one_job(build: SourceBuild) -> None:
    plan(
        build,
        "import os\nif os.environ['MAX_JOBS'] != '1': raise SystemExit('virtual memory exhausted: x')",
    )
    done = build.run(MAX_JOBS="8")
    assert done.returncode == 0, done.stderr
    assert build.facts()["jobs"] == 1


def test_a_timeout(build: SourceBuild) -> None:
    plan(build, "import time\ntime.sleep(60)")
    started_s = time.monotonic()
    report = build.failure(ATOMWATCH_BUILD_DEADLINE_S="3")
    assert time.monotonic() - started_s < 30
    assert (report["kind"], report["transient"]) == (Kind.TIMEOUT, True)


def test_nothing_that_a_build_started_outlives_its_deadline(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('pid', 'w').write(str(child.pid))\ntime.sleep(60)"
    )
    with pytest.raises(DeadlineError):
        run_logged([sys.executable, "-c", program], tmp_path, os.environ, tmp_path / "log", 5.0)
    pid = int((tmp_path / "pid").read_text())
    ends_s = time.monotonic() + 5
    while alive(pid) and time.monotonic() < ends_s:
        time.sleep(0.05)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class _Gone(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path):
    """A web server that has nothing."""
    httpd = HTTPServer(("127.0.0.1", 0), _Gone)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_download_that_is_gone_is_not_tried_again(build: SourceBuild, server: str) -> None:
    plan(build, f"import urllib.request\nurllib.request.urlopen('{server}/llvm.tar.gz')")
    report = build.failure()
    assert (report["kind"], report["transient"]) == (Kind.DOWNLOAD, False)


def test_a_network_that_is_down_is(build: SourceBuild) -> None:
    plan(build, "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/llvm.tar.gz', timeout=5)")
    report = build.failure()
    assert (report["kind"], report["transient"]) == (Kind.DOWNLOAD, True)


def test_a_wheel_without_the_compiler_is_none(build: SourceBuild) -> None:
    plan(build, "files = {'triton/__init__.py': ''}")
    report = build.failure()
    assert "no triton/_C/libtriton" in str(report["reason"])
    assert not list(build.house.rglob("*.whl"))


def test_no_project_at_all(tmp_path: Path) -> None:
    build = SourceBuild(tmp_path)
    build.source.mkdir()
    report = build.failure()
    assert "no setup.py" in str(report["reason"])
    assert report["transient"] is False


def test_building_may_be_forbidden(build: SourceBuild) -> None:
    report = build.failure(ATOMWATCH_BUILD="no")
    assert (report["kind"], report["transient"]) == (Kind.NO_WHEEL, False)
    assert "forbids to build" in str(report["reason"])


@pytest.mark.parametrize("value", ["0", "-1", "many", "nan", "inf", "1e99"])
def test_a_setting_that_is_no_number(build: SourceBuild, value: str) -> None:
    report = build.failure(MAX_JOBS=value)
    assert f"MAX_JOBS='{value}': not a number" in str(report["reason"])
    assert report["kind"] == Kind.TOOLS


def test_tools_that_are_not_there(build: SourceBuild) -> None:
    report = build.failure(ATOMWATCH_NVIDIA_TOOLS=str(build.root))
    assert "no bin/ptxas" in str(report["reason"])
    assert report["kind"] == Kind.TOOLS


def test_a_failed_build_leaves_a_good_wheel_alone(build: SourceBuild) -> None:
    other = write_wheel(build.house / ("d" * 40) / NAME)
    plan(build, "raise SystemExit('x.cpp:1:1: error: y')")
    build.failure()
    assert other.exists()


@pytest.mark.parametrize(
    ("log", "kind", "transient"),
    [
        # A full disk makes compilers fail, and pip say something of its own.
        ("x.cpp:1: error: a\nOSError: [Errno 28] No space left on device", Kind.DISK_FULL, True),
        ("c++: fatal error: Killed signal terminated program cc1plus\nninja: build stopped",
         Kind.OUT_OF_MEMORY, True),
        ("terminate called after throwing an instance of 'std::bad_alloc'", Kind.OUT_OF_MEMORY, True),
        ("urllib.error.HTTPError: HTTP Error 503: Service Unavailable", Kind.DOWNLOAD, True),
        ("urllib.error.HTTPError: HTTP Error 404: Not Found", Kind.DOWNLOAD, False),
        ("ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED]", Kind.DOWNLOAD, True),
        ("fatal: unable to access 'https://x/': Could not resolve host", Kind.DOWNLOAD, True),
        ("ERROR: Could not find a version that satisfies the requirement cmake (from versions: none)",
         Kind.DOWNLOAD, True),
        ("  No CMAKE_CXX_COMPILER could be found.", Kind.TOOLS, True),
        ('  Could not find a package configuration file provided by "MLIR" with any', Kind.TOOLS, True),
        ("RuntimeError: CMake must be installed to build the following", Kind.TOOLS, True),
        ("ERROR: Package 'triton' requires a different Python: 3.14.0 not in '<3.14'", Kind.NO_WHEEL, False),
        ("ld.lld: error: undefined symbol: f", Kind.COMPILER, False),
        ("CMake Error at CMakeLists.txt:67 (find_package):", Kind.COMPILER, False),
        ("CMake Error at /usr/lib/llvm-19/lib/cmake/llvm/LLVMExports.cmake:73 (set_target_properties):",
         Kind.TOOLS, True),
        ("error: subprocess-exited-with-error\nsomething odd", Kind.OTHER, True),
        ("", Kind.OTHER, True),
    ],
)  # fmt: skip
def test_what_a_log_tells(log: str, kind: Kind, transient: bool) -> None:
    error = explain(log, "/src")
    assert (error.kind, error.transient) == (kind, transient)
    assert str(error).startswith(kind.value)


def test_a_reason_of_cmake_is_told_whole() -> None:
    log = """CMake Error at /opt/llvm/lib/cmake/llvm/LLVMExports.cmake:73 (set_target_properties):
      The link interface of target "LLVMSupport" contains:

        zstd::libzstd_shared

      but the target was not found."""
    assert 'target "LLVMSupport" contains: zstd::libzstd_shared but the target' in str(explain(log, "/src"))


def test_a_reason_is_short_and_has_no_path_of_this_machine() -> None:
    reason = str(explain("/home/me/src/lib/x.cpp:1:1: error: \x1b[31m" + "y" * 9999, "/home/me/src"))
    assert reason.startswith("compiler error: lib/x.cpp:1:1: error: [31myyy")
    assert len(reason) < 350


def test_jobs_respect_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert available_bytes() > 0
    monkeypatch.setattr("scripts.builder.settings.available_bytes", lambda: 5 * 2**30)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert read_settings({}, tmp_path / "out").jobs == 2
    monkeypatch.setattr("scripts.builder.settings.available_bytes", lambda: 0)
    assert read_settings({}, tmp_path / "out").jobs == 1
