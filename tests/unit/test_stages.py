"""Which stage did it: outcomes of each kind, what is unknown, and the answer in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from builders import HD64, NEW, OLD, PATH, evidence, finding, measured, write_object

from scripts.tracker.excerpt import excerpt
from scripts.tracker.model import Commit, Evidence, Kernel, Stage, Verdict
from scripts.tracker.stages import StageComparer, StageOutcome, StagesReport, with_stages
from scripts.tracker.store import EvidenceStore

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
# A kernel of one loop with one write of dQ, as short as each stage allows.
TEXTS = {
    "ttir": """\
  %0 = tt.dot %a, %b, %c : tensor<64x128xf16> * tensor<128x64xf16> -> tensor<64x64xf32>
  %1 = tt.atomic_rmw fadd, acq_rel, gpu, %p, %0, %m : (tensor<64x64x!tt.ptr<f32>>, tensor<64x64xf32>, \
tensor<64x64xi1>) -> tensor<64x64xf32>""",
    "ttgir": """\
#blocked = #ttg.blocked<{sizePerThread = [1, 4], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, warpsPerCTA = [4, 2]}>
  %0 = tt.dot %a, %b, %c : tensor<64x128xf16> * tensor<128x64xf16> -> tensor<64x64xf32, #mma>
  %1 = ttg.convert_layout %0 : tensor<64x64xf32, #mma> -> tensor<64x64xf32, #blocked>
  %2 = tt.atomic_rmw fadd, acq_rel, gpu, %p, %1, %m : (tensor<64x64x!tt.ptr<f32>, #blocked>, \
tensor<64x64xf32, #blocked>, tensor<64x64xi1, #blocked>) -> tensor<64x64xf32, #blocked>""",
    "llir": """\
1:
  tail call void asm sideeffect "wgmma.wait_group.sync.aligned 0;", ""()
  store <2 x float> %2, ptr addrspace(3) %3, align 8
  tail call void @llvm.nvvm.barrier0()
  %4 = load <4 x float>, ptr addrspace(3) %3, align 16
  %5 = tail call i32 asm sideeffect "@$3 atom.global.gpu.acq_rel.add.f32 $0, [ $1 + 0 ], $2;", "=r,l"(i32 %4)
  br i1 %6, label %1, label %7
7:
  ret void""",
    "ptx": """\
$L__BB0_1:
	wgmma.wait_group.sync.aligned 0;
	st.shared.v2.f32 	[%r1], {%f1, %f2};
	bar.sync 	0;
	ld.shared.v4.f32 	{%f1, %f2, %f3, %f4}, [%r1];
	@%p1 atom.global.gpu.acq_rel.add.f32 %r2, [ %rd1 + 0 ], %r3;
	@%p2 bra 	$L__BB0_1;
	ret;""",
    "sass": """\
.L_x_1:
        /*0000*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0010*/                   STS.64 [R2], R4 ;
        /*0020*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0030*/                   LDS.128 R4, [R2] ;
        /*0040*/                   MEMBAR.ALL.GPU ;
        /*0050*/                   REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R4 ;
        /*0060*/              @!P0 BRA `(.L_x_1) ;
        /*0070*/                   EXIT ;""",
}
# For each stage: (what to replace, by other names, by a change elsewhere, by a change on dQ's path).
CHANGES = {
    "ttir": (
        ("%0", "%dq"),
        ("  %0", "  %x = tt.trans %y : tensor<2x2xf32>\n  %0"),
        ("fadd, acq_rel", "fadd, relaxed"),
    ),
    "ttgir": (
        ("#blocked", "#blocked7"),
        ("  %0", "  %x = tt.trans %y : tensor<2x2xf32>\n  %0"),
        ("[1, 4]", "[1, 2]"),
    ),
    "llir": (("%4", "%44"), ("  br i1", "  %9 = fadd float %4, %4\n  br i1"), ("add.f32", "add.v4.f32")),
    "ptx": (
        ("%r2", "%r22"),
        ("	@%p2 bra", "	add.f32 %f9, %f1, %f1;\n	@%p2 bra"),
        ("add.f32", "add.v4.f32"),
    ),
    "sass": (
        ("R4", "R8"),
        ("        /*0060*/", "        /*0058*/ IADD3 R1, R1, R1, RZ ;\n        /*0060*/"),
        ("REDG.E.ADD.F32", "ATOMG.E.ADD.F32x4"),
    ),
}


