// The contiguous loop is reduced: a work-group walks along it for one output at a time.
//
//     reduced space  |---- row 0 ----|---- row 1 ----| ...      n elements a row, rows anywhere
//     chunk          . . [begin ............... end) . .      what this group's split takes
//     work-items     l l l l l l l l l l l l l l l l          32 side by side, 1 elements each,
//     tile           u u u u u u u u                          1 times: independent accumulators
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY
#define lowest_reduce_y1 LONG_MIN
#define highest_reduce_y1 LONG_MAX

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, long *to_reduce_y1, const float other_y0, const long other_y1)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef long typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:combine"
if (other_y0 > reduce_y0 || (other_y0 == reduce_y0 && other_y1 < reduce_y1)) { reduce_y0 = other_y0; reduce_y1 = other_y1; }
#line 25 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void reduction(
    __global float *y0_memory,
    __global long *y1_memory,
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
    const int y0_k0,
    const int y1_start,
    const int y1_step,
    const int y1_column,
    const int y1_k0,
    const int reduce_item_start,
    const int reduce_item_step,
    const int reduce_item_column,
    const int reduce_item_k0)
{

    __local float local_reduce_y0[32];
    __local long local_reduce_y1[32];

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
        typedef long typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = -INFINITY; reduce_y1 = 0;
#line 81 "kernel"
        }

        {
            index_t e = begin;
            const index_t stop = end;
            const index_t x0_at = x0_start + at_k0 * x0_k0;
            const index_t reduce_item_at = reduce_item_start + at_k0 * reduce_item_k0;
            for (e += lane; e < stop; e += 32) {
                const long reduce_item = reduce_item_at + e * reduce_item_step;
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)x0_memory[x0_at + e];
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 98 "kernel"
                }
                {
#line 1 "snippet:step"
if (y0 > reduce_y0) { reduce_y0 = y0; reduce_y1 = reduce_item; }
#line 103 "kernel"
                }

            }
        }

        local_reduce_y0[lane] = reduce_y0;
        local_reduce_y1[lane] = reduce_y1;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int reach = 16; reach > 0; reach /= 2) {
            if (lane < reach) {
                take_partial(&reduce_y0, &reduce_y1, local_reduce_y0[lane + reach * 1], local_reduce_y1[lane + reach * 1]);
                local_reduce_y0[lane] = reduce_y0;
                local_reduce_y1[lane] = reduce_y1;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }

        if (lane == 0)
        {
            const index_t y0_at = y0_start + at_k0 * y0_k0;
            const index_t y1_at = y1_start + at_k0 * y1_k0;
            typedef float typeof_y0;
            typeof_y0 y0 = (float)reduce_y0;
            typedef long typeof_y1;
            typeof_y1 y1 = (long)reduce_y1;
            y0_memory[y0_at] = y0;
            y1_memory[y1_at] = y1;

        }
        barrier(CLK_LOCAL_MEM_FENCE);  // the next output uses the same local memory
        ++at_k0;

    }
}
