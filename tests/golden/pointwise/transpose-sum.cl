// Every element by itself, where inputs are contiguous along another loop than the results are. A
// tile has whole lines of memory of both: the inputs' are read in long runs, 16 x 16 elements change
// places in registers, and the results' are calculated and written from the cache.
//
//                     a, contiguous for the results
//                   +-------- 32 --------+
//     b, contiguous |  16 x 16          |
//     for the       |                 |
//     inputs       256                |
//                   |                 |
//                   +-----------------+
//
// dimension 0 of the launch: pieces of `b_run` iterations of b
// dimension 1 of the launch: all outer loops as one, in it pieces of `m_run` iterations of m, in
//     them pieces of `run` iterations of a
typedef int index_t;
static inline __attribute__((overloadable)) int cp_max(int a, int b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) uint cp_max(uint a, uint b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) long cp_max(long a, long b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) ulong cp_max(ulong a, ulong b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float cp_max(float a, float b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float16 cp_max(float16 a, float16 b)
{
    return max(a, b);
}
#undef max
#define max(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_max((cp_type)cp_in_a, (cp_type)cp_in_b); })

// A streaming store: what is written here is too large to be found in a cache later. This needs a
// compiler that knows how, and an aligned address.
static inline __attribute__((overloadable)) void stream(__global float *to, float16 value)
{
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
    if (((size_t)to & (sizeof(value) - 1)) == 0) {
        __builtin_nontemporal_store(value, (__global float16 *)to);
        return;
    }
#endif
#endif
    vstore16(value, 0, to);
}

static inline float16 pick0(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s2, a.s4, a.s6, a.s8, a.sa, a.sc, a.se, b.s0, b.s2, b.s4, b.s6, b.s8, b.sa, b.sc, b.se);
}
static inline float16 pick1(const float16 a, const float16 b)
{
    return (float16)(a.s1, a.s3, a.s5, a.s7, a.s9, a.sb, a.sd, a.sf, b.s1, b.s3, b.s5, b.s7, b.s9, b.sb, b.sd, b.sf);
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pointwise(
    __global float *y0_memory,
    __global const float *x0_memory,
    __global const float *x1_memory,
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
    const int x0_b,
    const int x1_start,
    const int x1_m0,
    const int x1_step)
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
    const index_t x1_outer = x1_start;

    // The last squares reach back over elements that are there already: room for them in front.
    float x1_tile[13056] __attribute__((aligned(64)));

    for (index_t i = m_first; i < m_stop; ++i) {
        for (index_t a = a_first; a < a_stop; a += 32) {
            const index_t a_end = min(a + 32, a_stop);
            for (index_t b = b_first; b < b_stop; b += 256) {
                const index_t b_end = min(b + 256, b_stop);
                for (index_t s = a; s < a_end; s += 16) {
                    const index_t at = min(s, n - 16);
                    for (index_t t = b; t < b_end; t += 16) {
                        const index_t along = min(t, nb - 16);
                        const index_t from = x1_outer + i * x1_m0 + at * x1_step + along;
                        float *to = x1_tile + (along - b + 16) * 48 + at - a + 16;
                        const float16 v0 = vload16(0, x1_memory + from);
                        const float16 v1 = vload16(0, x1_memory + from + x1_step);
                        const float16 v2 = vload16(0, x1_memory + from + 2 * x1_step);
                        const float16 v3 = vload16(0, x1_memory + from + 3 * x1_step);
                        const float16 v4 = vload16(0, x1_memory + from + 4 * x1_step);
                        const float16 v5 = vload16(0, x1_memory + from + 5 * x1_step);
                        const float16 v6 = vload16(0, x1_memory + from + 6 * x1_step);
                        const float16 v7 = vload16(0, x1_memory + from + 7 * x1_step);
                        const float16 v8 = vload16(0, x1_memory + from + 8 * x1_step);
                        const float16 v9 = vload16(0, x1_memory + from + 9 * x1_step);
                        const float16 v10 = vload16(0, x1_memory + from + 10 * x1_step);
                        const float16 v11 = vload16(0, x1_memory + from + 11 * x1_step);
                        const float16 v12 = vload16(0, x1_memory + from + 12 * x1_step);
                        const float16 v13 = vload16(0, x1_memory + from + 13 * x1_step);
                        const float16 v14 = vload16(0, x1_memory + from + 14 * x1_step);
                        const float16 v15 = vload16(0, x1_memory + from + 15 * x1_step);
                        const float16 v16 = pick0(v0, v1);
                        const float16 v17 = pick1(v0, v1);
                        const float16 v18 = pick0(v2, v3);
                        const float16 v19 = pick1(v2, v3);
                        const float16 v20 = pick0(v4, v5);
                        const float16 v21 = pick1(v4, v5);
                        const float16 v22 = pick0(v6, v7);
                        const float16 v23 = pick1(v6, v7);
                        const float16 v24 = pick0(v8, v9);
                        const float16 v25 = pick1(v8, v9);
                        const float16 v26 = pick0(v10, v11);
                        const float16 v27 = pick1(v10, v11);
                        const float16 v28 = pick0(v12, v13);
                        const float16 v29 = pick1(v12, v13);
                        const float16 v30 = pick0(v14, v15);
                        const float16 v31 = pick1(v14, v15);
                        const float16 v32 = pick0(v16, v18);
                        const float16 v33 = pick1(v16, v18);
                        const float16 v34 = pick0(v20, v22);
                        const float16 v35 = pick1(v20, v22);
                        const float16 v36 = pick0(v24, v26);
                        const float16 v37 = pick1(v24, v26);
                        const float16 v38 = pick0(v28, v30);
                        const float16 v39 = pick1(v28, v30);
                        const float16 v40 = pick0(v17, v19);
                        const float16 v41 = pick1(v17, v19);
                        const float16 v42 = pick0(v21, v23);
                        const float16 v43 = pick1(v21, v23);
                        const float16 v44 = pick0(v25, v27);
                        const float16 v45 = pick1(v25, v27);
                        const float16 v46 = pick0(v29, v31);
                        const float16 v47 = pick1(v29, v31);
                        const float16 v48 = pick0(v32, v34);
                        const float16 v49 = pick1(v32, v34);
                        const float16 v50 = pick0(v36, v38);
                        const float16 v51 = pick1(v36, v38);
                        const float16 v52 = pick0(v40, v42);
                        const float16 v53 = pick1(v40, v42);
                        const float16 v54 = pick0(v44, v46);
                        const float16 v55 = pick1(v44, v46);
                        const float16 v56 = pick0(v33, v35);
                        const float16 v57 = pick1(v33, v35);
                        const float16 v58 = pick0(v37, v39);
                        const float16 v59 = pick1(v37, v39);
                        const float16 v60 = pick0(v41, v43);
                        const float16 v61 = pick1(v41, v43);
                        const float16 v62 = pick0(v45, v47);
                        const float16 v63 = pick1(v45, v47);
                        const float16 v64 = pick0(v48, v50);
                        const float16 v65 = pick1(v48, v50);
                        const float16 v66 = pick0(v52, v54);
                        const float16 v67 = pick1(v52, v54);
                        const float16 v68 = pick0(v56, v58);
                        const float16 v69 = pick1(v56, v58);
                        const float16 v70 = pick0(v60, v62);
                        const float16 v71 = pick1(v60, v62);
                        const float16 v72 = pick0(v49, v51);
                        const float16 v73 = pick1(v49, v51);
                        const float16 v74 = pick0(v53, v55);
                        const float16 v75 = pick1(v53, v55);
                        const float16 v76 = pick0(v57, v59);
                        const float16 v77 = pick1(v57, v59);
                        const float16 v78 = pick0(v61, v63);
                        const float16 v79 = pick1(v61, v63);

                        vstore16(v64, 0, to);
                        vstore16(v66, 0, to + 48);
                        vstore16(v68, 0, to + 96);
                        vstore16(v70, 0, to + 144);
                        vstore16(v72, 0, to + 192);
                        vstore16(v74, 0, to + 240);
                        vstore16(v76, 0, to + 288);
                        vstore16(v78, 0, to + 336);
                        vstore16(v65, 0, to + 384);
                        vstore16(v67, 0, to + 432);
                        vstore16(v69, 0, to + 480);
                        vstore16(v71, 0, to + 528);
                        vstore16(v73, 0, to + 576);
                        vstore16(v75, 0, to + 624);
                        vstore16(v77, 0, to + 672);
                        vstore16(v79, 0, to + 720);
                    }
                }
                for (index_t r = b; r < b_end; ++r) {
                    const index_t y0_row = y0_outer + i * y0_m0 + r * y0_b + a;
                    const index_t x0_row = x0_outer + i * x0_m0 + r * x0_b + a;
                    const float *x1_line = x1_tile + (r - b + 16) * 48 + 16;
                    const index_t stop = a_end - a;
                    // Only whole lines of 64 bytes are streamed: a line that is written both ways would be waited
                    // for. In a row of few lines, every vector that is aligned does.
                    const index_t unit = 64 / sizeof(*y0_memory);
                    const index_t head = stop < 4 * unit ? 0
                        : (index_t)(-((size_t)(y0_memory + y0_row) / sizeof(*y0_memory)) & (size_t)(unit - 1));
                    const index_t tail = stop < 4 * unit ? stop : head + (stop - head) / unit * unit;
                    for (index_t e = 0; e < stop;) {
                        if (e + 16 <= (e < head ? head : stop)) {
                            const float16 x0 = vload16(0, x0_memory + x0_row + e);
                            typedef float16 typeof_x0;
                            const float16 x1 = vload16(0, x1_line + e);
                            typedef float16 typeof_x1;
                            typedef float16 typeof_y0;
                            typeof_y0 y0 = 0;
                            {
#line 1 "snippet:expr"
y0 = max(x0, 0) + x1;
#line 243 "kernel"
                            }
                            if (e >= head && e < tail)
                                stream(&y0_memory[y0_row + e], y0);
                            else
                                vstore16(y0, 0, y0_memory + y0_row + e);

                            e += 16;
                        } else {
                            const float x0 = (float)x0_memory[x0_row + e];
                            typedef float typeof_x0;
                            const float x1 = x1_line[e];
                            typedef float typeof_x1;
                            typedef float typeof_y0;
                            typeof_y0 y0 = 0;
                            {
#line 1 "snippet:expr"
y0 = max(x0, 0) + x1;
#line 261 "kernel"
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
