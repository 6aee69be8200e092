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
#line 29 "kernel"
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
#line 67 "kernel"
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
#line 83 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            tile_reduce_y0[u] = reduce_y0;
            tile_reduce_y1[u] = reduce_y1;
            tile_reduce_y2[u] = reduce_y2;
        }
    }

    float level1_reduce_y0[1];
    float level1_reduce_y1[1];
    float level1_reduce_y2[1];
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
#line 107 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level1_reduce_y0[u] = reduce_y0;
            level1_reduce_y1[u] = reduce_y1;
            level1_reduce_y2[u] = reduce_y2;
        }
    }

    int steps_1 = 0;
    float level2_reduce_y0[1];
    float level2_reduce_y1[1];
    float level2_reduce_y2[1];
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
#line 132 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level2_reduce_y0[u] = reduce_y0;
            level2_reduce_y1[u] = reduce_y1;
            level2_reduce_y2[u] = reduce_y2;
        }
    }

    int steps_2 = 0;
    float level3_reduce_y0[1];
    float level3_reduce_y1[1];
    float level3_reduce_y2[1];
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
#line 157 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level3_reduce_y0[u] = reduce_y0;
            level3_reduce_y1[u] = reduce_y1;
            level3_reduce_y2[u] = reduce_y2;
        }
    }

    int steps_3 = 0;
    float level4_reduce_y0[1];
    float level4_reduce_y1[1];
    float level4_reduce_y2[1];
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
#line 182 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level4_reduce_y0[u] = reduce_y0;
            level4_reduce_y1[u] = reduce_y1;
            level4_reduce_y2[u] = reduce_y2;
        }
    }

    int steps_4 = 0;
    float level5_reduce_y0[1];
    float level5_reduce_y1[1];
    float level5_reduce_y2[1];
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
#line 207 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level5_reduce_y0[u] = reduce_y0;
            level5_reduce_y1[u] = reduce_y1;
            level5_reduce_y2[u] = reduce_y2;
        }
    }

    int steps_5 = 0;

    for (index_t split = 0; split < splits; split += 1) {
        take_partial(&tile_reduce_y0[0], &tile_reduce_y1[0], &tile_reduce_y2[0], reduce_y0_memory[split * outputs + o], reduce_y1_memory[split * outputs + o], reduce_y2_memory[split * outputs + o]);
        if (++steps_1 == 8) {
            steps_1 = 0;
            #pragma unroll
            for (int u = 0; u < 1; ++u)
                take_partial(&level1_reduce_y0[u], &level1_reduce_y1[u], &level1_reduce_y2[u], tile_reduce_y0[u], tile_reduce_y1[u], tile_reduce_y2[u]);
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
#line 237 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 1; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                    tile_reduce_y1[u] = reduce_y1;
                    tile_reduce_y2[u] = reduce_y2;
                }
            }

            if (++steps_2 == 8) {
                steps_2 = 0;
                #pragma unroll
                for (int u = 0; u < 1; ++u)
                    take_partial(&level2_reduce_y0[u], &level2_reduce_y1[u], &level2_reduce_y2[u], level1_reduce_y0[u], level1_reduce_y1[u], level1_reduce_y2[u]);
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
#line 263 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 1; ++u) {
                        level1_reduce_y0[u] = reduce_y0;
                        level1_reduce_y1[u] = reduce_y1;
                        level1_reduce_y2[u] = reduce_y2;
                    }
                }

                if (++steps_3 == 8) {
                    steps_3 = 0;
                    #pragma unroll
                    for (int u = 0; u < 1; ++u)
                        take_partial(&level3_reduce_y0[u], &level3_reduce_y1[u], &level3_reduce_y2[u], level2_reduce_y0[u], level2_reduce_y1[u], level2_reduce_y2[u]);
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
#line 289 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 1; ++u) {
                            level2_reduce_y0[u] = reduce_y0;
                            level2_reduce_y1[u] = reduce_y1;
                            level2_reduce_y2[u] = reduce_y2;
                        }
                    }

                    if (++steps_4 == 8) {
                        steps_4 = 0;
                        #pragma unroll
                        for (int u = 0; u < 1; ++u)
                            take_partial(&level4_reduce_y0[u], &level4_reduce_y1[u], &level4_reduce_y2[u], level3_reduce_y0[u], level3_reduce_y1[u], level3_reduce_y2[u]);
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
#line 315 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                level3_reduce_y0[u] = reduce_y0;
                                level3_reduce_y1[u] = reduce_y1;
                                level3_reduce_y2[u] = reduce_y2;
                            }
                        }

                        if (++steps_5 == 8) {
                            steps_5 = 0;
                            #pragma unroll
                            for (int u = 0; u < 1; ++u)
                                take_partial(&level5_reduce_y0[u], &level5_reduce_y1[u], &level5_reduce_y2[u], level4_reduce_y0[u], level4_reduce_y1[u], level4_reduce_y2[u]);
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
#line 341 "kernel"
                                }

                                #pragma unroll
                                for (int u = 0; u < 1; ++u) {
                                    level4_reduce_y0[u] = reduce_y0;
                                    level4_reduce_y1[u] = reduce_y1;
                                    level4_reduce_y2[u] = reduce_y2;
                                }
                            }

                        }

                    }

                }

            }

        }

    }
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], &tile_reduce_y1[u], &tile_reduce_y2[u], level1_reduce_y0[u], level1_reduce_y1[u], level1_reduce_y2[u]);
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], &tile_reduce_y1[u], &tile_reduce_y2[u], level2_reduce_y0[u], level2_reduce_y1[u], level2_reduce_y2[u]);
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], &tile_reduce_y1[u], &tile_reduce_y2[u], level3_reduce_y0[u], level3_reduce_y1[u], level3_reduce_y2[u]);
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], &tile_reduce_y1[u], &tile_reduce_y2[u], level4_reduce_y0[u], level4_reduce_y1[u], level4_reduce_y2[u]);
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], &tile_reduce_y1[u], &tile_reduce_y2[u], level5_reduce_y0[u], level5_reduce_y1[u], level5_reduce_y2[u]);

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
#line 390 "kernel"
    }
    y0_memory[y0_at] = y0;
    y1_memory[y1_at] = y1;

}
