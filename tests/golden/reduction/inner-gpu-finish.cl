// The second stage: every output merges its partials, which lie one row of outputs a split.
//
//     reduce_yN_memory   | outputs of split 0 | outputs of split 1 | ...
//     16 work-items share the splits of one output.
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
#line 19 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel void reduction_finish(
    __global float *y0_memory,
    __global const float *reduce_y0_memory,
    const int length,
    const int outputs,
    const int splits,
    const int k0,
    const int y0_start,
    const int y0_k0)
{

    __local float local_reduce_y0[16];

    const index_t lane = (index_t)get_local_id(0);
    const index_t o = (index_t)get_group_id(0);
    index_t kept_rest = o;
    const index_t at_k0 = kept_rest;

    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = 0;
    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 47 "kernel"
    }

    float tile_reduce_y0[1];
    {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 57 "kernel"
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

    for (index_t split = lane; split < splits; split += 16) {
        take_partial(&tile_reduce_y0[0], reduce_y0_memory[split * outputs + o]);
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
#line 94 "kernel"
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
#line 114 "kernel"
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
#line 140 "kernel"
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

    local_reduce_y0[lane] = reduce_y0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int reach = 8; reach > 0; reach /= 2) {
        if (lane < reach) {
            take_partial(&reduce_y0, local_reduce_y0[lane + reach * 1]);
            local_reduce_y0[lane] = reduce_y0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    if (lane != 0)
        return;
    const index_t y0_at = y0_start + at_k0 * y0_k0;
    typedef float typeof_y0;
    typeof_y0 y0 = (float)reduce_y0;
    y0_memory[y0_at] = y0;

}
