// The second stage: every output merges its partials, which lie one row of outputs a split.
//
//     reduce_yN_memory   | outputs of split 0 | outputs of split 1 | ...
//     A work-item takes one output.
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY
#define lowest_reduce_y1 -INFINITY
#define highest_reduce_y1 INFINITY
#define lowest_reduce_y2 -INFINITY
#define highest_reduce_y2 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, float *to_reduce_y1, float *to_reduce_y2, const float other_y0, const float other_y1, const float other_y2)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    typedef float typeof_reduce_y2;
    typeof_reduce_y2 reduce_y2 = *to_reduce_y2;
    {
#line 1 "snippet:combine"
typeof_reduce_y0 n = reduce_y2 + other_y2;
if (other_y2 > 0) {
    typeof_reduce_y0 delta = other_y0 - reduce_y0;
    reduce_y0 += delta * (other_y2 / n);
    reduce_y1 += other_y1 + delta * delta * (reduce_y2 * other_y2 / n);
    reduce_y2 = n;
}
#line 33 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
    *to_reduce_y2 = reduce_y2;
}

__kernel void mean_and_variance_finish(
    __global float *y0_memory,
    __global float *y1_memory,
    __global const float *reduce_y0_memory,
    __global const float *reduce_y1_memory,
    __global const float *reduce_y2_memory,
    const int length,
    const int outputs,
    const int splits,
    const int k0,
    const int y0_start,
    const int y0_k0,
    const int y1_start,
    const int y1_k0)
{

    const index_t o = (index_t)get_global_id(0);
    if (o >= outputs)
        return;
    index_t kept_rest = o;
    const index_t at_k0 = kept_rest;

    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = 0;
    typedef float typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = 0;
    typedef float typeof_reduce_y2;
    typeof_reduce_y2 reduce_y2 = 0;
    {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;
#line 71 "kernel"
    }

    float tile_reduce_y0[1];
    float tile_reduce_y1[1];
    float tile_reduce_y2[1];
    {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        typedef float typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        typedef float typeof_reduce_y2;
        typeof_reduce_y2 reduce_y2 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;
#line 87 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            tile_reduce_y0[u] = reduce_y0;
            tile_reduce_y1[u] = reduce_y1;
            tile_reduce_y2[u] = reduce_y2;
        }
    }

    float tile_level1_reduce_y0[1];
    float tile_level2_reduce_y0[1];
    float tile_level3_reduce_y0[1];
    float tile_level1_reduce_y1[1];
    float tile_level2_reduce_y1[1];
    float tile_level3_reduce_y1[1];
    float tile_level1_reduce_y2[1];
    float tile_level2_reduce_y2[1];
    float tile_level3_reduce_y2[1];
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
        tile_level1_reduce_y0[u] = tile_reduce_y0[u];
        tile_level2_reduce_y0[u] = tile_reduce_y0[u];
        tile_level3_reduce_y0[u] = tile_reduce_y0[u];
        tile_level1_reduce_y1[u] = tile_reduce_y1[u];
        tile_level2_reduce_y1[u] = tile_reduce_y1[u];
        tile_level3_reduce_y1[u] = tile_reduce_y1[u];
        tile_level1_reduce_y2[u] = tile_reduce_y2[u];
        tile_level2_reduce_y2[u] = tile_reduce_y2[u];
        tile_level3_reduce_y2[u] = tile_reduce_y2[u];
    }
    uint tile_steps = 0, tile_lifts = 0;

    for (index_t split = 0; split < splits; split += 1) {
        take_partial(&tile_reduce_y0[0], &tile_reduce_y1[0], &tile_reduce_y2[0], reduce_y0_memory[split * outputs + o], reduce_y1_memory[split * outputs + o], reduce_y2_memory[split * outputs + o]);
        if (++tile_steps == 6) {
            tile_steps = 0;
            ++tile_lifts;
            #pragma unroll
            for (int u = 0; u < 1; ++u)
                take_partial(&tile_level1_reduce_y0[u], &tile_level1_reduce_y1[u], &tile_level1_reduce_y2[u], tile_reduce_y0[u], tile_reduce_y1[u], tile_reduce_y2[u]);

            {
                typedef float typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                typedef float typeof_reduce_y1;
                typeof_reduce_y1 reduce_y1 = 0;
                typedef float typeof_reduce_y2;
                typeof_reduce_y2 reduce_y2 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;
#line 140 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 1; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                    tile_reduce_y1[u] = reduce_y1;
                    tile_reduce_y2[u] = reduce_y2;
                }
            }

            if ((tile_lifts & 3) == 0) {
                #pragma unroll
                for (int u = 0; u < 1; ++u)
                    take_partial(&tile_level2_reduce_y0[u], &tile_level2_reduce_y1[u], &tile_level2_reduce_y2[u], tile_level1_reduce_y0[u], tile_level1_reduce_y1[u], tile_level1_reduce_y2[u]);

                {
                    typedef float typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    typedef float typeof_reduce_y1;
                    typeof_reduce_y1 reduce_y1 = 0;
                    typedef float typeof_reduce_y2;
                    typeof_reduce_y2 reduce_y2 = 0;
                    {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;
#line 166 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 1; ++u) {
                        tile_level1_reduce_y0[u] = reduce_y0;
                        tile_level1_reduce_y1[u] = reduce_y1;
                        tile_level1_reduce_y2[u] = reduce_y2;
                    }
                }

                if ((tile_lifts & 15) == 0) {
                    #pragma unroll
                    for (int u = 0; u < 1; ++u)
                        {
                            take_partial(&tile_level3_reduce_y0[u], &tile_level3_reduce_y1[u], &tile_level3_reduce_y2[u], tile_level2_reduce_y0[u], tile_level2_reduce_y1[u], tile_level2_reduce_y2[u]);
                        }

                    {
                        typedef float typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        typedef float typeof_reduce_y1;
                        typeof_reduce_y1 reduce_y1 = 0;
                        typedef float typeof_reduce_y2;
                        typeof_reduce_y2 reduce_y2 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;
#line 194 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 1; ++u) {
                            tile_level2_reduce_y0[u] = reduce_y0;
                            tile_level2_reduce_y1[u] = reduce_y1;
                            tile_level2_reduce_y2[u] = reduce_y2;
                        }
                    }

                }

            }

        }

    }
    #pragma unroll
    for (int u = 0; u < 1; ++u) {
        take_partial(&tile_level1_reduce_y0[u], &tile_level1_reduce_y1[u], &tile_level1_reduce_y2[u], tile_reduce_y0[u], tile_reduce_y1[u], tile_reduce_y2[u]);

        take_partial(&tile_level2_reduce_y0[u], &tile_level2_reduce_y1[u], &tile_level2_reduce_y2[u], tile_level1_reduce_y0[u], tile_level1_reduce_y1[u], tile_level1_reduce_y2[u]);

        {
            take_partial(&tile_level3_reduce_y0[u], &tile_level3_reduce_y1[u], &tile_level3_reduce_y2[u], tile_level2_reduce_y0[u], tile_level2_reduce_y1[u], tile_level2_reduce_y2[u]);
        }

        tile_reduce_y0[u] = tile_level3_reduce_y0[u];
        tile_reduce_y1[u] = tile_level3_reduce_y1[u];
        tile_reduce_y2[u] = tile_level3_reduce_y2[u];
    }

    take_partial(&reduce_y0, &reduce_y1, &reduce_y2, tile_reduce_y0[0], tile_reduce_y1[0], tile_reduce_y2[0]);
    const index_t y0_at = y0_start + at_k0 * y0_k0;
    const index_t y1_at = y1_start + at_k0 * y1_k0;
    typedef float typeof_y0;
    typeof_y0 y0 = 0;
    typedef float typeof_y1;
    typeof_y1 y1 = 0;
    const long count = length;
    {
#line 1 "snippet:finalize"
y0 = reduce_y0; y1 = reduce_y1 / count;
#line 238 "kernel"
    }
    y0_memory[y0_at] = y0;
    y1_memory[y1_at] = y1;

}
