// The second stage: every output merges its partials, which lie one row of outputs a split.
//
//     reduce_yN_memory   | outputs of split 0 | outputs of split 1 | ...
//     A work-item takes 16 neighbouring outputs, in vectors, so that memory is read in long
//     runs; the last one overlaps its neighbour and stores only what is its own.
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
#line 20 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel void about_origin_finish(
    __global float *y0_memory,
    __global float *y1_memory,
    __global const float *x1_memory,
    __global const half *x2_memory,
    __global const float *reduce_y0_memory,
    const int length,
    const int outputs,
    const int splits,
    const int k0,
    const int x1_start,
    const int x1_k0,
    const int x2_start,
    const int x2_k0,
    const int y0_start,
    const int y0_k0,
    const int y1_start,
    const int y1_k0)
{

    const index_t own = (index_t)get_global_id(0) * 16;
    const index_t from = min(own, outputs - 16);
    float16 tile_reduce_y0[1];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 54 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            tile_reduce_y0[u] = reduce_y0;
        }
    }

    float16 tile_level1_reduce_y0[1];
    float16 tile_level2_reduce_y0[1];
    float16 tile_level3_reduce_y0[1];
    float16 tile_lost_reduce_y0[1];
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
        tile_level1_reduce_y0[u] = tile_reduce_y0[u];
        tile_level2_reduce_y0[u] = tile_reduce_y0[u];
        tile_level3_reduce_y0[u] = tile_reduce_y0[u];
        tile_lost_reduce_y0[u] = 0;
    }
    uint tile_steps = 0, tile_lifts = 0;

    for (index_t split = 0; split < splits; ++split) {
        #pragma unroll
        for (int u = 0; u < 1; ++u)
            take_partial(&tile_reduce_y0[u], vload16(u, reduce_y0_memory + split * outputs + from));
        if (++tile_steps == 6) {
            tile_steps = 0;
            ++tile_lifts;
            #pragma unroll
            for (int u = 0; u < 1; ++u)
                take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

            {
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 93 "kernel"
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
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 113 "kernel"
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
                            const float16 old_reduce_y0 = tile_level3_reduce_y0[u];
                            take_partial(&tile_level3_reduce_y0[u], tile_level2_reduce_y0[u]);
                            const float16 part_reduce_y0 = tile_level3_reduce_y0[u] - old_reduce_y0;
                            tile_lost_reduce_y0[u] += (old_reduce_y0 - (tile_level3_reduce_y0[u] - part_reduce_y0))
                                + (tile_level2_reduce_y0[u] - part_reduce_y0);
                        }

                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 139 "kernel"
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
            const float16 old_reduce_y0 = tile_level3_reduce_y0[u];
            take_partial(&tile_level3_reduce_y0[u], tile_level2_reduce_y0[u]);
            const float16 part_reduce_y0 = tile_level3_reduce_y0[u] - old_reduce_y0;
            tile_lost_reduce_y0[u] += (old_reduce_y0 - (tile_level3_reduce_y0[u] - part_reduce_y0))
                + (tile_level2_reduce_y0[u] - part_reduce_y0);
        }

        tile_reduce_y0[u] = tile_level3_reduce_y0[u];
        const float16 lost_reduce_y0 = tile_lost_reduce_y0[u];
        tile_reduce_y0[u] += lost_reduce_y0 == lost_reduce_y0 ? lost_reduce_y0 : 0;
    }

    float done_reduce_y0[16];
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
        vstore16(tile_reduce_y0[u], u, done_reduce_y0);
    }
    for (int d = own - from; d < 16; ++d) {
        const index_t o = from + d;
        index_t kept_rest = o;
        const index_t at_k0 = kept_rest;

        typedef float typeof_reduce_y0;
        const typeof_reduce_y0 reduce_y0 = done_reduce_y0[d];
        const index_t y0_at = y0_start + at_k0 * y0_k0;
        const index_t y1_at = y1_start + at_k0 * y1_k0;
        typedef float typeof_y0;
        typeof_y0 y0 = 0;
        typedef float typeof_y1;
        typeof_y1 y1 = 0;
        typedef float typeof_x1;
        const typeof_x1 x1 = (float)x1_memory[x1_start + at_k0 * x1_k0];
        typedef float typeof_x2;
        const typeof_x2 x2 = (float)vload_half(0, x2_memory + x2_start + at_k0 * x2_k0);
        const long count = length;
        {
#line 1 "snippet:finalize"
y0 = x1 + reduce_y0 / count; y1 = x2;
#line 200 "kernel"
        }
        y0_memory[y0_at] = y0;
        y1_memory[y1_at] = y1;

    }
}
