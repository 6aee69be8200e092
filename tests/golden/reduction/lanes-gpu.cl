// Neighbouring work-items take neighbouring outputs; rows of work-items share the reduced loops.
//
//                    columns (outputs) >
//     work-group   l l l l l l l l     64 lanes, an output each
//                  l l l l l l l l     4 rows of them: row r takes elements r, r + 4, ...
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
#line 20 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(64, 4, 1))) void reduction(
    __global const float *x0_memory,
    __global float *reduce_y0_memory,
    const int n,
    const int length,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int x0_start,
    const int x0_step,
    const int x0_column)
{

    __local float local_reduce_y0[256];

    const index_t lane = (index_t)get_local_id(0);
    const index_t row_of_items = (index_t)get_local_id(1);
    const index_t tiles = (width + 63) / 64;
    const index_t blocks = outputs / width;
    const index_t first = (index_t)get_group_id(0) * per_group;
    const index_t last = min(first + per_group, blocks * tiles);
    const index_t split = (index_t)get_group_id(1);
    const index_t begin = split * chunk;
    const index_t end = min(begin + chunk, length);

    for (index_t tile = first; tile < last; ++tile) {
        const index_t block = tile / tiles;
        const index_t c = (tile - block * tiles) * 64 + lane;

        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 60 "kernel"
        }

        float tile_reduce_y0[1];
        {
            typedef float typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 70 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 1; ++u) {
                tile_reduce_y0[u] = reduce_y0;
            }
        }

        float tile_level1_reduce_y0[1];
        float tile_level2_reduce_y0[1];
        float tile_level3_reduce_y0[1];
        float tile_lost_reduce_y0[1];
        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            tile_level1_reduce_y0[u] = tile_reduce_y0[u];
            tile_level2_reduce_y0[u] = tile_reduce_y0[u];
            tile_level3_reduce_y0[u] = tile_reduce_y0[u];
            tile_lost_reduce_y0[u] = 0;
        }
        uint tile_steps = 0, tile_lifts = 0;

        // Lanes past the last output stay, idle, for the tree's barriers.
        const index_t own_end = c < width ? end : begin;
        index_t f = begin + row_of_items;
        while (f + 12 < own_end) {
            #pragma unroll
            for (int quarter = 0; quarter < 4; ++quarter) {
                const index_t i = f;
                const index_t x0_at = x0_start + i * x0_step;
                typedef float typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)x0_memory[x0_at + c];
                typedef float typeof_y0;
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

                tile_reduce_y0[0] = reduce_y0;

                f += 4;
            }
            {
                tile_steps = 0;
                ++tile_lifts;
                #pragma unroll
                for (int u = 0; u < 1; ++u)
                    take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                {
                    typedef float typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 134 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 1; ++u) {
                        tile_reduce_y0[u] = reduce_y0;
                    }
                }

                if ((tile_lifts & 3) == 0) {
                    #pragma unroll
                    for (int u = 0; u < 1; ++u)
                        take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

                    {
                        typedef float typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 154 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 1; ++u) {
                            tile_level1_reduce_y0[u] = reduce_y0;
                        }
                    }

                    if ((tile_lifts & 15) == 0) {
                        #pragma unroll
                        for (int u = 0; u < 1; ++u)
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
#line 180 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                tile_level2_reduce_y0[u] = reduce_y0;
                            }
                        }

                    }

                }

            }

        }

        for (; f < own_end; f += 4) {
            const index_t i = f;
            const index_t x0_at = x0_start + i * x0_step;
            typedef float typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
            typedef float typeof_x0;
            const typeof_x0 x0 = (float)x0_memory[x0_at + c];
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0;
#line 209 "kernel"
            }
            {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 214 "kernel"
            }

            tile_reduce_y0[0] = reduce_y0;

            if (++tile_steps == 6) {
                tile_steps = 0;
                ++tile_lifts;
                #pragma unroll
                for (int u = 0; u < 1; ++u)
                    take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                {
                    typedef float typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 232 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 1; ++u) {
                        tile_reduce_y0[u] = reduce_y0;
                    }
                }

                if ((tile_lifts & 3) == 0) {
                    #pragma unroll
                    for (int u = 0; u < 1; ++u)
                        take_partial(&tile_level2_reduce_y0[u], tile_level1_reduce_y0[u]);

                    {
                        typedef float typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 252 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 1; ++u) {
                            tile_level1_reduce_y0[u] = reduce_y0;
                        }
                    }

                    if ((tile_lifts & 15) == 0) {
                        #pragma unroll
                        for (int u = 0; u < 1; ++u)
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
#line 278 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                tile_level2_reduce_y0[u] = reduce_y0;
                            }
                        }

                    }

                }

            }

        }
        #pragma unroll
        for (int u = 0; u < 1; ++u) {
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

        take_partial(&reduce_y0, tile_reduce_y0[0]);

        local_reduce_y0[row_of_items * 64 + lane] = reduce_y0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int reach = 2; reach > 0; reach /= 2) {
            if (row_of_items < reach) {
                take_partial(&reduce_y0, local_reduce_y0[row_of_items * 64 + lane + reach * 64]);
                local_reduce_y0[row_of_items * 64 + lane] = reduce_y0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }

        if (c < width && row_of_items == 0) {
            const index_t o = block * width + c;
            reduce_y0_memory[split * outputs + o] = reduce_y0;

        }
        barrier(CLK_LOCAL_MEM_FENCE);  // the next tile uses the same local memory
    }
}
