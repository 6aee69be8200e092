// Operands broadcast against each other: a work-group of 16 x 16 work-items holds a tile of outputs,
// 4 x 4 each, and copies what 16 steps need to local memory.
//
//                    64 columns: work-item l has l, l + 16, ...
//      64 rows      o o o o ...      o = step(o, x, y)

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
reduce_y0 += other_y0;
#line 47 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void distances(
    __global float *y0_memory,
    __global const float *x0_memory,
    __global const float *x1_memory,
    const int n,
    const int length,
    const int height,
    const int width,
    const int per_group,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int x0_row,
    const int x1_start,
    const int x1_step,
    const int x1_column,
    const int x1_row,
    const int y0_start,
    const int y0_column,
    const int y0_row)
{

    // One more a step: neighbouring steps are written by neighbouring work-items.
    __local float near_x0[16 * 65];
    // One more a step: neighbouring steps are written by neighbouring work-items.
    __local float near_x1[16 * 65];
    const int item = (int)get_local_id(1) * 16 + (int)get_local_id(0);
    const index_t group_row = (index_t)get_group_id(1) * 64;
    const index_t group_column = (index_t)get_group_id(0) * 64;
    const int lane_row = (int)get_local_id(1) * 4;
    const int lane_column = (int)get_local_id(0);
    const index_t from = group_row + lane_row;
    const index_t own_column = group_column + lane_column;
    const index_t batch = (index_t)get_group_id(2);

    float tile_reduce_y0[16];
    {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 94 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 16; ++u) {
            tile_reduce_y0[u] = reduce_y0;
        }
    }

    float tile_level1_reduce_y0[16];
    #pragma unroll
    for (int u = 0; u < 16; ++u) {
        tile_level1_reduce_y0[u] = tile_reduce_y0[u];
    }
    uint tile_steps = 0, tile_lifts = 0;

    for (index_t begin = 0; begin < length; begin += 16) {
        const int count = (int)min((index_t)16, length - begin);
        barrier(CLK_LOCAL_MEM_FENCE);  // the steps before were taken by all
        for (int e = item; e < 1024; e += 256) {
            // Neighbouring work-items read neighbours in memory.
            const int k = e % 16;
            const int line = e / 16;
            if (k < count) {
                const index_t i = (begin + k);
                const index_t x0_at = x0_start + i * x0_step;

                near_x0[k * 65 + line] = (float)x0_memory[x0_at + min(group_row + line, height - 1) * x0_row];
            }
        }
        for (int e = item; e < 1024; e += 256) {
            // Neighbouring work-items read neighbours in memory.
            const int k = e % 16;
            const int line = e / 16;
            if (k < count) {
                const index_t i = (begin + k);
                const index_t x1_at = x1_start + i * x1_step;

                near_x1[k * 65 + line] = (float)x1_memory[x1_at + min(group_column + line, width - 1) * x1_column];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < count; ++k) {
            float column_x1[4];
            #pragma unroll
            for (int u = 0; u < 4; ++u)
                column_x1[u] = near_x1[k * 65 + u * 16 + lane_column];
            #pragma unroll
            for (int r = 0; r < 4; ++r) {
                const float row_x0 = near_x0[k * 65 + lane_row + r];
                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    typedef float typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[r * 4 + u];
                    typedef float typeof_x0;
                    const typeof_x0 x0 = (typeof_x0)(row_x0);
                    typedef float typeof_x1;
                    const typeof_x1 x1 = (typeof_x1)(column_x1[u]);
                    typedef float typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = max(x0 - x1, x1 - x0);
#line 157 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 162 "kernel"
                    }

                    tile_reduce_y0[r * 4 + u] = reduce_y0;

                }
            }
        }
        tile_steps += count;
        if (tile_steps == 32)
            {
                tile_steps = 0;
                ++tile_lifts;
                #pragma unroll
                for (int u = 0; u < 16; ++u)
                    take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                {
                    typedef float typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 185 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 16; ++u) {
                        tile_reduce_y0[u] = reduce_y0;
                    }
                }

            }

    }
    #pragma unroll
    for (int u = 0; u < 16; ++u) {
        take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

        tile_reduce_y0[u] = tile_level1_reduce_y0[u];
    }

    #pragma unroll
    for (int r = 0; r < 4; ++r)
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            const index_t row = from + r;
            const index_t c = own_column + u * 16;
            if (row < height && c < width) {
                typedef float typeof_reduce_y0;
                const typeof_reduce_y0 reduce_y0 = tile_reduce_y0[r * 4 + u];
                const index_t y0_at = y0_start + row * y0_row + c * y0_column;
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                const long count = length;
                {
#line 1 "snippet:finalize"
y0 = sqrt(reduce_y0);
#line 220 "kernel"
                }
                y0_memory[y0_at] = y0;

            }
        }
}
