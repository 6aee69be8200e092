"""The page's shares of matrix units' peak are what listings leave; and how those are counted."""

import re
from pathlib import Path

import pytest

from bench import listings, vendors
from bench.__main__ import main
from bench.listings import CHIPS, Share, cell_of, rows, share_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "devices.md"
LOOPS = {
    "sm_80": """
.L_x_0:
        /*0010*/                   LDGSTS.E.BYPASS.128 [R1], [R2.64] ;   /* 0x1 */
.L_x_1:
        /*0020*/                   LDSM.16.MT88.4 R4, [R8] ;
        /*0030*/                   HMMA.16816.F32 R4, R8, R12, R4 ;
        /*0040*/              @!P0 BRA `(.L_x_1) ;
        /*0050*/              @P1  BRA `(.L_x_0) ;
        /*0060*/                   STS.128 [R1], R4 ;
""",
    "gfx1100": """
.LBB0_1:                                ; =>This Loop Header
\tds_store_b128 v1, v[2:5]
.LBB0_2:
\tds_load_u16_d16 v2, v1
\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]
\ts_cbranch_scc1 .LBB0_2
\ts_cbranch_scc0 .LBB0_1
\ts_endpgm
""",
    "dg2": """
_0_1:
        send.dc1 (8|M0)   null     r4      r9:4    0x0            0x020260FE   {$1} // wr:1+4, rd:0
// B002: [inDivergent],  Preds:{B001},  Succs:{B002}
L16:
(W)     send.dc0 (16|M0)  r10      r9      null:0  0x0            0x024804FE   {$5} // wr:1h+0, rd:4
        dpas.8x8 (8|M0)   r71:f    r71:f   r39:hf  r10.0:hf
(f0.0)  goto.b (8|M0)     _0_3     L16
(f1.0)  goto.b (8|M0)     _0_3     _0_1
""",
}
#: Of two rounds of the inner loop within one of the outer: products, clocks, bytes.
COUNTED = {"sm_80": (2, 8, 512 + 2 * 512), "gfx1100": (2, 0, 512 + 2 * 128), "dg2": (2, 6, 384)}


@pytest.mark.parametrize("target", LOOPS)
def test_loops_are_counted_with_what_they_hold(target):
    loop = [*listings._loop(LOOPS[target], 2)]
    products = sum(listings._UNITS.search(line) is not None for line in loop)
    clocks = sum(listings._clocks(target, line) for line in loop)
    moved = sum(listings._moved(line, 32) for line in loop)
    assert (products, clocks, moved) == COUNTED[target]


@pytest.mark.parametrize("target", CHIPS)
def test_the_page_has_what_listings_leave(target):
    missing = vendors.available(target) or vendors.lacks_listings(target)
    if missing:
        pytest.skip(f"not installed: {missing}")
    lines = [line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    head = next(line for line in lines if len(line) > 1 and line[1].strip() == "float16")
    place = [cell.strip() for cell in head].index(target)
    name = "3×3 512→512 7²"
    (row,) = (line for line in lines if len(line) > 1 and line[1].strip() == name)
    share = share_of(target, rows()[name])
    assert share is not None and not share.spilled
    # Releases of compilers differ somewhat.
    assert float(re.match(r"\d+", row[place].strip())[0]) == pytest.approx(100 * share.share, abs=5)


def test_the_table(monkeypatch, capsys):
    answers = {"sm_80": Share(0.964, 128, 0, 4), "dg2": None, "sm_86": Share(1, 80, 8, 6)}
    monkeypatch.setattr(vendors, "available", lambda target: "clang" if target == "sm_90" else "")
    monkeypatch.setattr(vendors, "lacks_listings", lambda _: "")
    monkeypatch.setattr(listings, "share_of", lambda target, _: answers[target])
    assert main(["vendors", "--shares", "--targets", "skl,sm_80,dg2,sm_90"]) == 0
    said = capsys.readouterr().out
    assert "sm_90: not installed: clang" in said and "| float16 | sm_80 | dg2 |" in said
    assert said.count("| 96 % (128, 4) | – |") == len(rows())
    assert main(["vendors", "--shares", "--targets", "sm_86"]) == 1
    assert cell_of(answers["sm_86"]) == "100 % (80, 6, 8 bytes spilled)"
