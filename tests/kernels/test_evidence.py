"""The evidence store never holds half of anything, and knows which of its records are still good."""

import errno
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kernels import record as recording
from kernels.compile import Case
from kernels.evidence import SCHEMA, EvidenceWriter, atomic_write
from kernels.fingerprint import fingerprint

ROOT = Path(__file__).resolve().parents[2]
CASE = Case(64, True, "fp16")


def files_in(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def put_example(writer: EvidenceWriter, found_by: str = "now") -> tuple[Path, dict[str, Any]]:
    objects = {stage: writer.put_object(f"text of {stage}".encode()) for stage in ("ttir", "ptx")}
    record = {"schema": SCHEMA, "fingerprint": found_by, "kernels": [{"objects": objects}]}
    path = writer.record_path("cuda:90", "abc", CASE.slug, "store")
    writer.put_record(path, record)
    return path, record


def test_objects_are_named_by_what_they_hold(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path)
    digest = writer.put_object(b"ptx" * 1000)
    assert digest == hashlib.sha256(b"ptx" * 1000).hexdigest()
    (path,) = files_in(tmp_path)
    assert path == tmp_path / "objects" / digest[:2] / f"{digest}.zst"
    assert zstandard.ZstdDecompressor().decompress(path.read_bytes()) == b"ptx" * 1000
    assert path.stat().st_mode & 0o777 == 0o644


def test_the_same_object_is_written_once(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path)
    digest = writer.put_object(b"once")
    (path,) = files_in(tmp_path)
    before = path.stat()
    assert writer.put_object(b"once") == digest
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_record_survives_the_way_there_and_back(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path)
    path, record = put_example(writer)
    assert path == tmp_path / "records" / "cuda-90" / "abc" / "hd64-causal-fp16" / "store.json"
    assert writer.load_current(path, "now") == record


@pytest.mark.parametrize("step", ["pathlib.Path.replace", "os.fsync", "os.fdopen"])
def test_a_full_disk_leaves_nothing_behind(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = EvidenceWriter(tmp_path)
    path, record = put_example(writer)
    before = {file: file.read_bytes() for file in files_in(tmp_path)}

    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(step, full)
        with pytest.raises(OSError, match="No space left"):
            writer.put_object(b"new")
        with pytest.raises(OSError, match="No space left"):
            writer.put_record(path, record | {"fingerprint": "later"})
    assert {file: file.read_bytes() for file in files_in(tmp_path)} == before


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "file", b"content")
    assert files_in(tmp_path) == []


def test_writers_at_the_same_time_leave_a_valid_store(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys\n"
        "from kernels.evidence import EvidenceWriter\n"
        "writer = EvidenceWriter(pathlib.Path(sys.argv[1]))\n"
        "input()\n"  # both are ready: go
        "for turn in range(100):\n"
        "    objects = {str(n): writer.put_object(b'%d %d' % (turn, n)) for n in range(3)}\n"
        "    record = {'schema': 1, 'fingerprint': 'now', 'writer': sys.argv[2]}\n"
        "    record['kernels'] = [{'objects': objects}]\n"
        "    writer.put_record(writer.record_path('cuda:90', 'abc', 'case', 'store'), record)\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", program, tmp_path, name], cwd=ROOT, stdin=subprocess.PIPE)
        for name in ("first", "second")
    ]
    for process in writers:
        process.stdin.write(b"\n")
        process.stdin.flush()
    path = tmp_path / "records" / "cuda-90" / "abc" / "case" / "store.json"
    reader = EvidenceWriter(tmp_path)
    while any(process.poll() is None for process in writers):
        # A reader meanwhile sees no record or a whole one.
        assert not path.exists() or reader.load_current(path, "now") is not None
    for process in writers:
        process.stdin.close()
        assert process.wait() == 0
    assert reader.load_current(path, "now")["writer"] in ("first", "second")
    stored = files_in(tmp_path / "objects")
    assert len(stored) == 300
    for file in stored:
        content = zstandard.ZstdDecompressor().decompress(file.read_bytes())
        assert hashlib.sha256(content).hexdigest() == file.stem
    assert len(files_in(tmp_path)) == 301


def test_a_damaged_record_is_made_anew(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path)
    path, _ = put_example(writer)
    whole = path.read_bytes()
    for position in range(len(whole)):
        flipped = bytearray(whole)
        flipped[position] ^= 1
        path.write_bytes(flipped)
        assert writer.load_current(path, "now") is None, position
        path.write_bytes(whole[:position])
        assert writer.load_current(path, "now") is None, position


@pytest.mark.parametrize("text", ["[]", "null", "3", '{"record": []}', '{"record": {"kernels": 1}}', '"x"'])
def test_other_json_is_no_record(text: str, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(text)
    assert EvidenceWriter(tmp_path).load_current(tmp_path / "record.json", "now") is None


def test_a_record_of_other_sources_is_made_anew(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path)
    path, _ = put_example(writer)
    assert writer.load_current(path, "later") is None
    assert writer.load_current(path.with_name("none.json"), "now") is None


def test_a_record_without_all_its_objects_is_made_anew(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path)
    path, _ = put_example(writer)
    files_in(tmp_path / "objects")[0].unlink()
    assert writer.load_current(path, "now") is None


def test_a_number_that_json_lacks_is_refused(tmp_path: Path) -> None:
    writer = EvidenceWriter(tmp_path)
    with pytest.raises(ValueError, match="JSON compliant"):
        writer.put_record(tmp_path / "record.json", {"metric": float("nan")})
    assert files_in(tmp_path) == []


def test_a_current_record_is_used_without_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_fresh(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(recording, "compile_fresh", compile_fresh)
    writer = EvidenceWriter(tmp_path)
    path, record = put_example(writer, fingerprint())
    assert recording.record_one(writer, "abc", "cuda:90", CASE, "store") == record
    # The same commit's record by older sources does not count.
    put_example(writer, "older")
    with pytest.raises(AssertionError, match="compiled again"):
        recording.record_one(writer, "abc", "cuda:90", CASE, "store")
    assert json.loads(path.read_bytes())["record"]["fingerprint"] == "older"


def test_temporary_files_lie_beside_their_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename from another file system would not be atomic."""
    renamed = []
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, to: (renamed.append((self, to)), replace(self, to))[1])
    EvidenceWriter(tmp_path).put_object(b"content")
    ((source, target),) = renamed
    assert source.parent == target.parent
    assert list(source.parent.iterdir()) == [target]


def test_a_damaged_object_is_written_anew(tmp_path: Path) -> None:
    """Its name is its content's, so it would otherwise stay damaged for ever."""
    writer = EvidenceWriter(tmp_path)
    digest = writer.put_object(b"a text")
    path = tmp_path / "objects" / digest[:2] / f"{digest}.zst"
    record = {"schema": SCHEMA, "fingerprint": "f", "kernels": [{"objects": {"ptx": digest}}]}
    record_path = writer.record_path("cuda:90", "c", "case", "v")
    writer.put_record(record_path, record)
    assert writer.load_current(record_path, "f") == record
    path.write_bytes(path.read_bytes()[:-1])
    assert writer.load_current(record_path, "f") is None
    assert writer.put_object(b"a text") == digest
    assert writer.load_current(record_path, "f") == record
