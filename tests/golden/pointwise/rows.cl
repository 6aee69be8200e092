// Every element by itself, along one long loop w. A work-item takes many iterations of it and of the
// loops around it, which short rows would else be a work-item each of.
//
// dimension 0 of the launch: pieces of `run` iterations of w
// dimension 1 of the launch: all outer loops as one, in it pieces of `m_run` iterations of m
typedef int index_t;
__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pointwise(
    __global float *y0_memory,
    __global const float *x0_memory,
    const int n,
    const int run,
    const int m,
    const int m_run,
    const int m_pieces,
    const int n0,
    const int y0_start,
    const int y0_m0,
    const int y0_s0,
    const int x0_start,
    const int x0_m0,
    const int x0_s0)
{
    const index_t w_first = (index_t)get_global_id(0) * run;
    const index_t w_stop = min(w_first + run, n);
    const index_t row = (index_t)get_global_id(1) / m_pieces;
    const index_t m_first = (index_t)get_global_id(1) % m_pieces * m_run;
    const index_t m_stop = min(m_first + m_run, m);

    // Which iteration of every outer loop this row is, innermost first.
    index_t rest = row;
    const index_t i0 = rest;
    const index_t y0_outer = y0_start + i0 * y0_s0;
    const index_t x0_outer = x0_start + i0 * x0_s0;

    for (index_t i = m_first; i < m_stop; ++i) {
        for (index_t w = w_first; w < w_stop; w += 512) {
            const index_t w_end = min(w + 512, w_stop);
            {
                const index_t y0_row = y0_outer + i * y0_m0 + w;
                const index_t x0_row = x0_outer + i * x0_m0 + w;
                const index_t stop = w_end - w;
                for (index_t e = 0; e < stop;) {
                    if (e + 16 <= stop) {
                        const float16 x0 = vload16(0, x0_memory + x0_row + e);
                        typedef float16 typeof_x0;
                        typedef float16 typeof_y0;
                        typeof_y0 y0 = 0;
                        {
#line 1 "snippet:expr"
y0 = x0 + 1;
#line 53 "kernel"
                        }
                        vstore16(y0, 0, y0_memory + y0_row + e);

                        e += 16;
                    } else {
                        const float x0 = (float)x0_memory[x0_row + e];
                        typedef float typeof_x0;
                        typedef float typeof_y0;
                        typeof_y0 y0 = 0;
                        {
#line 1 "snippet:expr"
y0 = x0 + 1;
#line 66 "kernel"
                        }
                        y0_memory[y0_row + e] = y0;

                        ++e;
                    }
                }

            }
        }
    }
}
