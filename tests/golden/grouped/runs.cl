// Reduces groups and maps them, whose elements lie in runs.
//
//     a group    |----- run 0, n elements -----|   ...   |----- run 1 -----|   ...     runs anywhere
//     reduce     v v v v v v ... v                                                   the last one reaches back
//     each       v v v v v v ... v t t                                               once more, from a near cache
//
// A work-item takes some groups, one after the other.
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY
#define lowest_reduce_y1 -INFINITY
#define highest_reduce_y1 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float4 *to_reduce_y0, float4 *to_reduce_y1, const float4 other_y0, const float4 other_y1, const float w0)
{
    typedef float4 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float4 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
reduce_y1 += other_y1;
#line 27 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_partial(
float2 *to_reduce_y0, float2 *to_reduce_y1, const float2 other_y0, const float2 other_y1, const float w0)
{
    typedef float2 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float2 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
reduce_y1 += other_y1;
#line 44 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, float *to_reduce_y1, const float other_y0, const float other_y1, const float w0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
reduce_y1 += other_y1;
#line 61 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void group(
    __global float *y0_memory,
    __global float *group_y1_memory,
    __global const float *x0_memory,
    __global const float *x1_memory,
    __global const float *x2_memory,
    const float w0,
    const int groups,
    const int inner_groups,
    const int rows,
    const int n,
    const int y0_start,
    const int y0_outer,
    const int y0_group,
    const int y0_row,
    const int group_y1_start,
    const int group_y1_outer,
    const int group_y1_group,
    const int x0_start,
    const int x0_outer,
    const int x0_group,
    const int x0_row,
    const int x1_start,
    const int x1_outer,
    const int x1_group,
    const int x2_start,
    const int x2_outer,
    const int x2_group,
    const int x2_row,
    const int groups_an_item,
    const int rows_a_chain)
{
    typedef float typeof_w0;

    const index_t first = (index_t)get_group_id(0) * groups_an_item;
    const index_t last = min(first + groups_an_item, groups);
    for (index_t number = first; number < last; ++number) {
        const index_t outer = number / inner_groups, group = number % inner_groups;
        const index_t y0_begin = y0_start + outer * y0_outer + group * y0_group;
        const index_t x0_begin = x0_start + outer * x0_outer + group * x0_group;
        const float x1_once = (float)x1_memory[x1_start + outer * x1_outer + group * x1_group];
        const index_t x2_begin = x2_start + outer * x2_outer + group * x2_group;
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        typedef float typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0;
#line 116 "kernel"
        }

        for (index_t chain = 0; chain < rows; chain += rows_a_chain) {
            float4 tile_reduce_y0[4];
            float4 tile_reduce_y1[4];
            {
                typedef float4 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                typedef float4 typeof_reduce_y1;
                typeof_reduce_y1 reduce_y1 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0;
#line 130 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                    tile_reduce_y1[u] = reduce_y1;
                }
            }

            for (index_t row = chain; row < min(chain + rows_a_chain, rows); ++row) {
                const index_t x0_at = x0_begin + row * x0_row;
                const index_t x1_at = x1_start + outer * x1_outer + group * x1_group;

                index_t e = 0;
                for (; e + 16 <= n; e += 16) {
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        const index_t at = e + u * 4;
                        typedef float4 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                        typedef float4 typeof_reduce_y1;
                        typeof_reduce_y1 reduce_y1 = tile_reduce_y1[u];
                        typedef float4 typeof_x0;
                        const typeof_x0 x0 = vload4(0, x0_memory + x0_at + at);
                        typedef float4 typeof_x1;
                        const typeof_x1 x1 = (float)x1_memory[x1_at];
                        typedef float4 typeof_y0;
                        typeof_y0 y0 = 0;
                        typedef float4 typeof_y1;
                        typeof_y1 y1 = 0;
                        {
#line 1 "snippet:expr"
y0 = x0 - x1; y1 = y0 * y0;
#line 164 "kernel"
                        }
                        {
#line 1 "snippet:step"
reduce_y0 += y0; reduce_y1 += y1;
#line 169 "kernel"
                        }

                        tile_reduce_y0[u] = reduce_y0;
                        tile_reduce_y1[u] = reduce_y1;

                    }
                }
                for (; e + 4 <= n; e += 4) {
                    typedef float4 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                    typedef float4 typeof_reduce_y1;
                    typeof_reduce_y1 reduce_y1 = tile_reduce_y1[0];
                    typedef float4 typeof_x0;
                    const typeof_x0 x0 = vload4(0, x0_memory + x0_at + e);
                    typedef float4 typeof_x1;
                    const typeof_x1 x1 = (float)x1_memory[x1_at];
                    typedef float4 typeof_y0;
                    typeof_y0 y0 = 0;
                    typedef float4 typeof_y1;
                    typeof_y1 y1 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0 - x1; y1 = y0 * y0;
#line 193 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0; reduce_y1 += y1;
#line 198 "kernel"
                    }

                    tile_reduce_y0[0] = reduce_y0;
                    tile_reduce_y1[0] = reduce_y1;

                }
                if (e < n) {
                    // What the last vector has taken before stays as it is.
                    const int4 fresh = (int4)(0, 1, 2, 3) >= (int4)(4 - (n - e));
                    const float4 old_reduce_y0 = tile_reduce_y0[0];
                    const float4 old_reduce_y1 = tile_reduce_y1[0];
                    typedef float4 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                    typedef float4 typeof_reduce_y1;
                    typeof_reduce_y1 reduce_y1 = tile_reduce_y1[0];
                    typedef float4 typeof_x0;
                    const typeof_x0 x0 = vload4(0, x0_memory + x0_at + (n - 4));
                    typedef float4 typeof_x1;
                    const typeof_x1 x1 = (float)x1_memory[x1_at];
                    typedef float4 typeof_y0;
                    typeof_y0 y0 = 0;
                    typedef float4 typeof_y1;
                    typeof_y1 y1 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0 - x1; y1 = y0 * y0;
#line 225 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0; reduce_y1 += y1;
#line 230 "kernel"
                    }

                    tile_reduce_y0[0] = reduce_y0;
                    tile_reduce_y1[0] = reduce_y1;

                    tile_reduce_y0[0] = fresh ? tile_reduce_y0[0] : old_reduce_y0;
                    tile_reduce_y1[0] = fresh ? tile_reduce_y1[0] : old_reduce_y1;
                }
            }
            #pragma unroll
            for (int u = 1; u < 4; ++u)
                take_partial(&tile_reduce_y0[0], &tile_reduce_y1[0], tile_reduce_y0[u], tile_reduce_y1[u], w0);
            {
                const float4 vector_reduce_y0 = tile_reduce_y0[0];
                const float4 vector_reduce_y1 = tile_reduce_y1[0];
                // Halves onto halves, down to a single value.
                float2 half2_reduce_y0 = vector_reduce_y0.lo;
                float2 half2_reduce_y1 = vector_reduce_y1.lo;
                take_partial(&half2_reduce_y0, &half2_reduce_y1, vector_reduce_y0.hi, vector_reduce_y1.hi, w0);
                float half1_reduce_y0 = half2_reduce_y0.lo;
                float half1_reduce_y1 = half2_reduce_y1.lo;
                take_partial(&half1_reduce_y0, &half1_reduce_y1, half2_reduce_y0.hi, half2_reduce_y1.hi, w0);
                take_partial(&reduce_y0, &reduce_y1, half1_reduce_y0, half1_reduce_y1, w0);

            }

        }
        float value_0;
        float value_1;
        {
            typedef float typeof_x1;
            const typeof_x1 x1 = x1_once;

            typedef float typeof_group_y0;
            typeof_group_y0 group_y0 = 0;
            typedef float typeof_group_y1;
            typeof_group_y1 group_y1 = 0;
            const float count = (float)rows * n;
            {
#line 1 "snippet:finalize"
group_y0 = reduce_y0 / count + x1; group_y1 = rsqrt(reduce_y1 * w0);
#line 272 "kernel"
            }
            value_0 = group_y0;
            value_1 = group_y1;
        }
        group_y1_memory[group_y1_start + outer * group_y1_outer + group * group_y1_group] = value_1;
        for (index_t row = 0; row < rows; ++row) {
            const index_t y0_at = y0_begin + row * y0_row;
            const index_t x0_at = x0_begin + row * x0_row;
            const index_t x2_at = x2_begin + row * x2_row;

            index_t e = 0;
            for (; e + 4 <= n; e += 4) {
                typedef float4 typeof_x0;
                const typeof_x0 x0 = vload4(0, x0_memory + x0_at + e);
                typedef float4 typeof_x2;
                const typeof_x2 x2 = vload4(0, x2_memory + x2_at + e);

                typedef float4 typeof_group_y0;
                const typeof_group_y0 group_y0 = value_0;
                typedef float4 typeof_group_y1;
                const typeof_group_y1 group_y1 = value_1;
                typedef float4 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:each"
y0 = (x0 - group_y0) * group_y1 + x2 * w0;
#line 299 "kernel"
                }
                vstore4(y0, 0, y0_memory + y0_at + e);
            }
            for (; e + 1 <= n; e += 1) {
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)x0_memory[x0_at + e];
                typedef float typeof_x2;
                const typeof_x2 x2 = (float)x2_memory[x2_at + e];

                typedef float typeof_group_y0;
                const typeof_group_y0 group_y0 = value_0;
                typedef float typeof_group_y1;
                const typeof_group_y1 group_y1 = value_1;
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:each"
y0 = (x0 - group_y0) * group_y1 + x2 * w0;
#line 318 "kernel"
                }
                y0_memory[y0_at + e] = y0;
            }
        }
    }
}
