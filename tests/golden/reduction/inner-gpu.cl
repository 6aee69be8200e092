// The contiguous loop is reduced: a work-group walks along it for one output at a time.
//
//     reduced space  |---- row 0 ----|---- row 1 ----| ...      n elements a row, rows anywhere
//     chunk          . . [begin ............... end) . .      what this group's split takes
//     work-items     l l l l l l l l l l l l l l l l          256 side by side, 4 elements each,
//     tile           u u u u u u u u                          2 times: independent accumulators
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float4 *to_reduce_y0, const float4 other_y0)
{
    typedef float4 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 21 "kernel"
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
#line 34 "kernel"
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
#line 47 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void reduction(
    __global const float *x0_memory,
    __global float *reduce_y0_memory,
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
    const int x0_k0)
{

    __local float local_reduce_y0[256];

    const index_t lane = (index_t)get_local_id(0);
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
#line 86 "kernel"
        }

        float4 tile_reduce_y0[2];
        {
            typedef float4 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 96 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 2; ++u) {
                tile_reduce_y0[u] = reduce_y0;
            }
        }

        {
            index_t e = begin;
            const index_t stop = end;
            const index_t x0_at = x0_start + at_k0 * x0_k0;

            for (; e + 2048 <= stop; e += 2048) {
                #pragma unroll
                for (int u = 0; u < 2; ++u) {
                    const index_t at = e + (u * 256 + lane) * 4;
                    typedef float4 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                    typedef float4 typeof_x0;
                    const typeof_x0 x0 = vload4(0, x0_memory + x0_at + at);
                    typedef float4 typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0;
#line 123 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 128 "kernel"
                    }

                    tile_reduce_y0[u] = reduce_y0;

                }

            }
            for (; e + 1024 <= stop; e += 1024) {
                const int u = 0;
                const index_t at = e + lane * 4;
                typedef float4 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                typedef float4 typeof_x0;
                const typeof_x0 x0 = vload4(0, x0_memory + x0_at + at);
                typedef float4 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 148 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 153 "kernel"
                }

                tile_reduce_y0[u] = reduce_y0;

            }
            // What fills no vector.
            for (e += lane; e < stop; e += 256) {
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)x0_memory[x0_at + e];
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 168 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 173 "kernel"
                }

            }
        }

        {
            take_partial(&tile_reduce_y0[0], tile_reduce_y0[1]);
            const float4 vector_reduce_y0 = tile_reduce_y0[0];
            // Halves onto halves, down to a single value.
            float2 half2_reduce_y0 = vector_reduce_y0.lo;
            take_partial(&half2_reduce_y0, vector_reduce_y0.hi);
            float half1_reduce_y0 = half2_reduce_y0.lo;
            take_partial(&half1_reduce_y0, half2_reduce_y0.hi);
            take_partial(&reduce_y0, half1_reduce_y0);

        }

        local_reduce_y0[lane] = reduce_y0;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int reach = 128; reach > 0; reach /= 2) {
            if (lane < reach) {
                take_partial(&reduce_y0, local_reduce_y0[lane + reach * 1]);
                local_reduce_y0[lane] = reduce_y0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }

        if (lane == 0)
        {
            reduce_y0_memory[split * outputs + o] = reduce_y0;

        }
        barrier(CLK_LOCAL_MEM_FENCE);  // the next output uses the same local memory
        ++at_k0;

    }
}
