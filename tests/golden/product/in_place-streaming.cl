// A matrix product, one of whose operands is read where it lies: windows of a row of pixels, or a
// matrix. Its lanes are rows: along depth their elements are neighbours, and from lane to lane it is
// always the same step.
//
//                columns: 4 vectors of 16
//            +------------------------+
//            |  b: a row a step       |      A tile of 4 rows x 64 columns stays in registers while
//            +------------------------+      depth passes by. The last tile of a line of lanes begins early
//     +---+  +------------------------+      enough to end with it; what it shares with the tile before is
//     | a |  |                        |      stored once.
//     |   |  |                        |
//     |   |  |  sum,   4 rows         |      A work-item takes some lines of lanes, or a part of one, and
//     |   |  |                        |      passes all packed tiles by.
//     +---+  +------------------------+
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

// A streaming store: what is written here is too large to be found in a cache later. This needs a
// compiler that knows how, and an aligned address.
static inline __attribute__((overloadable)) void stream(__global float *to, float16 value)
{
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
    if (((size_t)to & (sizeof(value) - 1)) == 0) {
        __builtin_nontemporal_store(value, (__global float16 *)to);
        return;
    }
#endif
#endif
    vstore16(value, 0, to);
}

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define prefetch_line(address) __builtin_prefetch(address)
#define prefetch_store(address) __builtin_prefetch(address, 1)
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#define prefetch_store(address)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d(
    __global const float *x_memory,
    __global const float *packed,
    __global float *y0_memory,
    __global const float *x0_memory,
    const int lane_1,
    const int lane_2,
    const int outputs,
    const int tiles,
    const int tile_blocks,
    const int tiles_a_group,
    const int row_blocks,
    const int rows_a_group,
    const int packed_tiles,
    const int packed_a_group,
    const int packed_a_tile,
    const int depth_padded,
    const int taps,
    const int run,
    const int depth_0,
    const int depth_1,
    const int depth_2,
    const int x_lane_1,
    const int x_lane_2,
    const int x_depth_0,
    const int x_depth_1,
    const int x_start,
    const int x_group,
    const int x_lane_0,
    const int x_depth_2,
    const int x_size,
    const int y0_start,
    const int y0_group,
    const int y0_channel,
    const int y0_0,
    const int y0_1,
    const int y0_2,
    const int x0_start,
    const int x0_group,
    const int x0_channel,
    const int x0_0,
    const int x0_1,
    const int x0_2)
{
    index_t rest = get_group_id(0);
    const index_t first_tile = rest % tile_blocks * tiles_a_group;
    const index_t last_tile = min(first_tile + tiles_a_group, tiles);
    rest /= tile_blocks;
    const index_t first_row = rest % row_blocks * rows_a_group;
    const index_t last_row = min(first_row + rows_a_group, lane_1);
    const index_t image = rest / row_blocks;
    const index_t packed_first = (index_t)get_group_id(1) * packed_a_group;
    const index_t packed_last = min(packed_first + packed_a_group, packed_tiles);
    const index_t group = (index_t)get_group_id(2);

    // Where the windows of the first row begin, and the steps between them.
    const index_t x_at = x_start + group * x_group + image * x_lane_0;
    const index_t step = x_lane_2, row_step = x_lane_1, tap_row = x_depth_0, tap_column = x_depth_1;
    __global const float *corner = x_memory + x_at + first_row * row_step;
    const index_t y0_image = y0_start + group * y0_group + image * y0_0;
    const index_t x0_image = x0_start + group * x0_group + image * x0_0;

    for (index_t some = packed_first; some < packed_last; some += packed_a_tile)
        for (index_t line = first_row; line < last_row; ++line)
            for (index_t tile = first_tile; tile < last_tile; ++tile)
            for (index_t other = some; other < min(some + packed_a_tile, packed_last); ++other) {
                __global const float *strip = packed
                    + (group * packed_tiles + other) * depth_padded * 64;
                const index_t first = min(tile * 4, lane_2 - 4);
                const int shared = tile * 4 - first;
                __global const float *corner_here = corner + (line - first_row) * row_step + first * step;
                const index_t y0_line = y0_image + line * y0_1 + first * y0_2;
                const index_t x0_line = x0_image + line * x0_1 + first * x0_2;
                const index_t column = other * 64;
                const int rows_left = 4;
                const int columns_left = min((index_t)64, outputs - column);
                __global const float *x0_ahead = x0_memory + x0_line + column + 4 * x0_2;
                float16 sum[4][4];
                #pragma unroll
                for (int j = 0; j < 4; ++j)
                    #pragma unroll
                    for (int v = 0; v < 4; ++v)
                        sum[j][v] = 0;
                __global const float *ahead = strip;
                if (other - some < 1)
                    ahead = corner_here + 4 * step;
                for (int tap_0 = 0; tap_0 < depth_0; ++tap_0)
                    for (int tap_1 = 0; tap_1 < taps; ++tap_1) {
                        __global const float *a = corner_here + tap_0 * tap_row + tap_1 * tap_column;
                        __global const float *b = strip + (tap_0 * taps + tap_1) * run * 64;
                        int left_over = run;
                        for (; left_over >= 4; left_over -= 4) {
                            prefetch_line(ahead + 0);
                            ahead += 16;
                            prefetch_line(x0_ahead + 0);
                            prefetch_line(x0_ahead + 16);
                            prefetch_line(x0_ahead + 32);
                            prefetch_line(x0_ahead + 48);
                            x0_ahead += x0_2;

                            #pragma unroll
                            for (int u = 0; u < 4; ++u) {
                                float16 row[4];
                                #pragma unroll
                                for (int v = 0; v < 4; ++v)
                                    row[v] = vload16(v, b + u * 64);
                                #pragma unroll
                                for (int j = 0; j < 4; ++j) {
                                    const float16 factor = a[j * step + u];
                                    #pragma unroll
                                    for (int v = 0; v < 4; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 4;
                            b += 256;

                        }
                        for (; left_over > 0; --left_over) {
                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                float16 row[4];
                                #pragma unroll
                                for (int v = 0; v < 4; ++v)
                                    row[v] = vload16(v, b + u * 64);
                                #pragma unroll
                                for (int j = 0; j < 4; ++j) {
                                    const float16 factor = a[j * step + u];
                                    #pragma unroll
                                    for (int v = 0; v < 4; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 1;
                            b += 64;

                        }
                    }
                if (columns_left >= 64) {
                    #pragma unroll
                    for (int j = 0; j < 4; ++j)
                        if (j >= shared && j < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 4; ++v) {
                                const int c = v * 16;
                                float16 y0 = sum[j][v];
                                typedef float16 typeof_x0;
                                const typeof_x0 x0 = vload16(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                                typedef float16 typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 = max(y0 + x0, 0);
#line 226 "kernel"
                                }
                                stream(y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel, y0);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: element by element.
                float elements[256];
                #pragma unroll
                for (int j = 0; j < 4; ++j)
                    #pragma unroll
                    for (int v = 0; v < 4; ++v)
                        vstore16(sum[j][v], j * 4 + v, elements);
                for (int j = shared; j < rows_left; ++j) {
                    int c = 0;
                    for (; c + 16 <= columns_left; c += 16) {
                        float16 y0 = vload16(0, elements + j * 64 + c);
                        typedef float16 typeof_x0;
                        const typeof_x0 x0 = vload16(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                        typedef float16 typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 = max(y0 + x0, 0);
#line 250 "kernel"
                        }
                        stream(y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel, y0);
                    }
                    for (; c < columns_left; ++c) {
                        float y0 = elements[j * 64 + c];
                        typedef float typeof_x0;
                        const typeof_x0 x0 = (float)x0_memory[x0_line + j * x0_2 + (column + c) * x0_channel];
                        typedef float typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 = max(y0 + x0, 0);
#line 262 "kernel"
                        }
                        y0_memory[y0_line + j * y0_2 + (column + c) * y0_channel] = y0;
                    }
                }

            }
}
