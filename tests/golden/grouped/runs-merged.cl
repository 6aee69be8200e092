// Reduces groups and maps them, whose elements lie in runs.
//
//     a group    |----- run 0, n elements -----|   ...   |----- run 1 -----|   ...     runs anywhere
//     reduce     v v v v v v ... v                                                   the last one reaches back
//     each       v v v v v v ... v t t                                               once more, from a near cache
//
// A work-item takes some groups, one after the other.
typedef int index_t;
static inline __attribute__((overloadable)) int cp_max(int a, int b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) uint cp_max(uint a, uint b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) long cp_max(long a, long b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) ulong cp_max(ulong a, ulong b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float cp_max(float a, float b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float4 cp_max(float4 a, float4 b)
{
    return max(a, b);
}
#undef max
#define max(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_max((cp_type)cp_in_a, (cp_type)cp_in_b); })

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, const float other_y0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
if (other_y0 > reduce_y0) reduce_y0 = other_y0;
#line 52 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void group(
    __global float *y0_memory,
    __global const half *x0_memory,
    const int groups,
    const int inner_groups,
    const int rows,
    const int n,
    const int y0_start,
    const int y0_outer,
    const int y0_group,
    const int y0_row,
    const int x0_start,
    const int x0_outer,
    const int x0_group,
    const int x0_row,
    const int groups_an_item,
    const int rows_a_chain)
{

    const index_t first = (index_t)get_group_id(0) * groups_an_item;
    const index_t last = min(first + groups_an_item, groups);
    for (index_t number = first; number < last; ++number) {
        const index_t outer = number / inner_groups, group = number % inner_groups;
        const index_t y0_begin = y0_start + outer * y0_outer + group * y0_group;
        const index_t x0_begin = x0_start + outer * x0_outer + group * x0_group;
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = lowest_reduce_y0;
#line 87 "kernel"
        }

        for (index_t chain = 0; chain < rows; chain += rows_a_chain) {
            float4 tile_reduce_y0[4];
            {
                typedef float4 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = lowest_reduce_y0;
#line 98 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                }
            }

            for (index_t row = chain; row < min(chain + rows_a_chain, rows); ++row) {
                const index_t x0_at = x0_begin + row * x0_row;

                index_t e = 0;
                for (; e + 16 <= n; e += 16) {
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        const index_t at = e + u * 4;
                        typedef float4 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                        typedef float4 typeof_x0;
                        const typeof_x0 x0 = vload_half4(0, x0_memory + x0_at + at);
                        {
#line 1 "snippet:step"
reduce_y0 = max(reduce_y0, x0);
#line 122 "kernel"
                        }

                        tile_reduce_y0[u] = reduce_y0;

                    }
                }
                for (; e + 4 <= n; e += 4) {
                    typedef float4 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                    typedef float4 typeof_x0;
                    const typeof_x0 x0 = vload_half4(0, x0_memory + x0_at + e);
                    {
#line 1 "snippet:step"
reduce_y0 = max(reduce_y0, x0);
#line 137 "kernel"
                    }

                    tile_reduce_y0[0] = reduce_y0;

                }
                if (e < n) {
                    // What the last vector has taken before stays as it is.
                    const int4 fresh = (int4)(0, 1, 2, 3) >= (int4)(4 - (n - e));
                    const float4 old_reduce_y0 = tile_reduce_y0[0];
                    typedef float4 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                    typedef float4 typeof_x0;
                    const typeof_x0 x0 = vload_half4(0, x0_memory + x0_at + (n - 4));
                    {
#line 1 "snippet:step"
reduce_y0 = max(reduce_y0, x0);
#line 154 "kernel"
                    }

                    tile_reduce_y0[0] = reduce_y0;

                    tile_reduce_y0[0] = fresh ? tile_reduce_y0[0] : old_reduce_y0;
                }
            }
            #pragma unroll
            for (int u = 1; u < 4; ++u)
                {
                    const float4 vector_reduce_y0 = tile_reduce_y0[u];
                    float lanes_reduce_y0[4];
                    vstore4(vector_reduce_y0, 0, lanes_reduce_y0);
                    for (int l = 0; l < 4; ++l)
                        take_partial(&reduce_y0, lanes_reduce_y0[l]);

                }

            {
                const float4 vector_reduce_y0 = tile_reduce_y0[0];
                float lanes_reduce_y0[4];
                vstore4(vector_reduce_y0, 0, lanes_reduce_y0);
                for (int l = 0; l < 4; ++l)
                    take_partial(&reduce_y0, lanes_reduce_y0[l]);

            }

        }
        float value_0;
        {

            typedef float typeof_group_y0;
            typeof_group_y0 group_y0 = 0;
            const float count = (float)rows * n;
            {
#line 1 "snippet:finalize"
group_y0 = reduce_y0;
#line 192 "kernel"
            }
            value_0 = group_y0;
        }
        for (index_t row = 0; row < rows; ++row) {
            const index_t y0_at = y0_begin + row * y0_row;
            const index_t x0_at = x0_begin + row * x0_row;

            index_t e = 0;
            for (; e + 4 <= n; e += 4) {
                typedef float4 typeof_x0;
                const typeof_x0 x0 = vload_half4(0, x0_memory + x0_at + e);

                typedef float4 typeof_group_y0;
                const typeof_group_y0 group_y0 = value_0;
                typedef float4 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:each"
y0 = exp(x0 - group_y0);
#line 212 "kernel"
                }
                vstore4(y0, 0, y0_memory + y0_at + e);
            }
            for (; e + 1 <= n; e += 1) {
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)vload_half(0, x0_memory + x0_at + e);

                typedef float typeof_group_y0;
                const typeof_group_y0 group_y0 = value_0;
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:each"
y0 = exp(x0 - group_y0);
#line 227 "kernel"
                }
                y0_memory[y0_at + e] = y0;
            }
        }
    }
}
