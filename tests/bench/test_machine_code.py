"""Loops of assembly: which there are, how much of them is products."""

from bench.vendors.machine_code import AMDGCN, CDNA, GEN, SASS, XE, Loop, loops, nest, product_loops

AMD = """\
conv2d:                                 ; @conv2d
; %bb.0:
\ts_load_dword s0, s[4:5], 0x0
.LBB0_1:                                ; outer
\tglobal_load_dword v1, v[2:3], off
.LBB0_2:                                ; inner
\tds_read_b128 v[4:7], v8
\tv_fmac_f32_e32 v9, v4, v5
\tv_pk_fma_f32 v[10:11], v[4:5], v[6:7], v[10:11]
\ts_cbranch_scc1 .LBB0_2
; %bb.3:
\ts_cmp_lt_i32 s1, s2
\ts_cbranch_scc0 .LBB0_5
; %bb.4:
\ts_branch .LBB0_1
.LBB0_5:
\ts_endpgm
.LBB0_6:                                ; reached from nowhere
\tv_fmac_f32_e32 v9, v4, v5
\ts_branch .LBB0_1
"""

NVIDIA = """\
.text.conv2d:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_1:
        /*0010*/                   LDS.128 R4, [R2] ;
        /*0020*/                   FFMA R8, R4, R5, R8 ;
        /*0030*/                   IMAD R9, R4, R5, R8 ;
        /*0040*/              @!P0 BRA `(.L_1) ;
        /*0050*/                   EXIT ;
.L_2:
        /*0060*/                   BRA `(.L_2);
"""

INTEL = """\
//.kernel conv2d
_main:
        mov (8|M0)               r2.0<1>:ud    r0.0<1;1,0>:ud
_0_001:
        mad (8|M0)               r3.0<1>:f     r4.0<8;1>:f      r5.0<8;1>:f       r6.0<1>:f
        mad (8|M0)               r3.0<1>:d     r4.0<8;1>:d      r5.0<8;1>:d       r6.0<1>:d
(W&f0.1) jmpi                               _0_001                                  // $130
(W)     send.ts (16|M0)          null     r126    null  0x0  0x02000010  {EOT}
"""


def test_nested_loops_and_pairs():
    inner, outer = loops(AMD, AMDGCN)
    assert inner == Loop(instructions=4, products=2, flops=3)
    # The load, the inner loop, the comparison and both branches.
    assert outer == Loop(instructions=8, products=2, flops=3)
    assert product_loops([inner, outer]) == (inner, outer)
    assert inner.share == 0.5


def test_whole_numbers_are_no_products():
    (found,) = [loop for loop in loops(NVIDIA, SASS) if loop.products]
    assert found == Loop(instructions=4, products=1, flops=1)
    assert loops(INTEL, GEN) == [Loop(instructions=3, products=1, flops=1)]


def test_a_loop_that_is_unrolled_is_both():
    (loop,) = loops(INTEL, GEN)
    assert product_loops([loop]) == (loop, loop)
    assert product_loops([Loop(3, 0, 0)]) is None
    # A few more around it.
    few, inner, outer = Loop(5, 2, 2), Loop(100, 80, 80), Loop(200, 85, 85)
    assert product_loops([few, inner, outer]) == (inner, outer)
    assert product_loops([]) is None


XE_LOOP = """\
_main:
        mov (8|M0)               r2.0<1>:ud    r0.0<1;1,0>:ud
_0_001:
        mad (16|M0)              r3.0<1>:f     r4.0<8;1>:f      r5.0<8;1>:f       r6.0<1>:f
(W)     add (1|M0)               r9.0<1>:d     r9.0<0;1,0>:d    64:w
(W)     send.dc0 (16|M0)         r13      r6      null:0  0x0            0x02484401
(f0.0)  goto.b (16|M0)                         _0_002            _0_001                // $140
_0_002:
(W)     send.ts (16|M0)          null     r126    null  0x0  0x02000010  {EOT}
"""


def test_the_jump_back_is_to_the_second_label():
    (loop,) = loops(XE_LOOP, XE)
    assert loop == Loop(instructions=4, products=1, flops=1)


def test_pipes_are_counted_apart():
    # Sixteen lanes take two cycles of eight, one number takes one; a float's pipe is its own.
    (loop,) = loops(XE_LOOP, XE)
    assert loop.needed == 2
    assert loop.pipes == {"float": 2, "whole": 1, "send": 2, "branch": 2}
    (loop,) = loops(XE_LOOP, GEN)
    assert loop.pipes["numbers"] == 3
    inner, _ = loops(AMD, AMDGCN)
    assert inner.pipes == {"vector": 2, "local": 1, "branch": 1}
    assert inner.needed == 3  # one of two products does in a cycle what takes two
    assert loops(AMD, CDNA)[0].needed == 1.5


def test_loops_around_the_products_from_within():
    few, inner, outer = Loop(5, 2, 2), Loop(100, 80, 80), Loop(200, 85, 85)
    assert nest([few, inner, outer]) == [inner, outer]
    assert nest([Loop(3, 0, 0)]) == []
