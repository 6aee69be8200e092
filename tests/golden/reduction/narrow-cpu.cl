// The contiguous loop is kept but narrower than a vector, as the channels of an image are: rows lie
// one behind the other, and vectors run across their ends.
//
//     memory     | c0 c1 c2 | c0 c1 c2 | c0 c1 c2 | c0 c1 c2 | ...      3 columns a row
//     vectors    |---- u = 0 ----|---- u = 1 ----|---- u = 2 ----|    3 x 16 elements: 16 rows
//
// Element t of such a tile always belongs to column t % 3, so accumulators never mix columns;
// they are sorted out once, at the end.
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, const float other_y0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 23 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float16 *to_reduce_y0, const float16 other_y0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 36 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reduction(
    __global float *y0_memory,
    __global const float *x0_memory,
    const int n,
    const int length,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int y0_start,
    const int y0_step,
    const int y0_column)
{

    const index_t block = (index_t)get_group_id(0);
    const index_t split = (index_t)get_group_id(1);
    const index_t begin = split * chunk * 3;
    const index_t end = min(begin + chunk * 3, length * 3);

    const index_t x0_at = x0_start;
    float16 tile_reduce_y0[3];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 71 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 3; ++u) {
            tile_reduce_y0[u] = reduce_y0;
        }
    }

    float16 tile_level1_reduce_y0[3];
    float16 tile_level2_reduce_y0[3];
    float16 tile_level3_reduce_y0[3];
    float16 tile_level4_reduce_y0[3];
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
        tile_level1_reduce_y0[u] = tile_reduce_y0[u];
        tile_level2_reduce_y0[u] = tile_reduce_y0[u];
        tile_level3_reduce_y0[u] = tile_reduce_y0[u];
        tile_level4_reduce_y0[u] = tile_reduce_y0[u];
    }
    uint tile_steps = 0, tile_lifts = 0;

    index_t e = begin;
    while (e + 192 <= end) {
        #pragma unroll
        for (int quarter = 0; quarter < 4; ++quarter) {
            #pragma unroll
            for (int u = 0; u < 3; ++u) {
                const index_t at = e + u * 16;
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                typedef float16 typeof_x0;
                const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
                typedef float16 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 109 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 114 "kernel"
                }

                tile_reduce_y0[u] = reduce_y0;

            }
            e += 48;
        }
        {
            tile_steps = 0;
            ++tile_lifts;
            #pragma unroll
            for (int u = 0; u < 3; ++u)
                take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

            {
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 135 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 3; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                }
            }

            if ((tile_lifts & 3) == 0) {
                #pragma unroll
                for (int u = 0; u < 3; ++u)
                    take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

                {
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 155 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 3; ++u) {
                        tile_level1_reduce_y0[u] = reduce_y0;
                    }
                }

                if ((tile_lifts & 15) == 0) {
                    #pragma unroll
                    for (int u = 0; u < 3; ++u)
                        take_partial(&tile_level3_reduce_y0[u], tile_level2_reduce_y0[u]);

                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 175 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 3; ++u) {
                            tile_level2_reduce_y0[u] = reduce_y0;
                        }
                    }

                    if ((tile_lifts & 63) == 0) {
                        #pragma unroll
                        for (int u = 0; u < 3; ++u)
                            take_partial(&tile_level4_reduce_y0[u], tile_level3_reduce_y0[u]);

                        {
                            typedef float16 typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = 0;
                            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 195 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 3; ++u) {
                                tile_level3_reduce_y0[u] = reduce_y0;
                            }
                        }

                    }

                }

            }

        }

    }

    for (; e + 48 <= end; e += 48) {
        #pragma unroll
        for (int u = 0; u < 3; ++u) {
            const index_t at = e + u * 16;
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
            typedef float16 typeof_x0;
            const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
            typedef float16 typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0;
#line 227 "kernel"
            }
            {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 232 "kernel"
            }

            tile_reduce_y0[u] = reduce_y0;

        }

        if (++tile_steps == 6) {
            tile_steps = 0;
            ++tile_lifts;
            #pragma unroll
            for (int u = 0; u < 3; ++u)
                take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

            {
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 252 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 3; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                }
            }

            if ((tile_lifts & 3) == 0) {
                #pragma unroll
                for (int u = 0; u < 3; ++u)
                    take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

                {
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 272 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 3; ++u) {
                        tile_level1_reduce_y0[u] = reduce_y0;
                    }
                }

                if ((tile_lifts & 15) == 0) {
                    #pragma unroll
                    for (int u = 0; u < 3; ++u)
                        take_partial(&tile_level3_reduce_y0[u], tile_level2_reduce_y0[u]);

                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 292 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 3; ++u) {
                            tile_level2_reduce_y0[u] = reduce_y0;
                        }
                    }

                    if ((tile_lifts & 63) == 0) {
                        #pragma unroll
                        for (int u = 0; u < 3; ++u)
                            take_partial(&tile_level4_reduce_y0[u], tile_level3_reduce_y0[u]);

                        {
                            typedef float16 typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = 0;
                            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 312 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 3; ++u) {
                                tile_level3_reduce_y0[u] = reduce_y0;
                            }
                        }

                    }

                }

            }

        }

    }
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
        take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

        take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

        take_partial(&tile_level3_reduce_y0[u], tile_level2_reduce_y0[u]);

        take_partial(&tile_level4_reduce_y0[u], tile_level3_reduce_y0[u]);

        tile_reduce_y0[u] = tile_level4_reduce_y0[u];
    }

    float done_reduce_y0[48];
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
        vstore16(tile_reduce_y0[u], u, done_reduce_y0);
    }
    // Halves onto halves, down to a row.
    for (int apart = 24; apart >= 3; apart /= 2)
        for (int t = 0; t < apart; ++t)
            take_partial(&done_reduce_y0[t], done_reduce_y0[t + apart]);
    for (index_t c = 0; c < 3; ++c) {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 358 "kernel"
        }

        // The last rows fill no tile, and too few steps for vectors.
        #pragma clang loop vectorize(disable)
        for (index_t f = e + c; f < end; f += 3) {
            typedef float typeof_x0;
            const typeof_x0 x0 = (float)x0_memory[x0_at + f];
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0;
#line 371 "kernel"
            }
            {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 376 "kernel"
            }

        }
        take_partial(&reduce_y0, done_reduce_y0[c]);
        const index_t o = block * 3 + c;
        const index_t y0_at = y0_start + c * y0_column;
        typedef float typeof_y0;
        typeof_y0 y0 = (float)reduce_y0;
        y0_memory[y0_at] = y0;

    }
}