def record(commit: Commit, texts: dict[str, str], role: str = "backward") -> Evidence:
    """A record whose objects are named by their own text: the reader gives the name back."""
    kernel = Kernel(role, "code", {}, dict(texts))
    return Evidence(commit.commit, commit.label, "v", "atomic_add", "ok", None, (kernel,))


def compared(before: dict[str, str], after: dict[str, str], role: str = "backward") -> StagesReport:
    return StageComparer(lambda digest: digest).compare(record(OLD, before, role), record(NEW, after, role))


def changed(stage: str, how: int) -> dict[str, str]:
    old, new = CHANGES[stage][how]
    assert old in TEXTS[stage]
    return {**TEXTS, stage: TEXTS[stage].replace(old, new)}


def outcome(report: StagesReport, stage: str) -> StageOutcome:
    return next(c.outcome for c in report.comparisons if c.stage == stage)


def test_the_same_texts_are_the_same_in_every_stage() -> None:
    report = compared(TEXTS, TEXTS)
    assert [c.outcome for c in report.comparisons] == [StageOutcome.SAME] * 5
    assert report.explain() == "dQ's path is the same in every stage. So is the rest of the kernel."
    assert report.first_changed_stage is None
    assert report.excerpt is None


@pytest.mark.parametrize("stage", list(Stage))
def test_other_names_are_no_difference(stage: Stage) -> None:
    report = compared(TEXTS, changed(stage, 0))
    assert outcome(report, stage) is StageOutcome.RENAMED
    assert report.first_changed_stage is None
    assert "So is the rest, but for names." in report.explain()


@pytest.mark.parametrize("stage", list(Stage))
def test_a_change_elsewhere_is_not_on_dqs_path(stage: Stage) -> None:
    report = compared(TEXTS, changed(stage, 1))
    assert outcome(report, stage) is StageOutcome.ELSEWHERE
    assert report.first_changed_stage is None
    assert f"the same in every stage. The rest of the kernel first differs in {stage} (" in report.explain()


def test_the_operations_that_changed_most_are_named() -> None:
    fences = "  ttng.fence_async_shared {bCluster = false}\n"
    trans = "  %x = tt.trans %y : tensor<2x2xf32>\n"
    old, new = (
        {**TEXTS, "ttgir": TEXTS["ttgir"] + "\n" + text}
        for text in (trans * 9 + fences, trans * 8 + fences * 9)
    )
    assert (
        "first differs in ttgir (most: ttng.fence_async_shared 1 -> 9, tt.trans 9 -> 8)."
        in compared(old, new).explain()
    )
    # The same operations, in truth otherwise.
    assert "ttgir." in compared(old, {**old, "ttgir": old["ttgir"].replace("2x2", "4x4")}).explain()


@pytest.mark.parametrize("stage", list(Stage))
def test_a_change_on_dqs_path_is_found_and_shown(stage: Stage) -> None:
    report = compared(TEXTS, changed(stage, 2))
    assert report.comparisons[-1].outcome is StageOutcome.ON_PATH
    assert report.first_changed_stage is stage
    assert f"first differs in {stage}: " in report.explain()
    assert report.excerpt is not None
    gone = [line for line in report.excerpt.splitlines() if line.startswith("-")]
    come = [line for line in report.excerpt.splitlines() if line.startswith("+")]
    assert gone
    assert come


def test_what_follows_from_the_first_difference_is_no_news() -> None:
    later = {**changed("llir", 2), "sass": changed("sass", 2)["sass"]}
    report = compared(TEXTS, later)
    assert [c.stage for c in report.comparisons] == [Stage.TTIR, Stage.TTGIR, Stage.LLIR]
    assert report.explain() == (
        "dQ's path is the same in ttir, ttgir; it first differs in llir: 1 x atom.global.gpu.acq_rel.add.f32 "
        "became 1 x atom.global.gpu.acq_rel.add.v4.f32."
    )


