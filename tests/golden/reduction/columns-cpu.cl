// The contiguous loop is kept: a work-item holds 9 x 16 neighbouring outputs in registers and
// walks down the rows.
//
//                    columns (outputs) >
//     rows     |  tile 0  |  tile 1  | ...    |     a tile: 9 vectors of 16
//     (reduced)|          |          |  | last |  the last one overlaps its neighbour, so that it
//       v      |          |          |  |      |  is whole; it stores only what is its own
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float16 *to_reduce_y0, const float16 other_y0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 22 "kernel"
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

    const index_t tiles = (width + 143) / 144;
    const index_t blocks = outputs / width;
    const index_t first = (index_t)get_group_id(0) * per_group;
    const index_t last = min(first + per_group, blocks * tiles);
    const index_t split = (index_t)get_group_id(1);
    const index_t begin = split * chunk;
    const index_t end = min(begin + chunk, length);

    for (index_t tile = first; tile < last; ++tile) {
        const index_t block = tile / tiles;
        const index_t own = (tile - block * tiles) * 144;
        const index_t from = min(own, width - 144);

        float16 tile_reduce_y0[9];
        {
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 64 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 9; ++u) {
                tile_reduce_y0[u] = reduce_y0;
            }
        }

        float16 tile_level1_reduce_y0[9];
        float16 tile_level2_reduce_y0[9];
        #pragma unroll
        for (int u = 0; u < 9; ++u) {
            tile_level1_reduce_y0[u] = tile_reduce_y0[u];
            tile_level2_reduce_y0[u] = tile_reduce_y0[u];
        }
        uint tile_steps = 0, tile_lifts = 0;

        {
            index_t i = begin;
            const index_t stop = end;
            index_t x0_at = x0_start + i * x0_step;
            for (; i + 4 <= stop; i += 4) {
                #pragma unroll
                for (int u = 0; u < 9; ++u) {
                    const index_t c = from + u * 16;
                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = -0.0f;
                        #pragma unroll
                        for (int quarter = 0; quarter < 4; ++quarter) {
                            typedef float16 typeof_x0;
                            const typeof_x0 x0 = vload16(0, x0_memory + x0_at + quarter * x0_step + c);
                            typedef float16 typeof_y0;
                            typeof_y0 y0 = 0;
                            {
#line 1 "snippet:expr"
y0 = x0;
#line 102 "kernel"
                            }
                            {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 107 "kernel"
                            }

                        }
                        take_partial(&tile_reduce_y0[u], reduce_y0);
                    }

                }
                if (++tile_steps == 6) {
                    tile_steps = 0;
                    ++tile_lifts;
                    #pragma unroll
                    for (int u = 0; u < 9; ++u)
                        take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 128 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 9; ++u) {
                            tile_reduce_y0[u] = reduce_y0;
                        }
                    }

                    if ((tile_lifts & 3) == 0) {
                        #pragma unroll
                        for (int u = 0; u < 9; ++u)
                            take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

                        {
                            typedef float16 typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = 0;
                            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 148 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 9; ++u) {
                                tile_level1_reduce_y0[u] = reduce_y0;
                            }
                        }

                    }

                }

                x0_at += 4 * x0_step;
            }
            for (; i < stop; ++i) {
                #pragma unroll
                for (int u = 0; u < 9; ++u) {
                    const index_t c = from + u * 16;
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                    typedef float16 typeof_x0;
                    const typeof_x0 x0 = vload16(0, x0_memory + x0_at + c);
                    typedef float16 typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0;
#line 176 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 181 "kernel"
                    }

                    tile_reduce_y0[u] = reduce_y0;

                }
                if (++tile_steps == 6) {
                    tile_steps = 0;
                    ++tile_lifts;
                    #pragma unroll
                    for (int u = 0; u < 9; ++u)
                        take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 200 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 9; ++u) {
                            tile_reduce_y0[u] = reduce_y0;
                        }
                    }

                    if ((tile_lifts & 3) == 0) {
                        #pragma unroll
                        for (int u = 0; u < 9; ++u)
                            take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

                        {
                            typedef float16 typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = 0;
                            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 220 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 9; ++u) {
                                tile_level1_reduce_y0[u] = reduce_y0;
                            }
                        }

                    }

                }

                x0_at += x0_step;
            }
        }

        #pragma unroll
        for (int u = 0; u < 9; ++u) {
            take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

            take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

            tile_reduce_y0[u] = tile_level2_reduce_y0[u];
        }

        if (own == from) {
            #pragma unroll
            for (int u = 0; u < 9; ++u) {
                const index_t c = from + u * 16;
                const index_t y0_at = y0_start + c;
                vstore16(tile_reduce_y0[u], 0, y0_memory + y0_at);
            }
            continue;
        }
        float done_reduce_y0[144];
        #pragma unroll
        for (int u = 0; u < 9; ++u) {
            vstore16(tile_reduce_y0[u], u, done_reduce_y0);
        }
        for (int d = own - from; d < 144; ++d) {
            const index_t c = from + d;
            typedef float typeof_reduce_y0;
            const typeof_reduce_y0 reduce_y0 = done_reduce_y0[d];
            const index_t o = block * width + c;
            const index_t y0_at = y0_start + c;
            typedef float typeof_y0;
            typeof_y0 y0 = (float)reduce_y0;
            y0_memory[y0_at] = y0;

        }
    }
}
