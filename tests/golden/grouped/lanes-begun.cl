// Reduces groups and maps them, whose few elements are neighbours: a lane of a vector has a group.
//
//     group 0    a a a a a      lane 0
//     group 1    b b b b b      lane 1      element by element: a b c ...
//     group 2    c c c c c      lane 2
//
// A work-item takes 16 groups at a time; the last ones by themselves.
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
static inline __attribute__((overloadable)) float16 cp_max(float16 a, float16 b)
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
#define lowest_reduce_y1 -INFINITY
#define highest_reduce_y1 INFINITY

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void group(
    __global float *y0_memory,
    __global const float *x0_memory,
    const float w0,
    const int groups,
    const int groups_an_item,
    const int n,
    const int y0_start,
    const int y0_group,
    const int x0_start,
    const int x0_group)
{
    typedef float typeof_w0;

    index_t group = (index_t)get_group_id(0) * groups_an_item;
    const index_t last = min(group + groups_an_item, groups);
    for (; group + 16 <= last; group += 16) {
        const index_t y0_at = y0_start + group * y0_group;
        const index_t x0_at = x0_start + group * x0_group;
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        typedef float16 typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = -INFINITY; reduce_y1 = 0;
#line 72 "kernel"
        }

        float16 begun_y0[32];
        for (index_t e = 0; e < n; ++e) {
            typedef float16 typeof_x0;
            const typeof_x0 x0 = (float16)((float)x0_memory[x0_at + 0 * x0_group + e], (float)x0_memory[x0_at + 1 * x0_group + e], (float)x0_memory[x0_at + 2 * x0_group + e], (float)x0_memory[x0_at + 3 * x0_group + e], (float)x0_memory[x0_at + 4 * x0_group + e], (float)x0_memory[x0_at + 5 * x0_group + e], (float)x0_memory[x0_at + 6 * x0_group + e], (float)x0_memory[x0_at + 7 * x0_group + e], (float)x0_memory[x0_at + 8 * x0_group + e], (float)x0_memory[x0_at + 9 * x0_group + e], (float)x0_memory[x0_at + 10 * x0_group + e], (float)x0_memory[x0_at + 11 * x0_group + e], (float)x0_memory[x0_at + 12 * x0_group + e], (float)x0_memory[x0_at + 13 * x0_group + e], (float)x0_memory[x0_at + 14 * x0_group + e], (float)x0_memory[x0_at + 15 * x0_group + e]);

            {
#line 1 "snippet:near_first"
reduce_y0 = max(reduce_y0, x0);
#line 83 "kernel"
            }

        }
        for (index_t e = 0; e < n; ++e) {
            typedef float16 typeof_x0;
            const typeof_x0 x0 = (float16)((float)x0_memory[x0_at + 0 * x0_group + e], (float)x0_memory[x0_at + 1 * x0_group + e], (float)x0_memory[x0_at + 2 * x0_group + e], (float)x0_memory[x0_at + 3 * x0_group + e], (float)x0_memory[x0_at + 4 * x0_group + e], (float)x0_memory[x0_at + 5 * x0_group + e], (float)x0_memory[x0_at + 6 * x0_group + e], (float)x0_memory[x0_at + 7 * x0_group + e], (float)x0_memory[x0_at + 8 * x0_group + e], (float)x0_memory[x0_at + 9 * x0_group + e], (float)x0_memory[x0_at + 10 * x0_group + e], (float)x0_memory[x0_at + 11 * x0_group + e], (float)x0_memory[x0_at + 12 * x0_group + e], (float)x0_memory[x0_at + 13 * x0_group + e], (float)x0_memory[x0_at + 14 * x0_group + e], (float)x0_memory[x0_at + 15 * x0_group + e]);

            typedef float16 typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:near_begin"
y0 = exp(x0 - reduce_y0) * w0;
#line 96 "kernel"
            }
            {
#line 1 "snippet:near_step"
reduce_y1 += y0;
#line 101 "kernel"
            }

            begun_y0[e] = y0;
        }
        float16 value_0;
        float16 value_1;
        {

            typedef float16 typeof_group_y0;
            typeof_group_y0 group_y0 = 0;
            typedef float16 typeof_group_y1;
            typeof_group_y1 group_y1 = 0;
            {
#line 1 "snippet:finalize"
group_y0 = reduce_y0;
group_y1 = reduce_y1;
#line 118 "kernel"
            }
            value_0 = group_y0;
            value_1 = group_y1;
        }
        for (index_t e = 0; e < n; ++e) {

            typedef float16 typeof_group_y0;
            const typeof_group_y0 group_y0 = value_0;
            typedef float16 typeof_group_y1;
            const typeof_group_y1 group_y1 = value_1;
            typedef float16 typeof_y0;
            typeof_y0 y0 = begun_y0[e];
            {
#line 1 "snippet:near_finish"
y0 /= group_y1;
#line 134 "kernel"
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
        const index_t x0_at = x0_start + group * x0_group;
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        typedef float typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = -INFINITY; reduce_y1 = 0;
#line 165 "kernel"
        }

        float begun_y0[32];
        for (index_t e = 0; e < n; ++e) {
            typedef float typeof_x0;
            const typeof_x0 x0 = (float)x0_memory[x0_at + e];

            {
#line 1 "snippet:near_first"
reduce_y0 = max(reduce_y0, x0);
#line 176 "kernel"
            }

        }
        for (index_t e = 0; e < n; ++e) {
            typedef float typeof_x0;
            const typeof_x0 x0 = (float)x0_memory[x0_at + e];

            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:near_begin"
y0 = exp(x0 - reduce_y0) * w0;
#line 189 "kernel"
            }
            {
#line 1 "snippet:near_step"
reduce_y1 += y0;
#line 194 "kernel"
            }

            begun_y0[e] = y0;
        }
        float value_0;
        float value_1;
        {

            typedef float typeof_group_y0;
            typeof_group_y0 group_y0 = 0;
            typedef float typeof_group_y1;
            typeof_group_y1 group_y1 = 0;
            {
#line 1 "snippet:finalize"
group_y0 = reduce_y0;
group_y1 = reduce_y1;
#line 211 "kernel"
            }
            value_0 = group_y0;
            value_1 = group_y1;
        }
        for (index_t e = 0; e < n; ++e) {

            typedef float typeof_group_y0;
            const typeof_group_y0 group_y0 = value_0;
            typedef float typeof_group_y1;
            const typeof_group_y1 group_y1 = value_1;
            typedef float typeof_y0;
            typeof_y0 y0 = begun_y0[e];
            {
#line 1 "snippet:near_finish"
y0 /= group_y1;
#line 227 "kernel"
            }
            y0_memory[y0_at + 0 * y0_group + e] = y0;

        }
    }
}
