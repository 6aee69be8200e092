// The contiguous loop is kept: a work-item holds 16 x 1 neighbouring outputs in registers and
// walks down the rows.
//
//                    columns (outputs) >
//     rows     |  tile 0  |  tile 1  | ...    |     a tile: 16 vectors of 1
//     (reduced)|          |          |  | last |  the last one overlaps its neighbour, so that it
//       v      |          |          |  |      |  is whole; it stores only what is its own
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
#line 22 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void about_origin(
    __global const float *x0_memory,
    __global const float *x1_memory,
    __global const half *x2_memory,
    __global float *reduce_y0_memory,
    const int n,
    const int length,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int x1_start,
    const int x1_column,
    const int x2_start,
    const int x2_column)
{

    const index_t tiles = (width + 15) / 16;
    const index_t blocks = outputs / width;
    const index_t first = (index_t)get_group_id(0) * per_group;
    const index_t last = min(first + per_group, blocks * tiles);
    const index_t split = (index_t)get_group_id(1);
    const index_t begin = split * chunk;
    const index_t end = min(begin + chunk, length);

    for (index_t tile = first; tile < last; ++tile) {
        const index_t block = tile / tiles;
        const index_t own = (tile - block * tiles) * 16;
        const index_t from = min(own, width - 16);

        float tile_reduce_y0[16];
        {
            typedef float typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 67 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 16; ++u) {
                tile_reduce_y0[u] = reduce_y0;
            }
        }

        float tile_level1_reduce_y0[16];
        float tile_level2_reduce_y0[16];
        float tile_level3_reduce_y0[16];
        float tile_lost_reduce_y0[16];
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            tile_level1_reduce_y0[u] = tile_reduce_y0[u];
            tile_level2_reduce_y0[u] = tile_reduce_y0[u];
            tile_level3_reduce_y0[u] = tile_reduce_y0[u];
            tile_lost_reduce_y0[u] = 0;
        }
        uint tile_steps = 0, tile_lifts = 0;

        {
            index_t i = begin;
            const index_t stop = end;
            const index_t x1_at = x1_start;
            const index_t x2_at = x2_start;
            index_t x0_at = x0_start + i * x0_step;
            for (; i < stop; ++i) {
                #pragma unroll
                for (int u = 0; u < 16; ++u) {
                    const index_t c = from + u * 1;
                    typedef float typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                    typedef float typeof_x0;
                    const typeof_x0 x0 = (float)x0_memory[x0_at + c];
                    typedef float typeof_x1;
                    const typeof_x1 x1 = (float)x1_memory[x1_at + c * x1_column];
                    typedef float typeof_x2;
                    const typeof_x2 x2 = (float)vload_half(0, x2_memory + x2_at);
                    typedef float typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0 - x1;
#line 112 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 117 "kernel"
                    }

                    tile_reduce_y0[u] = reduce_y0;

                }
                if (++tile_steps == 6) {
                    tile_steps = 0;
                    ++tile_lifts;
                    #pragma unroll
                    for (int u = 0; u < 16; ++u)
                        take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                    {
                        typedef float typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 136 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 16; ++u) {
                            tile_reduce_y0[u] = reduce_y0;
                        }
                    }

                    if ((tile_lifts & 3) == 0) {
                        #pragma unroll
                        for (int u = 0; u < 16; ++u)
                            take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

                        {
                            typedef float typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = 0;
                            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 156 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 16; ++u) {
                                tile_level1_reduce_y0[u] = reduce_y0;
                            }
                        }

                        if ((tile_lifts & 15) == 0) {
                            #pragma unroll
                            for (int u = 0; u < 16; ++u)
                                {
                                    const float old_reduce_y0 = tile_level3_reduce_y0[u];
                                    take_partial(&tile_level3_reduce_y0[u], tile_level2_reduce_y0[u]);
                                    const float part_reduce_y0 = tile_level3_reduce_y0[u] - old_reduce_y0;
                                    tile_lost_reduce_y0[u] += (old_reduce_y0 - (tile_level3_reduce_y0[u] - part_reduce_y0))
                                        + (tile_level2_reduce_y0[u] - part_reduce_y0);
                                }

                            {
                                typedef float typeof_reduce_y0;
                                typeof_reduce_y0 reduce_y0 = 0;
                                {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 182 "kernel"
                                }

                                #pragma unroll
                                for (int u = 0; u < 16; ++u) {
                                    tile_level2_reduce_y0[u] = reduce_y0;
                                }
                            }

                        }

                    }

                }

                x0_at += x0_step;
            }
        }

        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

            take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

            {
                const float old_reduce_y0 = tile_level3_reduce_y0[u];
                take_partial(&tile_level3_reduce_y0[u], tile_level2_reduce_y0[u]);
                const float part_reduce_y0 = tile_level3_reduce_y0[u] - old_reduce_y0;
                tile_lost_reduce_y0[u] += (old_reduce_y0 - (tile_level3_reduce_y0[u] - part_reduce_y0))
                    + (tile_level2_reduce_y0[u] - part_reduce_y0);
            }

            tile_reduce_y0[u] = tile_level3_reduce_y0[u];
            const float lost_reduce_y0 = tile_lost_reduce_y0[u];
            tile_reduce_y0[u] += lost_reduce_y0 == lost_reduce_y0 ? lost_reduce_y0 : 0;
        }

        float done_reduce_y0[16];
        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            done_reduce_y0[u] = tile_reduce_y0[u];
        }
        for (int d = own - from; d < 16; ++d) {
            const index_t c = from + d;
            typedef float typeof_reduce_y0;
            const typeof_reduce_y0 reduce_y0 = done_reduce_y0[d];
            const index_t o = block * width + c;
            reduce_y0_memory[split * outputs + o] = reduce_y0;

        }
    }
}
