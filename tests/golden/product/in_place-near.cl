// A matrix product, one of whose operands is read where it lies: windows of a row of pixels, or a
// matrix. Its lanes are rows: along depth their elements are neighbours, and from lane to lane it is
// always the same step.
//
//                columns: 4 vectors of 16
//            +------------------------+
//            |  b: a row a step       |      A tile of 6 rows x 64 columns stays in registers while
//            +------------------------+      depth passes by. The last tile of a line of lanes begins early
//     +---+  +------------------------+      enough to end with it; what it shares with the tile before is
//     | a |  |                        |      stored once.
//     |   |  |                        |
//     |   |  |  sum,   6 rows         |      A work-item takes some lines of lanes, or a part of one, and
//     |   |  |                        |      passes all packed tiles by.
//     +---+  +------------------------+
typedef int index_t;

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define prefetch_line(address) __builtin_prefetch(address)
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d(
    __global const float *x_memory,
    __global const float *packed,
    __global float *y0_memory,
    __global const float *bias_memory,
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
    const int bias_start,
    const int bias_group,
    const int bias_channel)
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
    const index_t bias_image = bias_start + group * bias_group;

    for (index_t some = packed_first; some < packed_last; some += packed_a_tile)
        for (index_t line = first_row; line < last_row; ++line)
            for (index_t tile = first_tile; tile < last_tile; ++tile)
            for (index_t other = some; other < min(some + packed_a_tile, packed_last); ++other) {
                __global const float *strip = packed
                    + (group * packed_tiles + other) * depth_padded * 64;
                const index_t first = min(tile * 6, lane_2 - 6);
                const int shared = tile * 6 - first;
                __global const float *corner_here = corner + (line - first_row) * row_step + first * step;
                const index_t y0_line = y0_image + line * y0_1 + first * y0_2;
                const index_t bias_line = bias_image;
                const index_t column = other * 64;
                const int rows_left = 6;
                const int columns_left = min((index_t)64, outputs - column);
                float16 sum[6][4];
                #pragma unroll
                for (int j = 0; j < 6; ++j)
                    #pragma unroll
                    for (int v = 0; v < 4; ++v)
                        sum[j][v] = 0;
                __global const float *ahead = strip;
                if (other - some < 1)
                    ahead = corner_here + 6 * step;
                for (int tap_0 = 0; tap_0 < depth_0; ++tap_0)
                    for (int tap_1 = 0; tap_1 < taps; ++tap_1) {
                        __global const float *a = corner_here + tap_0 * tap_row + tap_1 * tap_column;
                        __global const float *b = strip + (tap_0 * taps + tap_1) * run * 64;
                        int left_over = run;
                        for (; left_over >= 4; left_over -= 4) {
                            prefetch_line(ahead + 0);
                            prefetch_line(ahead + 16);
                            ahead += 32;
                            #pragma unroll
                            for (int u = 0; u < 4; ++u) {
                                float16 row[4];
                                #pragma unroll
                                for (int v = 0; v < 4; ++v)
                                    row[v] = vload16(v, b + u * 64);
                                #pragma unroll
                                for (int j = 0; j < 6; ++j) {
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
                                for (int j = 0; j < 6; ++j) {
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
                    for (int j = 0; j < 6; ++j)
                        if (j >= shared && j < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 4; ++v) {
                                const int c = v * 16;
                                float16 y0 = sum[j][v];
                                typedef float16 typeof_bias;
                                const typeof_bias bias = vload16(0, bias_memory + bias_line + (column + c) * bias_channel);
                                y0 += bias;
                                vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: element by element.
                float elements[384];
                #pragma unroll
                for (int j = 0; j < 6; ++j)
                    #pragma unroll
                    for (int v = 0; v < 4; ++v)
                        vstore16(sum[j][v], j * 4 + v, elements);
                for (int j = shared; j < rows_left; ++j) {
                    int c = 0;
                    for (; c + 16 <= columns_left; c += 16) {
                        float16 y0 = vload16(0, elements + j * 64 + c);
                        typedef float16 typeof_bias;
                        const typeof_bias bias = vload16(0, bias_memory + bias_line + (column + c) * bias_channel);
                        y0 += bias;
                        vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                    }
                    for (; c < columns_left; ++c) {
                        float y0 = elements[j * 64 + c];
                        typedef float typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_line + (column + c) * bias_channel];
                        y0 += bias;
                        y0_memory[y0_line + j * y0_2 + (column + c) * y0_channel] = y0;
                    }
                }

            }
}
