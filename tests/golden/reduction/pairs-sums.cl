// Operands broadcast against each other: a work-item holds a tile of outputs in registers and walks
// the reduced loops once for it. What varies with columns lies in panels, packed.
//
//                        panel: 4 x 16 columns
//     step 0             y y y y | y y y y | ...
//     step 1             y y y y | y y y y | ...
//                        :
//     6  rows   x x ...    o o o o | o o o o | ...      o = step(o, x, y)
//
// The last rows overlap their neighbours, so that the tile is whole; it stores only what is its own.
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

static inline __attribute__((overloadable)) void take_partial(
float16 *to_reduce_y0, const float16 other_y0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 55 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reduction(
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
    const int y0_start,
    const int y0_column,
    const int y0_row)
{

    const index_t panel = (index_t)get_group_id(0);
    const index_t own_column = panel * 64;
    const index_t tiles = (height + 5) / 6;
    const index_t first = (index_t)get_group_id(1) * per_group;
    const index_t last = min(first + per_group, tiles);
    const index_t batch = (index_t)get_group_id(2);

    for (index_t tile = first; tile < last; ++tile) {
        const index_t own = tile * 6;
        const index_t from = min(own, height - 6);
        __global const float *x1_panel = x1_memory + (x1_start) + panel * length * 64;
        float16 tile_reduce_y0[24];
        {
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 97 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 24; ++u) {
                tile_reduce_y0[u] = reduce_y0;
            }
        }

        float16 tile_level1_reduce_y0[24];
        #pragma unroll
        for (int u = 0; u < 24; ++u) {
            tile_level1_reduce_y0[u] = tile_reduce_y0[u];
        }
        uint tile_steps = 0, tile_lifts = 0;

        {
            index_t x0_at = x0_start + from * x0_row;
            for (index_t i = 0; i < n;) {
                const index_t stop = min(n, i + 32 - (index_t)tile_steps);
                tile_steps += stop - i;
                for (; i < stop; ++i) {
                    float16 column_x1[4];
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        column_x1[u] = vload16(u, x1_panel);
                    }
                    #pragma unroll
                    for (int r = 0; r < 6; ++r) {
                        const float row_x0 = (float)x0_memory[x0_at + r * x0_row];
                        #pragma unroll
                        for (int u = 0; u < 4; ++u) {
                            typedef float16 typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = tile_reduce_y0[r * 4 + u];
                            typedef float16 typeof_x0;
                            const typeof_x0 x0 = (typeof_x0)(row_x0);
                            typedef float16 typeof_x1;
                            const typeof_x1 x1 = (typeof_x1)(column_x1[u]);
                            typedef float16 typeof_y0;
                            typeof_y0 y0 = 0;
                            {
#line 1 "snippet:expr"
y0 = max(x0 - x1, x1 - x0);
#line 140 "kernel"
                            }
                            {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 145 "kernel"
                            }

                            tile_reduce_y0[r * 4 + u] = reduce_y0;

                        }
                    }
                    x1_panel += 64;
                    x0_at += x0_step;

                }
                if (tile_steps == 32)
                    {
                        tile_steps = 0;
                        ++tile_lifts;
                        #pragma unroll
                        for (int u = 0; u < 24; ++u)
                            take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                        {
                            typedef float16 typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = 0;
                            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 170 "kernel"
                            }

                            #pragma unroll
                            for (int u = 0; u < 24; ++u) {
                                tile_reduce_y0[u] = reduce_y0;
                            }
                        }

                    }

            }
        }

        #pragma unroll
        for (int u = 0; u < 24; ++u) {
            take_partial(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

            tile_reduce_y0[u] = tile_level1_reduce_y0[u];
        }

        // What is stored is found by number, what is added up was in registers.
        float16 done_reduce_y0[24];
        #pragma unroll
        for (int t = 0; t < 24; ++t) {
            done_reduce_y0[t] = tile_reduce_y0[t];
        }
        for (int r = own - from; r < 6; ++r)
            for (int u = 0; u < 4; ++u) {
                const int t = r * 4 + u;
                const index_t c = own_column + u * 16;
                if (c + 16 <= width) {
                    typedef float16 typeof_reduce_y0;
                    const typeof_reduce_y0 reduce_y0 = done_reduce_y0[t];
                    typedef float16 typeof_y0;
                    typeof_y0 y0 = reduce_y0;
                    const index_t y0_at = y0_start + (from + r) * y0_row + c;
                    vstore16(y0, 0, y0_memory + y0_at);

                    continue;
                }
                float lanes_reduce_y0[16];
                vstore16(done_reduce_y0[t], 0, lanes_reduce_y0);
                for (int l = 0; l < 16 && c + l < width; ++l) {
                    typedef float typeof_reduce_y0;
                    const typeof_reduce_y0 reduce_y0 = lanes_reduce_y0[l];
                    const index_t y0_at = y0_start + (from + r) * y0_row + (c + l) * y0_column;
                    typedef float typeof_y0;
                    typeof_y0 y0 = (float)reduce_y0;
                    y0_memory[y0_at] = y0;

                }
            }
    }
}
