"""The evidence store's reading side: finds every damage, and never leaves its folder."""

import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
import zstandard
from builders import HD64, OLD, TARGET, record_document, write_object, write_record

from scripts.tracker.errors import TrackerError
from scripts.tracker.model import Case
from scripts.tracker.store import EvidenceStore, atomic_write, read_regular, sweep

PTX = b"red.global.add.f32\n" * 500


@pytest.fixture
def store(tmp_path: Path) -> EvidenceStore:
    """A store with one whole record of two objects."""
    objects = {"ptx": write_object(tmp_path, PTX), "sass": write_object(tmp_path, b"REDG")}
    write_record(tmp_path, record_document(objects=objects))
    return EvidenceStore(tmp_path)


def object_file(store: EvidenceStore) -> Path:
    """The file of the larger object."""
    return max(store.root.glob("objects/*/*.zst"), key=lambda path: path.stat().st_size)


def record_file(store: EvidenceStore) -> Path:
    return next(store.root.glob("records/*/*/*/*.json"))


def only_problem(store: EvidenceStore) -> tuple[Path, str]:
    [problem] = store.verify()
    return problem.path, problem.reason


def load(store: EvidenceStore) -> Any:
    return store.load(TARGET, OLD.commit, HD64, "atomic_add")


def test_a_whole_store_has_no_problems(store: EvidenceStore) -> None:
    assert list(store.verify()) == []
    evidence = load(store)
    assert (evidence.commit, evidence.status) == (OLD.commit, "ok")
    assert store.text(evidence.kernels[0].objects["ptx"]) == PTX.decode()
    assert store.count_records(TARGET, OLD.commit) == 1


def test_an_absent_store_is_empty(tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path / "nowhere")
    assert list(store.verify()) == []
    assert load(store) is None
    assert store.count_records(TARGET, OLD.commit) == 0


def test_every_flipped_byte_of_an_object_is_found(store: EvidenceStore) -> None:
    path = object_file(store)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x20]) + whole[position + 1 :])
        # A flip in the frame's optional flags may leave the content whole; then it is no damage.
        found = [problem.path for problem in store.verify()]
        if found != [path]:
            assert zstandard.ZstdDecompressor().decompress(path.read_bytes()) == PTX


def test_an_object_cut_anywhere_is_found(store: EvidenceStore) -> None:
    path = object_file(store)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert only_problem(store)[0] == path


def test_an_object_under_the_name_of_another(store: EvidenceStore) -> None:
    path = object_file(store)
    path.write_bytes(zstandard.ZstdCompressor().compress(b"something else"))
    assert only_problem(store) == (path, "its content is not what its name says")
    with pytest.raises(TrackerError, match=r"\.zst: its content is not .* delete it"):
        store.text(path.stem)


@pytest.mark.parametrize("known_size", [True, False])
def test_a_bomb_is_not_unpacked(store: EvidenceStore, known_size: bool) -> None:
    path = object_file(store)
    zeros = b"\0" * (65 * 2**20)
    path.write_bytes(zstandard.ZstdCompressor(write_content_size=known_size).compress(zeros))
    assert path.stat().st_size < 10_000
    assert "more than any stage has" in only_problem(store)[1]


def test_a_missing_object_is_found(store: EvidenceStore) -> None:
    path = object_file(store)
    path.unlink()
    where, reason = only_problem(store)
    assert where == record_file(store)
    assert "its ptx is missing" in reason
    with pytest.raises(TrackerError, match="run make track again"):
        store.text(path.stem)


@pytest.mark.parametrize("beside", [object_file, record_file])
def test_what_an_interrupted_write_left_is_found(store: EvidenceStore, beside: Any) -> None:
    left = beside(store).parent / ".tmp-x1"
    left.write_bytes(b"half")
    assert only_problem(store) == (left, "left by an interrupted write: delete it")


