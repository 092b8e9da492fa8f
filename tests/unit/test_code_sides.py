"""Two sides of a stage: dQ's steps are aligned by what they do, and what is missing is said."""

import pytest

from scripts.pages.code_sides import MOST_ROWS, Line, Row, SideReader, around_path
from scripts.tracker.model import Kernel, Stage

LOOP = """.L_x_1:
        /*0000*/                   HGMMA.64x32x16.F32 R24, R148, gdesc[UR4], R24 ;
        /*0010*/                   IADD3 R1, R2, R3, RZ ;
        /*0020*/                   IADD3 R4, R5, R6, RZ ;
        /*0030*/                   IADD3 R7, R8, R9, RZ ;
        /*0040*/                   MEMBAR.ALL.GPU ;
{writes}
        /*0070*/              @P0  BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
"""


def sass(*writes: str) -> str:
    return LOOP.format(writes="\n".join(f"        /*0050*/                   {w} ;" for w in writes))


def kernel(digest: str | None, role: str = "backward") -> Kernel:
    return Kernel(role, "identity", {}, {"sass": digest} if digest else {})


def rows(before: str, after: str) -> tuple[Row, ...]:
    texts = {"before": before, "after": after}
    return SideReader(texts.get).sides(Stage.SASS, kernel("before"), kernel("after")).rows


def steps(found: tuple[Row, ...]) -> list[tuple[str | None, str | None, bool]]:
    return [
        (row.before and row.before.step, row.after and row.after.step, row.differs)
        for row in found
        if row.on_path
    ]


RED, ATOM = "REDG.E.ADD.F32x4 desc[UR6][R2.64], R4", "ATOMG.E.ADD.F32x4 PT, R9, desc[UR6][R2.64], R4"


def test_the_steps_stand_beside_each_other_and_differ_by_what_they_do() -> None:
    assert steps(rows(sass(RED), sass(ATOM, "CCTL.IVALL"))) == [
        ("MEMBAR.ALL.GPU", "MEMBAR.ALL.GPU", False),
        ("REDG.E.ADD.F32x4", "ATOMG.E.ADD.F32x4", True),
        (None, "CCTL.IVALL", True),
    ]


def test_other_registers_and_addresses_are_no_difference() -> None:
    other = sass("REDG.E.ADD.F32x4 desc[UR8][R20.64+0x40], R44")
    found = rows(sass(RED), other)
    assert not any(row.differs for row in found)
    [written] = [row for row in found if row.before and row.before.step == "REDG.E.ADD.F32x4"]
    assert written.after is not None
    assert written.after.text == "REDG.E.ADD.F32x4 desc[UR8][R20.64+0x40], R44"


def test_context_stands_around_the_path_and_gaps_are_marked() -> None:
    lines = around_path(Stage.SASS, sass(RED), False)
    assert [line.text.split()[0] for line in lines] == [
        "IADD3",
        "IADD3",
        "MEMBAR.ALL.GPU",
        "REDG.E.ADD.F32x4",
        "@P0",
        "EXIT",
    ]
    assert [line.number for line in lines] == [4, 5, 6, 7, 8, 9]
    far = sass(RED, *["IADD3 R1, R2, R3, RZ"] * 9, RED)
    found = rows(far, far.replace("R1", "R11"))
    assert [row.before.number for row in found if row.before and row.after_gap] == [15]


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (None, "after", "the evidence store has no text of both sides"),
        ("gone", "after", "the evidence store has no text of both sides"),
        ("after", "after", "the same text on both sides"),
        ("empty", "void", "no step of dQ's path was found in either text"),
    ],
)
def test_without_rows_the_reason_is_said(before: str | None, after: str, note: str) -> None:
    reader = SideReader({"after": sass(RED), "empty": "", "void": "EXIT"}.get)
    sides = reader.sides(Stage.SASS, kernel(before), kernel(after))
    assert (sides.note, sides.rows, sides.differs) == (note, (), False)


def test_what_is_too_long_says_how_much_is_left_out() -> None:
    texts = {"before": sass(*[RED] * 400), "after": sass(*[ATOM] * 400)}
    sides = SideReader(texts.get).sides(Stage.SASS, kernel("before"), kernel("after"))
    assert len(sides.rows) == MOST_ROWS
    # 400 writes, a fence before them and the two lines around.
    assert sides.left_out == 405 - MOST_ROWS
    assert sides.differs


def test_a_whole_kernel_of_dq_has_its_stores_on_the_path() -> None:
    text = "        /*0000*/                   STG.E.128 desc[UR6][R2.64], R4 ;\n        /*0010*/   EXIT ;\n"
    assert around_path(Stage.SASS, text, True)[0] == Line(1, "STG.E.128 desc[UR6][R2.64], R4", "STG.E.128")
    assert around_path(Stage.SASS, text, False) == []
