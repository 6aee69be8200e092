// Reduces groups and maps them, whose elements lie in runs: 128 work-items share a group.
//
//     a run      0 1 2 ... 127 0 1 2 ...     neighbours take neighbours
//     tree       their partials become the group's
//     each       0 1 2 ... 127 0 1 2 ...     once more, from a cache
//
// A work-group takes 1 at a time.
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY
#define lowest_reduce_y1 -INFINITY
#define highest_reduce_y1 INFINITY

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
#line 27 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void group(
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
    const int x2_row)
{
    typedef float typeof_w0;

    __local float local_reduce_y0[128];
    __local float local_reduce_y1[128];

    const index_t lane = (index_t)get_local_id(0);
    const index_t beside = (index_t)get_local_id(1);
    // Work-items past the last group stay, for the tree's barriers, and store nothing.
    const index_t wanted = (index_t)get_group_id(0) * 1 + beside;
    const index_t number = min(wanted, groups - 1);
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
#line 85 "kernel"
    }

    for (index_t row = 0; row < rows; ++row) {
        const index_t x0_at = x0_begin + row * x0_row;
        const index_t x1_at = x1_start + outer * x1_outer + group * x1_group;
        #pragma unroll 4
        for (index_t e = lane; e < n; e += 128) {
            typedef float typeof_x0;
            const typeof_x0 x0 = (float)x0_memory[x0_at + e];
            typedef float typeof_x1;
            const typeof_x1 x1 = (float)x1_memory[x1_at];
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            typedef float typeof_y1;
            typeof_y1 y1 = 0;
            {
#line 1 "snippet:expr"
y0 = x0 - x1; y1 = y0 * y0;
#line 104 "kernel"
            }
            {
#line 1 "snippet:step"
reduce_y0 += y0; reduce_y1 += y1;
#line 109 "kernel"
            }

        }
    }

    local_reduce_y0[beside * 128 + lane] = reduce_y0;
    local_reduce_y1[beside * 128 + lane] = reduce_y1;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int reach = 64; reach > 0; reach /= 2) {
        if (lane < reach) {
            take_partial(&reduce_y0, &reduce_y1, local_reduce_y0[beside * 128 + lane + reach * 1], local_reduce_y1[beside * 128 + lane + reach * 1], w0);
            local_reduce_y0[beside * 128 + lane] = reduce_y0;
            local_reduce_y1[beside * 128 + lane] = reduce_y1;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    float value_0;
    float value_1;
    {
        const typeof_reduce_y0 reduce_y0 = local_reduce_y0[beside * 128];
        const typeof_reduce_y1 reduce_y1 = local_reduce_y1[beside * 128];
        typedef float typeof_x1;
        const typeof_x1 x1 = x1_once;

        typedef float typeof_group_y0;
        typeof_group_y0 group_y0 = 0;
        typedef float typeof_group_y1;
        typeof_group_y1 group_y1 = 0;
        const float count = (float)rows * n;
        {
#line 1 "snippet:finalize"
group_y0 = reduce_y0 + x1; group_y1 = rsqrt(reduce_y1 * w0);
#line 143 "kernel"
        }
        value_0 = group_y0;
        value_1 = group_y1;
    }
    if (wanted >= groups)
        return;
    if (lane == 0) {
        group_y1_memory[group_y1_start + outer * group_y1_outer + group * group_y1_group] = value_1;
    }
    for (index_t row = 0; row < rows; ++row) {
        const index_t y0_at = y0_begin + row * y0_row;
        const index_t x0_at = x0_begin + row * x0_row;
        const index_t x2_at = x2_begin + row * x2_row;
        #pragma unroll 4
        for (index_t e = lane; e < n; e += 128) {
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
#line 173 "kernel"
            }
            y0_memory[y0_at + e] = y0;

        }
    }

}