def test_a_layout_is_told_by_what_is_new_in_it() -> None:
    words = compared(TEXTS, changed("ttgir", 2)).explain()
    assert (
        "ttgir: 1 x tt.atomic_rmw (sizePerThread = [1, 4]), 1 x ttg.convert_layout (sizePerThread = [1, 4])"
        in words
    )
    assert "became 1 x tt.atomic_rmw (sizePerThread = [1, 2])" in words


@pytest.mark.parametrize("stage", list(Stage))
def test_a_stage_without_text_is_unknown_not_the_same(stage: Stage) -> None:
    without = {name: text for name, text in TEXTS.items() if name != stage}
    report = compared(without, TEXTS)
    assert outcome(report, stage) is StageOutcome.UNKNOWN
    assert "every stage" not in report.explain()
    assert report.explain().endswith(f"the evidence store has no text of it: {stage}.")


def test_a_text_that_cannot_be_read_is_unknown() -> None:
    report = StageComparer(lambda digest: None).compare(record(OLD, TEXTS), record(NEW, changed("ptx", 2)))
    assert outcome(report, "ptx") is StageOutcome.UNKNOWN
    assert outcome(report, "sass") is StageOutcome.SAME  # the same digest needs no reading


def test_without_texts_the_counts_of_the_records_still_tell() -> None:
    path = {**PATH, "llir": {"atom.add.f32": 32}}
    report = StageComparer(lambda digest: None).compare(evidence(OLD), evidence(NEW, path=path))
    assert report.first_changed_stage is Stage.LLIR
    assert "llir: 8 x atom.add.v4.f32 became 32 x atom.add.f32." in report.explain()
    assert "no text of it: ttir, ttgir." in report.explain()


def test_equal_counts_without_texts_prove_nothing() -> None:
    report = StageComparer(lambda digest: None).compare(evidence(OLD), evidence(NEW))
    assert report.explain() == "The evidence store has no texts for both sides, so the stage is unknown."


def test_a_change_in_the_second_kernel_is_told_too() -> None:
    sides = []
    for commit, texts in ((OLD, TEXTS), (NEW, changed("ptx", 2))):
        first = record(commit, TEXTS).kernels[0]
        sides.append(
            replace(
                record(commit, texts, "backward_dq"),
                kernels=(first, *record(commit, texts, "backward_dq").kernels),
            )
        )
    assert StageComparer(lambda digest: digest).compare(*sides).first_changed_stage is Stage.PTX


def test_other_kernels_cannot_be_compared() -> None:
    report = compared(TEXTS, TEXTS)
    assert StageComparer(lambda d: d).compare(record(OLD, TEXTS), record(NEW, TEXTS, "backward_dq")) != report


@pytest.mark.parametrize("where", [10, 300, 990])
def test_a_long_line_is_cut_where_its_difference_is_seen(where: int) -> None:
    before = "x" * 1000
    after = before[:where] + "NEW" + before[where + 3 :]
    old, new = (line for line in excerpt([before], [after]).splitlines() if line[0] in "-+")
    assert max(len(old), len(new)) <= 240
    assert ("NEW" in new, "NEW" in old) == (True, False)


def test_repeats_are_folded_and_a_long_excerpt_is_cut() -> None:
    write = next(line for line in TEXTS["ptx"].splitlines() if "atom" in line)
    many = TEXTS["ptx"].replace(write, "\n".join([write] * 32))
    report = compared({**TEXTS, "ptx": many}, {**TEXTS, "ptx": many.replace("add.f32", "add.v4.f32")})
    assert report.excerpt is not None
    assert "-32 x atom.global.gpu.acq_rel.add.f32" in report.excerpt.splitlines()
    assert "+32 x atom.global.gpu.acq_rel.add.v4.f32" in report.excerpt.splitlines()
    mixed = "\n".join(write.replace("add", f"op{n}") for n in range(40))
    report = compared(TEXTS, {**TEXTS, "ptx": TEXTS["ptx"].replace(write, mixed)})
    assert report.excerpt is not None
    lines = report.excerpt.splitlines()
    assert len(lines) == 20
    assert lines[-1].startswith("… ")


