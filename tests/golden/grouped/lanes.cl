// Reduces groups and maps them, whose few elements are neighbours: a lane of a vector has a group.
//
//     group 0    a a a a a      lane 0
//     group 1    b b b b b      lane 1      element by element: a b c ...
//     group 2    c c c c c      lane 2
//
// A work-item takes 16 groups at a time; the last ones by themselves.
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY
#define lowest_reduce_y1 -INFINITY
#define highest_reduce_y1 INFINITY

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void group(
    __global float *y0_memory,
    __global float *group_y1_memory,
    __global const float *x0_memory,
    __global const float *x1_memory,
    __global const float *x2_memory,
    const float w0,
    const int groups,
    const int groups_an_item,
    const int n,
    const int y0_start,
    const int y0_group,
    const int group_y1_start,
    const int group_y1_group,
    const int x0_start,
    const int x0_group,
    const int x1_start,
    const int x1_group,
    const int x2_start,
    const int x2_group)
{
    typedef float typeof_w0;

    index_t group = (index_t)get_group_id(0) * groups_an_item;
    const index_t last = min(group + groups_an_item, groups);
    for (; group + 16 <= last; group += 16) {
        const index_t y0_at = y0_start + group * y0_group;
        const index_t group_y1_at = group_y1_start + group * group_y1_group;
        const index_t x0_at = x0_start + group * x0_group;
        const index_t x1_at = x1_start + group * x1_group;
        const float16 x1_once = (float16)((float)x1_memory[x1_at + 0 * x1_group], (float)x1_memory[x1_at + 1 * x1_group], (float)x1_memory[x1_at + 2 * x1_group], (float)x1_memory[x1_at + 3 * x1_group], (float)x1_memory[x1_at + 4 * x1_group], (float)x1_memory[x1_at + 5 * x1_group], (float)x1_memory[x1_at + 6 * x1_group], (float)x1_memory[x1_at + 7 * x1_group], (float)x1_memory[x1_at + 8 * x1_group], (float)x1_memory[x1_at + 9 * x1_group], (float)x1_memory[x1_at + 10 * x1_group], (float)x1_memory[x1_at + 11 * x1_group], (float)x1_memory[x1_at + 12 * x1_group], (float)x1_memory[x1_at + 13 * x1_group], (float)x1_memory[x1_at + 14 * x1_group], (float)x1_memory[x1_at + 15 * x1_group]);
        const index_t x2_at = x2_start + group * x2_group;
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        typedef float16 typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0;
#line 55 "kernel"
        }

        for (index_t e = 0; e < n; ++e) {
            typedef float16 typeof_x0;
            const typeof_x0 x0 = (float16)((float)x0_memory[x0_at + 0 * x0_group + e], (float)x0_memory[x0_at + 1 * x0_group + e], (float)x0_memory[x0_at + 2 * x0_group + e], (float)x0_memory[x0_at + 3 * x0_group + e], (float)x0_memory[x0_at + 4 * x0_group + e], (float)x0_memory[x0_at + 5 * x0_group + e], (float)x0_memory[x0_at + 6 * x0_group + e], (float)x0_memory[x0_at + 7 * x0_group + e], (float)x0_memory[x0_at + 8 * x0_group + e], (float)x0_memory[x0_at + 9 * x0_group + e], (float)x0_memory[x0_at + 10 * x0_group + e], (float)x0_memory[x0_at + 11 * x0_group + e], (float)x0_memory[x0_at + 12 * x0_group + e], (float)x0_memory[x0_at + 13 * x0_group + e], (float)x0_memory[x0_at + 14 * x0_group + e], (float)x0_memory[x0_at + 15 * x0_group + e]);
            typedef float16 typeof_x1;
            const typeof_x1 x1 = x1_once;

            typedef float16 typeof_y0;
            typeof_y0 y0 = 0;
            typedef float16 typeof_y1;
            typeof_y1 y1 = 0;
            {
#line 1 "snippet:expr"
y0 = x0 - x1; y1 = y0 * y0;
#line 71 "kernel"
            }
            {
#line 1 "snippet:step"
reduce_y0 += y0; reduce_y1 += y1;
#line 76 "kernel"
            }

        }
        float16 value_0;
        float16 value_1;
        {
            typedef float16 typeof_x1;
            const typeof_x1 x1 = x1_once;

            typedef float16 typeof_group_y0;
            typeof_group_y0 group_y0 = 0;
            typedef float16 typeof_group_y1;
            typeof_group_y1 group_y1 = 0;
            {
#line 1 "snippet:finalize"
group_y0 = reduce_y0 + x1; group_y1 = rsqrt(reduce_y1 * w0);
#line 93 "kernel"
            }
            value_0 = group_y0;
            value_1 = group_y1;
        }
        group_y1_memory[group_y1_at + 0 * group_y1_group] = value_1.s0;
        group_y1_memory[group_y1_at + 1 * group_y1_group] = value_1.s1;
        group_y1_memory[group_y1_at + 2 * group_y1_group] = value_1.s2;
        group_y1_memory[group_y1_at + 3 * group_y1_group] = value_1.s3;
        group_y1_memory[group_y1_at + 4 * group_y1_group] = value_1.s4;
        group_y1_memory[group_y1_at + 5 * group_y1_group] = value_1.s5;
        group_y1_memory[group_y1_at + 6 * group_y1_group] = value_1.s6;
        group_y1_memory[group_y1_at + 7 * group_y1_group] = value_1.s7;
        group_y1_memory[group_y1_at + 8 * group_y1_group] = value_1.s8;
        group_y1_memory[group_y1_at + 9 * group_y1_group] = value_1.s9;
        group_y1_memory[group_y1_at + 10 * group_y1_group] = value_1.sa;
        group_y1_memory[group_y1_at + 11 * group_y1_group] = value_1.sb;
        group_y1_memory[group_y1_at + 12 * group_y1_group] = value_1.sc;
        group_y1_memory[group_y1_at + 13 * group_y1_group] = value_1.sd;
        group_y1_memory[group_y1_at + 14 * group_y1_group] = value_1.se;
        group_y1_memory[group_y1_at + 15 * group_y1_group] = value_1.sf;

        for (index_t e = 0; e < n; ++e) {
            typedef float16 typeof_x0;
            const typeof_x0 x0 = (float16)((float)x0_memory[x0_at + 0 * x0_group + e], (float)x0_memory[x0_at + 1 * x0_group + e], (float)x0_memory[x0_at + 2 * x0_group + e], (float)x0_memory[x0_at + 3 * x0_group + e], (float)x0_memory[x0_at + 4 * x0_group + e], (float)x0_memory[x0_at + 5 * x0_group + e], (float)x0_memory[x0_at + 6 * x0_group + e], (float)x0_memory[x0_at + 7 * x0_group + e], (float)x0_memory[x0_at + 8 * x0_group + e], (float)x0_memory[x0_at + 9 * x0_group + e], (float)x0_memory[x0_at + 10 * x0_group + e], (float)x0_memory[x0_at + 11 * x0_group + e], (float)x0_memory[x0_at + 12 * x0_group + e], (float)x0_memory[x0_at + 13 * x0_group + e], (float)x0_memory[x0_at + 14 * x0_group + e], (float)x0_memory[x0_at + 15 * x0_group + e]);
            typedef float16 typeof_x2;
            const typeof_x2 x2 = (float16)((float)x2_memory[x2_at + 0 * x2_group + e], (float)x2_memory[x2_at + 1 * x2_group + e], (float)x2_memory[x2_at + 2 * x2_group + e], (float)x2_memory[x2_at + 3 * x2_group + e], (float)x2_memory[x2_at + 4 * x2_group + e], (float)x2_memory[x2_at + 5 * x2_group + e], (float)x2_memory[x2_at + 6 * x2_group + e], (float)x2_memory[x2_at + 7 * x2_group + e], (float)x2_memory[x2_at + 8 * x2_group + e], (float)x2_memory[x2_at + 9 * x2_group + e], (float)x2_memory[x2_at + 10 * x2_group + e], (float)x2_memory[x2_at + 11 * x2_group + e], (float)x2_memory[x2_at + 12 * x2_group + e], (float)x2_memory[x2_at + 13 * x2_group + e], (float)x2_memory[x2_at + 14 * x2_group + e], (float)x2_memory[x2_at + 15 * x2_group + e]);

            typedef float16 typeof_group_y0;
            const typeof_group_y0 group_y0 = value_0;
            typedef float16 typeof_group_y1;
            const typeof_group_y1 group_y1 = value_1;
            typedef float16 typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:each"
y0 = (x0 - group_y0) * group_y1 + x2 * w0;
#line 130 "kernel"
            }
            y0_memory[y0_at + 0 * y0_group + e] = y0.s0;
            y0_memory[y0_at + 1 * y0_group + e] = y0.s1;
            y0_memory[y0_at + 2 * y0_group + e] = y0.s2;
            y0_memory[y0_at + 3 * y0_group + e] = y0.s3;
            y0_memory[y0_at + 4 * y0_group + e] = y0.s4;
            y0_memory[y0_at + 5 * y0_group + e] = y0.s5;
            y0_memory[y0_at + 6 * y0_group + e] = y0.s6;
            y0_memory[y0_at + 7 * y0_group + e] = y0.s7;
            y0_memory[y0_at + 8 * y0_group + e] = y0.s8;
            y0_memory[y0_at + 9 * y0_group + e] = y0.s9;
            y0_memory[y0_at + 10 * y0_group + e] = y0.sa;
            y0_memory[y0_at + 11 * y0_group + e] = y0.sb;
            y0_memory[y0_at + 12 * y0_group + e] = y0.sc;
            y0_memory[y0_at + 13 * y0_group + e] = y0.sd;
            y0_memory[y0_at + 14 * y0_group + e] = y0.se;
            y0_memory[y0_at + 15 * y0_group + e] = y0.sf;

        }
    }
    for (; group + 1 <= last; group += 1) {
        const index_t y0_at = y0_start + group * y0_group;
        const index_t group_y1_at = group_y1_start + group * group_y1_group;
        const index_t x0_at = x0_start + group * x0_group;
        const index_t x1_at = x1_start + group * x1_group;
        const float x1_once = (float)x1_memory[x1_at];
        const index_t x2_at = x2_start + group * x2_group;
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        typedef float typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0;
#line 165 "kernel"
        }

        for (index_t e = 0; e < n; ++e) {
            typedef float typeof_x0;
            const typeof_x0 x0 = (float)x0_memory[x0_at + e];
            typedef float typeof_x1;
            const typeof_x1 x1 = x1_once;

            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            typedef float typeof_y1;
            typeof_y1 y1 = 0;
            {
#line 1 "snippet:expr"
y0 = x0 - x1; y1 = y0 * y0;
#line 181 "kernel"
            }
            {
#line 1 "snippet:step"
reduce_y0 += y0; reduce_y1 += y1;
#line 186 "kernel"
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
            {
#line 1 "snippet:finalize"
group_y0 = reduce_y0 + x1; group_y1 = rsqrt(reduce_y1 * w0);
#line 203 "kernel"
            }
            value_0 = group_y0;
            value_1 = group_y1;
        }
        group_y1_memory[group_y1_at + 0 * group_y1_group] = value_1;

        for (index_t e = 0; e < n; ++e) {
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
#line 225 "kernel"
            }
            y0_memory[y0_at + 0 * y0_group + e] = y0;

        }
    }
}
