// A work-item walks along a line, 16 elements at a time:
//
//     elements        a    b    c    d   ...       each an own partial result
//     reach 1         a   ab   bc   cd           every lane takes in the one before it,
//     reach 2         a   ab  abc abcd           then the one two before it, and so on
//     before them     what the block, and the line, have summed up so far.
// Every 8192 elements partial results begin anew: sums of sums have smaller errors.
typedef int index_t;

#define lowest_scan_y0 -INFINITY
#define highest_scan_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float *to_scan_y0, const float other_y0)
{
    typedef float typeof_scan_y0;
    typeof_scan_y0 scan_y0 = *to_scan_y0;
    {
#line 1 "snippet:combine"
scan_y0 += other_y0;
#line 22 "kernel"
    }
    *to_scan_y0 = scan_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float16 *to_scan_y0, const float16 other_y0)
{
    typedef float16 typeof_scan_y0;
    typeof_scan_y0 scan_y0 = *to_scan_y0;
    {
#line 1 "snippet:combine"
scan_y0 += other_y0;
#line 35 "kernel"
    }
    *to_scan_y0 = scan_y0;
}

__kernel void scan(
    __global float *y0_memory,
    __global const float *x0_memory,
    const int n,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int k0,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int x0_k0,
    const int y0_start,
    const int y0_step,
    const int y0_column,
    const int y0_k0)
{

    const index_t piece = (index_t)get_global_id(1);
    const index_t begin = piece * chunk;
    const index_t end = min(begin + chunk, n);
    const index_t first = (index_t)get_global_id(0) * per_group;
    const index_t last = min(first + per_group, outputs);
    for (index_t line = first; line < last; ++line) {
        index_t kept_rest = line;
        const index_t at_k0 = kept_rest;

        const index_t x0_at = x0_start + at_k0 * x0_k0;
        const index_t y0_at = y0_start + at_k0 * y0_k0;
        float none_scan_y0;
        {
            typedef float typeof_scan_y0;
            typeof_scan_y0 scan_y0 = 0;
            {
#line 1 "snippet:init"
scan_y0 = 0;
#line 77 "kernel"
            }

            none_scan_y0 = scan_y0;
        }

        float done_scan_y0 = none_scan_y0;

        for (index_t block = begin; block < end; block += 8192) {
            const index_t stop = min(block + 8192, end);
            index_t e = block;
            float block_scan_y0;
            {
                typedef float typeof_scan_y0;
                typeof_scan_y0 scan_y0 = 0;
                {
#line 1 "snippet:init"
scan_y0 = 0;
#line 95 "kernel"
                }

                block_scan_y0 = scan_y0;
            }

            for (; e + 16 <= stop; e += 16) {
                typedef float16 typeof_scan_y0;
                typeof_scan_y0 scan_y0 = 0;
                {
#line 1 "snippet:init"
scan_y0 = 0;
#line 107 "kernel"
                }

                typedef float16 typeof_x0;
                const typeof_x0 x0 = vload16(0, x0_memory + x0_at + e);

                typedef float16 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 118 "kernel"
                }
                {
#line 1 "snippet:step"
scan_y0 += y0;
#line 123 "kernel"
                }

                float16 earlier_scan_y0;
                earlier_scan_y0 = (float16)(none_scan_y0, scan_y0.s0, scan_y0.s1, scan_y0.s2, scan_y0.s3, scan_y0.s4, scan_y0.s5, scan_y0.s6, scan_y0.s7, scan_y0.s8, scan_y0.s9, scan_y0.sa, scan_y0.sb, scan_y0.sc, scan_y0.sd, scan_y0.se);
                take_partial(&earlier_scan_y0, scan_y0);
                scan_y0 = earlier_scan_y0;
                earlier_scan_y0 = (float16)(none_scan_y0, none_scan_y0, scan_y0.s0, scan_y0.s1, scan_y0.s2, scan_y0.s3, scan_y0.s4, scan_y0.s5, scan_y0.s6, scan_y0.s7, scan_y0.s8, scan_y0.s9, scan_y0.sa, scan_y0.sb, scan_y0.sc, scan_y0.sd);
                take_partial(&earlier_scan_y0, scan_y0);
                scan_y0 = earlier_scan_y0;
                earlier_scan_y0 = (float16)(none_scan_y0, none_scan_y0, none_scan_y0, none_scan_y0, scan_y0.s0, scan_y0.s1, scan_y0.s2, scan_y0.s3, scan_y0.s4, scan_y0.s5, scan_y0.s6, scan_y0.s7, scan_y0.s8, scan_y0.s9, scan_y0.sa, scan_y0.sb);
                take_partial(&earlier_scan_y0, scan_y0);
                scan_y0 = earlier_scan_y0;
                earlier_scan_y0 = (float16)(none_scan_y0, none_scan_y0, none_scan_y0, none_scan_y0, none_scan_y0, none_scan_y0, none_scan_y0, none_scan_y0, scan_y0.s0, scan_y0.s1, scan_y0.s2, scan_y0.s3, scan_y0.s4, scan_y0.s5, scan_y0.s6, scan_y0.s7);
                take_partial(&earlier_scan_y0, scan_y0);
                scan_y0 = earlier_scan_y0;
                // What the block has summed up so far goes before them, and then the line.
                earlier_scan_y0 = (float16)(block_scan_y0);
                take_partial(&earlier_scan_y0, scan_y0);
                float16 merged_scan_y0 = (float16)(done_scan_y0);
                take_partial(&merged_scan_y0, earlier_scan_y0);
                {
                    const float16 result_scan_y0 = merged_scan_y0;
                    {
                        typedef float16 typeof_scan_y0;
                        const typeof_scan_y0 scan_y0 = result_scan_y0;
                        typedef float16 typeof_y0;
                        const typeof_y0 y0 = scan_y0;
                        vstore16(y0, 0, y0_memory + y0_at + e);
                    }
                }

                block_scan_y0 = earlier_scan_y0.sf;
            }
            // What fills no vector.
            {
                typedef float typeof_scan_y0;
                float scan_y0 = block_scan_y0;
                for (; e < stop; ++e) {
                    typedef float typeof_x0;
                    const typeof_x0 x0 = (float)x0_memory[x0_at + e];

                    typedef float typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0;
#line 170 "kernel"
                    }
                    {
#line 1 "snippet:step"
scan_y0 += y0;
#line 175 "kernel"
                    }

                    {
                        float merged_scan_y0 = done_scan_y0;
                        take_partial(&merged_scan_y0, scan_y0);
                        {
                            const float result_scan_y0 = merged_scan_y0;
                            {
                                typedef float typeof_scan_y0;
                                const typeof_scan_y0 scan_y0 = result_scan_y0;
                                typedef float typeof_y0;
                                const typeof_y0 y0 = (float)scan_y0;
                                y0_memory[y0_at + e] = y0;
                            }
                        }

                    }

                }
                take_partial(&done_scan_y0, scan_y0);
            }
        }
    }
}
