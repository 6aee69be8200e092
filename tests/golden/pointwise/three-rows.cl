// Every element by itself, along one long loop w. A work-item takes many iterations of it and of the
// loops around it, which short rows would else be a work-item each of.
//
// Inputs that lie otherwise than the results are read 3 vectors at a time. Their elements change
// places in registers and go into a tile, row by row as the results lie in memory.
//
//     an input   3 rows, in them 1 neighbours for each w
//     a result   1 rows, in them 3 neighbours for each w
//
// dimension 0 of the launch: pieces of `run` iterations of w
// dimension 1 of the launch: all outer loops as one, in it pieces of `m_run` iterations of m
typedef int index_t;

static inline float16 pick0(const float16 a, const float16 b)
{
    return (float16)(a.s0, b.s0, a.s2, a.s1, b.s1, a.s5, a.s2, b.s2, a.s8, a.s3, b.s3, a.sb, a.s4, b.s4, a.se, a.s5);
}
static inline float16 pick1(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s1, b.s0, a.s3, a.s4, b.s1, a.s6, a.s7, b.s2, a.s9, a.sa, b.s3, a.sc, a.sd, b.s4, a.sf);
}
static inline float16 pick2(const float16 a, const float16 b)
{
    return (float16)(a.s5, b.s5, a.s2, a.s6, b.s6, a.s5, a.s7, b.s7, a.s8, a.s8, b.s8, a.sb, a.s9, b.s9, a.se, a.sa);
}
static inline float16 pick3(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s1, b.s6, a.s3, a.s4, b.s7, a.s6, a.s7, b.s8, a.s9, a.sa, b.s9, a.sc, a.sd, b.sa, a.sf);
}
static inline float16 pick4(const float16 a, const float16 b)
{
    return (float16)(a.sa, b.sb, a.s2, a.sb, b.sc, a.s5, a.sc, b.sd, a.s8, a.sd, b.se, a.sb, a.se, b.sf, a.se, a.sf);
}
static inline float16 pick5(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s1, b.sb, a.s3, a.s4, b.sc, a.s6, a.s7, b.sd, a.s9, a.sa, b.se, a.sc, a.sd, b.sf, a.sf);
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pointwise(
    __global float *y0_memory,
    __global const float *x0_memory,
    const float w0,
    const int n,
    const int run,
    const int m,
    const int m_run,
    const int m_pieces,
    const int y0_start,
    const int y0_m0,
    const int y0_r0,
    const int x0_start,
    const int x0_m0,
    const int x0_r0)
{
    const index_t w_first = (index_t)get_global_id(0) * run;
    const index_t w_stop = min(w_first + run, n);
    const index_t row = (index_t)get_global_id(1) / m_pieces;
    const index_t m_first = (index_t)get_global_id(1) % m_pieces * m_run;
    const index_t m_stop = min(m_first + m_run, m);
    const index_t y0_outer = y0_start;
    const index_t x0_outer = x0_start;
    typedef float typeof_w0;

    const index_t x0_rows[3] = { 0, x0_r0, 2 * x0_r0 };
    // The last vectors reach back over elements that are there already: room for them in front.
    float x0_tile[4128] __attribute__((aligned(64)));

    for (index_t i = m_first; i < m_stop; ++i) {
        for (index_t w = w_first; w < w_stop; w += 1360) {
            const index_t w_end = min(w + 1360, w_stop);
            for (index_t t = w; t < w_end; t += 16) {
                const index_t at = min(t, n - 16);
                const index_t from = x0_outer + i * x0_m0 + at;
                float *to = x0_tile + (at - w + 16) * 3;
                const float16 v0 = vload16(0, x0_memory + from + x0_rows[0]);
                const float16 v1 = vload16(0, x0_memory + from + x0_rows[1]);
                const float16 v2 = vload16(0, x0_memory + from + x0_rows[2]);
                const float16 v3 = pick0(v0, v1);
                const float16 v4 = pick1(v3, v2);
                const float16 v5 = pick2(v1, v2);
                const float16 v6 = pick3(v5, v0);
                const float16 v7 = pick4(v2, v0);
                const float16 v8 = pick5(v7, v1);

                vstore16(v4, 0, to);
                vstore16(v6, 0, to + 16);
                vstore16(v8, 0, to + 32);
            }
            {
                const index_t y0_row = y0_outer + i * y0_m0 + w * 3;
                const float *x0_line = x0_tile + 48;
                const index_t stop = (w_end - w) * 3;
                for (index_t e = 0; e < stop;) {
                    if (e + 16 <= stop) {
                        const float16 x0 = vload16(0, x0_line + e);
                        typedef float16 typeof_x0;
                        typedef float16 typeof_y0;
                        typeof_y0 y0 = 0;
                        {
#line 1 "snippet:expr"
y0 = x0 * w0;
#line 104 "kernel"
                        }
                        vstore16(y0, 0, y0_memory + y0_row + e);

                        e += 16;
                    } else {
                        const float x0 = x0_line[e];
                        typedef float typeof_x0;
                        typedef float typeof_y0;
                        typeof_y0 y0 = 0;
                        {
#line 1 "snippet:expr"
y0 = x0 * w0;
#line 117 "kernel"
                        }
                        y0_memory[y0_row + e] = y0;

                        ++e;
                    }
                }

            }
        }
    }
}
