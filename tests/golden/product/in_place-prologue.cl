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
//
// Windows may leave the image: the rows of pixels that they touch are copied to a row buffer in
// local memory, with zeros around.
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
    const int height,
    const int width,
    const int row_start,
    const int column_start,
    const int row_lane_1,
    const int row_depth_0,
    const int column_lane_2,
    const int column_depth_1,
    const int x_pixel_row,
    const int x_pixel,
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
    __global const float *p0_memory,
    const int p0_start,
    const int p0_group,
    const int p0_depth,
    const int p0_0,
    const int p0_1,
    const int p0_2,
    __global const float *p1_memory,
    const int p1_start,
    const int p1_group,
    const int p1_depth,
    const int p1_0,
    const int p1_1,
    const int p1_2)
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
    __local float row_buffer[8192];
    const int above = first_row * row_lane_1 + row_start;
    const index_t first_lane = min(first_tile * 6, lane_2 - 6);
    const int left = first_lane * column_lane_2 + column_start;
    const int buffer_height = (last_row - first_row - 1) * row_lane_1 + (depth_0 - 1) * row_depth_0 + 1;
    const int buffer_width = (min(last_tile * 6, lane_2) - first_lane - 1) * column_lane_2
        + (depth_1 - 1) * column_depth_1 + 1;
    const index_t x_row = x_at - row_start * x_pixel_row - column_start * x_pixel;
    __local float *to = row_buffer;
    // What a snippet makes of every element, pixel by pixel.
    for (int r = above; r < above + buffer_height; ++r)
        for (int c = left; c < left + buffer_width; ++c) {
            const index_t pixel = x_row + r * x_pixel_row + c * x_pixel;
            const index_t p0_pixel = p0_start + group * p0_group + image * p0_0 + r * p0_1 + c * p0_2;
            const index_t p1_pixel = p1_start + group * p1_group + image * p1_0 + r * p1_1 + c * p1_2;
            int at = 0;
            for (; at + 16 <= depth_2; at += 16) {
                float16 y0 = vload16(0, x_memory + pixel + at);
                typedef float16 typeof_y0;
                typedef float16 typeof_x0;
                const typeof_x0 x0 = vload16(0, p0_memory + p0_pixel + at);
                typedef float16 typeof_x1;
                const typeof_x1 x1 = (float)p1_memory[p1_pixel];
                {
#line 1 "snippet:prologue"
y0 = y0 * x0 - x1;
#line 126 "kernel"
                }
                vstore16(y0, 0, to + at);
            }
            for (; at < depth_2; ++at) {
                float y0 = (float)x_memory[pixel + at];
                typedef float typeof_y0;
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)p0_memory[p0_pixel + at];
                typedef float typeof_x1;
                const typeof_x1 x1 = (float)p1_memory[p1_pixel];
                {
#line 1 "snippet:prologue"
y0 = y0 * x0 - x1;
#line 140 "kernel"
                }
                to[at] = y0;
            }
            to += depth_2;
        }
    const index_t step = column_lane_2 * depth_2;
    const index_t row_step = row_lane_1 * buffer_width * depth_2;
    const index_t tap_row = row_depth_0 * buffer_width * depth_2;
    const index_t tap_column = column_depth_1 * depth_2;
    __local const float *corner = row_buffer - first_lane * step;
    const index_t y0_image = y0_start + group * y0_group + image * y0_0;

    // What the next work-item, which is likely to run here, copies beside what this one did.
    __global const float *ahead = x_memory + x_row + (left + buffer_width) * x_pixel;
    __global const float *ahead_end = ahead + buffer_width * x_pixel;
    for (index_t some = packed_first; some < packed_last; some += packed_a_tile)
        for (index_t line = first_row; line < last_row; ++line)
            for (index_t tile = first_tile; tile < last_tile; ++tile)
            for (index_t other = some; other < min(some + packed_a_tile, packed_last); ++other) {
                __global const float *strip = packed
                    + (group * packed_tiles + other) * depth_padded * 64;
                const index_t first = min(tile * 6, lane_2 - 6);
                const int shared = tile * 6 - first;
                __local const float *corner_here = corner + (line - first_row) * row_step + first * step;
                const index_t y0_line = y0_image + line * y0_1 + first * y0_2;
                const index_t column = other * 64;
                const int rows_left = 6;
                const int columns_left = min((index_t)64, outputs - column);
                float16 sum[6][4];
                #pragma unroll
                for (int j = 0; j < 6; ++j)
                    #pragma unroll
                    for (int v = 0; v < 4; ++v)
                        sum[j][v] = 0;
                ahead = ahead < ahead_end ? ahead : ahead_end;
                for (int tap_0 = 0; tap_0 < depth_0; ++tap_0)
                    for (int tap_1 = 0; tap_1 < taps; ++tap_1) {
                        __local const float *a = corner_here + tap_0 * tap_row + tap_1 * tap_column;
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
                        vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                    }
                    for (; c < columns_left; ++c) {
                        float y0 = elements[j * 64 + c];
                        y0_memory[y0_line + j * y0_2 + (column + c) * y0_channel] = y0;
                    }
                }

            }
}
