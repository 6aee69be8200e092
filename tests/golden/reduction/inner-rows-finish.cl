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
#line 15 "kernel"
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

    const index_t own = (index_t)get_global_id(0) * 16;
    const index_t from = min(own, outputs - 16);
    float16 tile_reduce_y0[1];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 40 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            tile_reduce_y0[u] = reduce_y0;
        }
    }

    float16 level1_reduce_y0[1];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 56 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level1_reduce_y0[u] = reduce_y0;
        }
    }

    int steps_1 = 0;
    float16 level2_reduce_y0[1];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 73 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level2_reduce_y0[u] = reduce_y0;
        }
    }

    int steps_2 = 0;
    float16 level3_reduce_y0[1];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 90 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level3_reduce_y0[u] = reduce_y0;
        }
    }

    int steps_3 = 0;
    float16 level4_reduce_y0[1];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 107 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level4_reduce_y0[u] = reduce_y0;
        }
    }

    int steps_4 = 0;
    float16 level5_reduce_y0[1];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 124 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            level5_reduce_y0[u] = reduce_y0;
        }
    }

    int steps_5 = 0;

    for (index_t split = 0; split < splits; ++split) {
        #pragma unroll
        for (int u = 0; u < 1; ++u)
            take_partial(&tile_reduce_y0[u], vload16(u, reduce_y0_memory + split * outputs + from));
        if (++steps_1 == 8) {
            steps_1 = 0;
            #pragma unroll
            for (int u = 0; u < 1; ++u)
                take_partial(&level1_reduce_y0[u], tile_reduce_y0[u]);
            {
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 150 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 1; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                }
            }

            if (++steps_2 == 8) {
                steps_2 = 0;
                #pragma unroll
                for (int u = 0; u < 1; ++u)
                    take_partial(&level2_reduce_y0[u], level1_reduce_y0[u]);
                {
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 170 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 1; ++u) {
                        level1_reduce_y0[u] = reduce_y0;
                    }
                }

                if (++steps_3 == 8) {
                    steps_3 = 0;
                    #pragma unroll
                    for (int u = 0; u < 1; ++u)
                        take_partial(&level3_reduce_y0[u], level2_reduce_y0[u]);
                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 190 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 1; ++u) {
                            level2_reduce_y0[u] = reduce_y0;
                        }
                    }

                    if (++steps_4 == 8) {
                        steps_4 = 0;
                        #pragma unroll
                        for (int u = 0; u < 1; ++u)
                            take_partial(&level4_reduce_y0[u], level3_reduce_y0[u]);
                        {
                            typedef float16 typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = 0;
                            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 210 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                level3_reduce_y0[u] = reduce_y0;
                            }
                        }

                        if (++steps_5 == 8) {
                            steps_5 = 0;
                            #pragma unroll
                            for (int u = 0; u < 1; ++u)
                                take_partial(&level5_reduce_y0[u], level4_reduce_y0[u]);
                            {
                                typedef float16 typeof_reduce_y0;
                                typeof_reduce_y0 reduce_y0 = 0;
                                {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 230 "kernel"
                                }

                                #pragma unroll
                                for (int u = 0; u < 1; ++u) {
                                    level4_reduce_y0[u] = reduce_y0;
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
        take_partial(&tile_reduce_y0[u], level1_reduce_y0[u]);
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], level2_reduce_y0[u]);
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], level3_reduce_y0[u]);
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], level4_reduce_y0[u]);
    #pragma unroll
    for (int u = 0; u < 1; ++u)
        take_partial(&tile_reduce_y0[u], level5_reduce_y0[u]);

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
        typedef float typeof_y0;
        typeof_y0 y0 = (float)reduce_y0;
        y0_memory[y0_at] = y0;

    }
}
