// Every element by itself, where inputs are contiguous along another loop than the results are. A
// tile has whole lines of memory of both: the inputs' are read in long runs, 4 x 4 elements change
// places in registers, and the results' are calculated and written from the cache.
//
//                     a, contiguous for the results
//                   +-------- 32 --------+
//     b, contiguous |  4 x 4          |
//     for the       |                 |
//     inputs       256                |
//                   |                 |
//                   +-----------------+
//
// dimension 0 of the launch: pieces of `b_run` iterations of b
// dimension 1 of the launch: all outer loops as one, in it pieces of `m_run` iterations of m, in
//     them pieces of `run` iterations of a
typedef int index_t;

// A streaming store: what is written here is too large to be found in a cache later. This needs a
// compiler that knows how, and an aligned address.
static inline __attribute__((overloadable)) void stream(__global uint *to, uint4 value)
{
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
    if (((size_t)to & (sizeof(value) - 1)) == 0) {
        __builtin_nontemporal_store(value, (__global uint4 *)to);
        return;
    }
#endif
#endif
    vstore4(value, 0, to);
}

static inline uint4 pick0(const uint4 a, const uint4 b)
{
    return (uint4)(a.s0, a.s2, b.s0, b.s2);
}
static inline uint4 pick1(const uint4 a, const uint4 b)
{
    return (uint4)(a.s1, a.s3, b.s1, b.s3);
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pointwise(
    __global uint *y0_memory,
    __global const uint *x0_memory,
    const int n,
    const int run,
    const int pieces,
    const int nb,
    const int b_run,
    const int m,
    const int m_run,
    const int m_pieces,
    const int y0_start,
    const int y0_m0,
    const int y0_b,
    const int x0_start,
    const int x0_m0,
    const int x0_step)
{
    const index_t b_first = (index_t)get_global_id(0) * b_run;
    const index_t b_stop = min(b_first + b_run, nb);
    const index_t piece = (index_t)get_global_id(1) / pieces;
    const index_t a_first = (index_t)get_global_id(1) % pieces * run;
    const index_t a_stop = min(a_first + run, n);
    const index_t row = piece / m_pieces;
    const index_t m_first = piece % m_pieces * m_run;
    const index_t m_stop = min(m_first + m_run, m);
    const index_t y0_outer = y0_start;
    const index_t x0_outer = x0_start;

    // The last squares reach back over elements that are there already: room for them in front.
    uint x0_tile[9360] __attribute__((aligned(64)));

    for (index_t i = m_first; i < m_stop; ++i) {
        for (index_t a = a_first; a < a_stop; a += 32) {
            const index_t a_end = min(a + 32, a_stop);
            for (index_t b = b_first; b < b_stop; b += 256) {
                const index_t b_end = min(b + 256, b_stop);
                for (index_t s = a; s < a_end; s += 4) {
                    const index_t at = min(s, n - 4);
                    for (index_t t = b; t < b_end; t += 4) {
                        const index_t along = min(t, nb - 4);
                        const index_t from = x0_outer + i * x0_m0 + at * x0_step + along;
                        uint *to = x0_tile + (along - b + 4) * 36 + at - a + 4;
                        const uint4 v0 = vload4(0, x0_memory + from);
                        const uint4 v1 = vload4(0, x0_memory + from + x0_step);
                        const uint4 v2 = vload4(0, x0_memory + from + 2 * x0_step);
                        const uint4 v3 = vload4(0, x0_memory + from + 3 * x0_step);
                        const uint4 v4 = pick0(v0, v1);
                        const uint4 v5 = pick1(v0, v1);
                        const uint4 v6 = pick0(v2, v3);
                        const uint4 v7 = pick1(v2, v3);
                        const uint4 v8 = pick0(v4, v6);
                        const uint4 v9 = pick1(v4, v6);
                        const uint4 v10 = pick0(v5, v7);
                        const uint4 v11 = pick1(v5, v7);

                        vstore4(v8, 0, to);
                        vstore4(v10, 0, to + 36);
                        vstore4(v9, 0, to + 72);
                        vstore4(v11, 0, to + 108);
                    }
                }
                for (index_t r = b; r < b_end; ++r) {
                    const index_t y0_row = y0_outer + i * y0_m0 + r * y0_b + a;
                    const uint *x0_line = x0_tile + (r - b + 4) * 36 + 4;
                    const index_t stop = a_end - a;
                    // Only whole lines of 64 bytes are streamed: a line that is written both ways would be waited
                    // for. In a row of few lines, every vector that is aligned does.
                    const index_t unit = 64 / sizeof(*y0_memory);
                    const index_t head = stop < 4 * unit ? 0
                        : (index_t)(-((size_t)(y0_memory + y0_row) / sizeof(*y0_memory)) & (size_t)(unit - 1));
                    const index_t tail = stop < 4 * unit ? stop : head + (stop - head) / unit * unit;
                    for (index_t e = 0; e < stop;) {
                        if (e + 4 <= (e < head ? head : stop)) {
                            const uint4 x0 = vload4(0, x0_line + e);
                            typedef uint4 typeof_x0;
                            typedef uint4 typeof_y0;
                            typeof_y0 y0 = 0;
                            {
#line 1 "snippet:expr"
y0 = x0;
#line 125 "kernel"
                            }
                            if (e >= head && e < tail)
                                stream(&y0_memory[y0_row + e], y0);
                            else
                                vstore4(y0, 0, y0_memory + y0_row + e);

                            e += 4;
                        } else {
                            const uint x0 = x0_line[e];
                            typedef uint typeof_x0;
                            typedef uint typeof_y0;
                            typeof_y0 y0 = 0;
                            {
#line 1 "snippet:expr"
y0 = x0;
#line 141 "kernel"
                            }
                            y0_memory[y0_row + e] = y0;

                            ++e;
                        }
                    }

                }
            }
        }
    }
}
