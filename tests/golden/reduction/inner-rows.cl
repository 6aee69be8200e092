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
    __global const float *x0_memory,
    __global float *reduce_y0_memory,
    const int n,
    const int length,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int k0,
    const int r0,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int x0_k0,
    const int x0_r0)
{

    const index_t lane = 0;
    const index_t first = (index_t)get_group_id(0) * per_group;
    const index_t last = min(first + per_group, outputs);
    const index_t split = (index_t)get_group_id(1);

    index_t kept_rest = first;
    index_t at_k0 = kept_rest;

    for (index_t o = first; o < last; ++o) {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 110 "kernel"
        }

        float16 tile_reduce_y0[4];
        {
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 120 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                tile_reduce_y0[u] = reduce_y0;
            }
        }

        {
            index_t e = 0;
            const index_t stop = n;
            index_t reduced_rest = split;
            const index_t at_r0 = reduced_rest;

            const index_t x0_at = x0_start + at_k0 * x0_k0 + at_r0 * x0_r0;

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
#line 150 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 155 "kernel"
                    }

                    tile_reduce_y0[u] = reduce_y0;

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
#line 175 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 180 "kernel"
                }

                tile_reduce_y0[u] = reduce_y0;

            }
            // What fills no vector.
            for (e += lane; e < stop; e += 1) {
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)x0_memory[x0_at + e];
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 195 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 200 "kernel"
                }

            }
        }

        {
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
            reduce_y0_memory[split * outputs + o] = reduce_y0;

        }
        ++at_k0;

    }
}
