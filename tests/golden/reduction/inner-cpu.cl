// The contiguous loop is reduced: a work-group walks along it for one output at a time.
//
//     reduced space  |---- row 0 ----|---- row 1 ----| ...      n elements a row, rows anywhere
//     chunk          . . [begin ............... end) . .      what this group's split takes
//     work-items     l l l l l l l l l l l l l l l l          1 side by side, 16 elements each,
//     tile           u u u u u u u u                          4 times: independent accumulators
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
#line 21 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float8 *to_reduce_y0, const float8 other_y0)
{
    typedef float8 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 34 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float4 *to_reduce_y0, const float4 other_y0)
{
    typedef float4 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 47 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float2 *to_reduce_y0, const float2 other_y0)
{
    typedef float2 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 60 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, const float other_y0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 73 "kernel"
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

    const index_t lane = 0;
    const index_t first = (index_t)get_group_id(0) * per_group;
    const index_t last = min(first + per_group, outputs);
    const index_t split = (index_t)get_group_id(1);
    const index_t begin = split * chunk;
    const index_t end = min(begin + chunk, length);

    index_t kept_rest = first;
    index_t at_k0 = kept_rest;

    for (index_t o = first; o < last; ++o) {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 114 "kernel"
        }

        float16 tile_reduce_y0[4];
        {
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 124 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                tile_reduce_y0[u] = reduce_y0;
            }
        }

        float16 tile_level1_reduce_y0[4];
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            tile_level1_reduce_y0[u] = tile_reduce_y0[u];
        }
        uint tile_steps = 0, tile_lifts = 0;

        // What fills no vector has a chain of its own.
        float rest_reduce_y0[1];
        {
            typedef float typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 148 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 1; ++u) {
                rest_reduce_y0[u] = reduce_y0;
            }
        }

        float rest_level1_reduce_y0[1];
        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            rest_level1_reduce_y0[u] = rest_reduce_y0[u];
        }
        uint rest_steps = 0, rest_lifts = 0;

        {
            index_t e = begin;
            const index_t stop = end;
            const index_t x0_at = x0_start + at_k0 * x0_k0;

            for (; e + 64 <= stop; e += 64) {
                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    const index_t at = e + (u * 1 + lane) * 16;
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                    typedef float16 typeof_x0;
                    const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
                    typedef float16 typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0;
#line 182 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 187 "kernel"
                    }

                    tile_reduce_y0[u] = reduce_y0;

                }

                if (++tile_steps == 6) {
                    tile_steps = 0;
                    ++tile_lifts;
                    #pragma unroll
                    for (int u = 0; u < 4; ++u)
                        take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 207 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 4; ++u) {
                            tile_reduce_y0[u] = reduce_y0;
                        }
                    }

                }

            }
            for (; e + 16 <= stop; e += 16) {
                const int u = 0;
                const index_t at = e + lane * 16;
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                typedef float16 typeof_x0;
                const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
                typedef float16 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 231 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 236 "kernel"
                }

                tile_reduce_y0[u] = reduce_y0;

                if (++tile_steps == 6) {
                    tile_steps = 0;
                    ++tile_lifts;
                    #pragma unroll
                    for (int u = 0; u < 4; ++u)
                        take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 254 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 4; ++u) {
                            tile_reduce_y0[u] = reduce_y0;
                        }
                    }

                }

            }
            // What fills no vector.
            for (e += lane; e < stop; e += 1) {
                typedef float typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = rest_reduce_y0[0];
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)x0_memory[x0_at + e];
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 277 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 282 "kernel"
                }

                rest_reduce_y0[0] = reduce_y0;

                if (++rest_steps == 6) {
                    rest_steps = 0;
                    ++rest_lifts;
                    #pragma unroll
                    for (int u = 0; u < 1; ++u)
                        take_partial(&rest_level1_reduce_y0[u], rest_reduce_y0[u]);

                    {
                        typedef float typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 300 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 1; ++u) {
                            rest_reduce_y0[u] = reduce_y0;
                        }
                    }

                }

            }
        }
        #pragma unroll
        for (int u = 0; u < 1; ++u) {
            take_partial(&rest_level1_reduce_y0[u], rest_reduce_y0[u]);

            rest_reduce_y0[u] = rest_level1_reduce_y0[u];
        }

        take_partial(&reduce_y0, rest_reduce_y0[0]);

        {
            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                tile_reduce_y0[u] = tile_level1_reduce_y0[u];
            }

            take_partial(&tile_reduce_y0[0], tile_reduce_y0[1]);
            take_partial(&tile_reduce_y0[2], tile_reduce_y0[3]);
            take_partial(&tile_reduce_y0[0], tile_reduce_y0[2]);
            const float16 vector_reduce_y0 = tile_reduce_y0[0];
            // Halves onto halves, down to a single value.
            float8 half8_reduce_y0 = vector_reduce_y0.lo;
            take_partial(&half8_reduce_y0, vector_reduce_y0.hi);
            float4 half4_reduce_y0 = half8_reduce_y0.lo;
            take_partial(&half4_reduce_y0, half8_reduce_y0.hi);
            float2 half2_reduce_y0 = half4_reduce_y0.lo;
            take_partial(&half2_reduce_y0, half4_reduce_y0.hi);
            float half1_reduce_y0 = half2_reduce_y0.lo;
            take_partial(&half1_reduce_y0, half2_reduce_y0.hi);
            take_partial(&reduce_y0, half1_reduce_y0);

        }
        {
            const index_t y0_at = y0_start + at_k0 * y0_k0;
            typedef float typeof_y0;
            typeof_y0 y0 = (float)reduce_y0;
            y0_memory[y0_at] = y0;

        }
        ++at_k0;

    }
}