def test_findings_get_their_stage_and_only_they_are_read() -> None:
    read: list[str] = []

    def reader(digest: str) -> str:
        read.append(digest)
        return digest

    sides = [
        measured(OLD, "atomic_add", found=record(OLD, TEXTS)),
        measured(NEW, "atomic_add", found=record(NEW, changed("llir", 2))),
        measured(OLD, "inline_asm", found=record(OLD, changed("ttir", 2))),
        measured(NEW, "inline_asm", found=record(NEW, changed("ttgir", 2))),
    ]
    asked = [
        finding(Verdict.IMPROVEMENT, case=replace(HD64, n_ctx=2048)),
        finding(Verdict.IMPROVEMENT, case=replace(HD64, n_ctx=4096), reference="store"),
    ]
    found = with_stages(asked, sides, StageComparer(reader))
    assert [f.first_changed_stage for f in found] == [Stage.LLIR, Stage.LLIR]
    assert all("Of atomic_add: dQ's path is the same in ttir, ttgir; it" in f.explanation for f in found)
    assert read == [TEXTS["llir"], changed("llir", 2)["llir"]]
    [moved] = with_stages([finding(Verdict.REFERENCE_MOVED)], sides, StageComparer(reader))
    assert "Of inline_asm: " in moved.explanation
    assert moved.first_changed_stage is Stage.TTIR


def test_a_finding_without_records_says_that_the_stage_is_unknown() -> None:
    asked = replace(finding(Verdict.REGRESSION), first_changed_stage=None)
    [found] = with_stages([asked], [measured(OLD, "atomic_add")], StageComparer(lambda digest: digest))
    assert found.first_changed_stage is None
    assert "stage is unknown" in found.explanation


def test_a_variant_that_does_not_compile_has_no_stage() -> None:
    asked = finding(Verdict.NO_VALID_DATA)
    assert with_stages([asked], [], StageComparer(lambda digest: digest)) == [asked]


def test_texts_come_from_the_store(tmp_path: Path) -> None:
    digests = {
        name: write_object(tmp_path, text.encode()) for name, text in {**TEXTS, **changed("ptx", 2)}.items()
    }
    before = {**digests, "ptx": write_object(tmp_path, TEXTS["ptx"].encode())}
    store = EvidenceStore(tmp_path)
    report = StageComparer(store.text).compare(record(OLD, before), record(NEW, digests))
    assert report.first_changed_stage is Stage.PTX


# Cut from what the releases made of atomic_add (head_dim 64; TTGIR: 128): the first loop's write of dQ.
REAL = [
    ("llir", "3.1.0", "3.2.0"),
    ("ttgir", "3.2.0", "3.3.1"),
    ("ptx", "3.3.1", "3.4.0"),
    ("sass", "3.3.1", "3.4.0"),
    ("llir", "3.8.0", "3.9.0"),
]


def test_what_the_releases_did_in_words(golden: Callable[[str, str], None]) -> None:
    said = []
    for stage, before, after in REAL:
        sides = ((GOLDEN / "stages" / f"{stage}-{label}.txt").read_text() for label in (before, after))
        old, new = ({**TEXTS, stage: text} for text in sides)
        report = compared(old, new)
        said.append(f"{stage}, {before} to {after}: {report.explain()}\n{report.excerpt or 'no excerpt'}\n")
    golden("stages.txt", "\n".join(said))


def test_a_report_is_kept_by_the_texts_and_read_no_second_time(tmp_path: Path) -> None:
    sides = record(OLD, TEXTS), record(NEW, changed("ptx", 2))
    first = StageComparer(lambda digest: digest, tmp_path).compare(*sides)
    assert StageComparer(lambda digest: None, tmp_path).compare(*sides) == first
    [kept] = tmp_path.iterdir()
    kept.write_bytes(b"cut")
    assert StageComparer(lambda digest: digest, tmp_path).compare(*sides) == first


def test_what_could_not_be_read_is_not_kept(tmp_path: Path) -> None:
    StageComparer(lambda digest: None, tmp_path).compare(record(OLD, TEXTS), record(NEW, changed("ptx", 2)))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sides = record(OLD, TEXTS), record(NEW, changed("ptx", 2))
    assert StageComparer(lambda d: d, tmp_path / "file").compare(*sides).first_changed_stage is Stage.PTX