def test_a_flipped_byte_of_a_record_is_found(store: EvidenceStore) -> None:
    path = record_file(store)
    path.write_text(path.read_text().replace('"atom.add.v4.f32": 8', '"atom.add.v4.f32": 9'))
    where, reason = only_problem(store)
    assert where == path
    assert "checksum" in reason
    with pytest.raises(TrackerError, match="checksum") as caught:
        load(store)
    assert str(path) in str(caught.value)


def test_a_record_of_another_schema_is_not_guessed_at(store: EvidenceStore) -> None:
    write_record(store.root, record_document(schema=2))
    with pytest.raises(TrackerError, match="schema 2, this program reads 1"):
        load(store)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b'{"record": 1, "sha256": 2}', b"\xff", b"[" * 100_000],
    ids=["empty", "cut", "list", "number", "no record", "not UTF-8", "deep"],
)
def test_what_is_no_record_is_named(store: EvidenceStore, content: bytes) -> None:
    path = record_file(store)
    path.write_bytes(content)
    assert only_problem(store)[0] == path
    with pytest.raises(TrackerError) as caught:
        load(store)
    assert str(path) in str(caught.value)


def test_a_record_with_a_field_of_another_type(store: EvidenceStore) -> None:
    write_record(store.root, record_document(kernels=[{"role": 5}]))
    assert only_problem(store)[0] == record_file(store)


@pytest.mark.parametrize("digest", ["../../../etc/passwd", "", "AB" * 32, "0" * 63, "0" * 64 + "\n"])
def test_a_digest_that_is_no_digest_is_a_problem_of_its_record(store: EvidenceStore, digest: str) -> None:
    path = write_record(store.root, record_document(objects={"ptx": digest}))
    where, reason = only_problem(store)
    assert where == path
    assert "not the name of an object" in reason
    with pytest.raises(TrackerError, match="not the name of an object"):
        store.text(digest)


def test_a_bad_digest_does_not_end_the_check(store: EvidenceStore) -> None:
    write_record(store.root, record_document(objects={"ptx": "../x"}))
    later = write_record(store.root, record_document(variant="store", objects={"ptx": "0" * 64}))
    assert later in [problem.path for problem in store.verify()]


@pytest.mark.parametrize("bad", ["..", "../x", "a/b", "", ".hidden", "a\n", "a\0"])
def test_names_of_other_machines_do_not_leave_the_store(store: EvidenceStore, bad: str) -> None:
    for arguments in (
        (bad, OLD.commit, HD64, "atomic_add"),
        (TARGET, bad, HD64, "atomic_add"),
        (TARGET, OLD.commit, HD64, bad),
        (TARGET, OLD.commit, Case(64, True, f"/{bad}"), "atomic_add"),
    ):
        with pytest.raises(TrackerError, match="cannot be the name"):
            store.load(*arguments)


def test_a_record_in_the_place_of_another_is_refused(store: EvidenceStore) -> None:
    path = record_file(store)
    path.rename(path.with_name("inline_asm.json"))
    with pytest.raises(TrackerError, match=r"inline_asm\.json.*record of .* atomic_add"):
        store.load(TARGET, OLD.commit, HD64, "inline_asm")


def test_a_write_that_fails_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_in_place_of_a_file_is_no_endless_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(Path("/dev/zero"))
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(ValueError, match="11 bytes"):
        read_regular(tmp_path / "large", limit_bytes=10)
    assert read_regular(tmp_path / "large") == b"x" * 11


def test_what_killed_writers_left_is_swept_and_a_living_writer_keeps_its_file(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    left, kept, result = (tmp_path / "machine" / name for name in (".tmp-left", ".tmp-kept", "a.json"))
    for path in (left, kept, result):
        path.write_text("{}")
    with kept.open() as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        sweep(tmp_path)
    assert sorted(path.name for path in (tmp_path / "machine").iterdir()) == [".tmp-kept", "a.json"]
