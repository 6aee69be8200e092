// A matrix product, one of whose operands is read where it lies: windows of a row of pixels, or a
// matrix. Its lanes are rows: along depth their elements are neighbours, and from lane to lane it is
// always the same step.
//
//                columns: 2 vectors of 16
//            +------------------------+
//            |  b: a row a step       |      A tile of 7 rows x 32 columns stays in registers while
//            +------------------------+      depth passes by. The last tile of a line of lanes begins early
//     +---+  +------------------------+      enough to end with it; what it shares with the tile before is
//     | a |  |                        |      stored once.
//     |   |  |                        |
//     |   |  |  sum,   7 rows         |      A work-item takes some lines of lanes, or a part of one, and
//     |   |  |                        |      passes all packed tiles by.
//     +---+  +------------------------+
//
// Windows may leave the image: the rows of pixels that they touch are copied to a row buffer in
// local memory, with zeros around.
typedef int index_t;

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
    __global const float *bias_memory,
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
    const int bias_start,
    const int bias_group,
    const int bias_channel,
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
    __local float row_buffer[8192];
    const int above = first_row * row_lane_1 + row_start;
    const index_t first_lane = min(first_tile * 7, lane_2 - 7);
    const int left = first_lane * column_lane_2 + column_start;
    const int buffer_height = (last_row - first_row - 1) * row_lane_1 + (depth_0 - 1) * row_depth_0 + 1;
    const int buffer_width = (min(last_tile * 7, lane_2) - first_lane - 1) * column_lane_2
        + (depth_1 - 1) * column_depth_1 + 1;
    const index_t x_row = x_at - row_start * x_pixel_row - column_start * x_pixel;
    __local float *to = row_buffer;
    const int before = clamp(-left, 0, buffer_width);
    const int after = clamp(left + buffer_width - width, 0, buffer_width - before);
    const int between = buffer_width - before - after;
    for (int r = above; r < above + buffer_height; ++r) {
        const bool inside = (uint)r < (uint)height;
        {
            const int count = before * depth_2;
            int at = 0;
            for (; at + 16 <= count; at += 16)
                vstore16((float16)0, 0, to + at);
            for (; at < count; ++at)
                to[at] = 0;
            to += count;
        }
        {
            const int count = between * depth_2;
            int at = 0;
            if (inside) {
                const index_t place = x_row + r * x_pixel_row + (left + before) * x_pixel;
                for (; at + 16 <= count; at += 16)
                    vstore16(vload16(0, x_memory + place + at), 0, to + at);
                if (at < count && place + at + 16 <= x_size) {
                    // What this writes behind them is overwritten next, or lies in the slack of the row buffer.
                    vstore16(vload16(0, x_memory + place + at), 0, to + at);
                    at = count;
                }
                for (; at < count; ++at)
                    to[at] = (float)x_memory[place + at];
            }
            for (; at + 16 <= count; at += 16)
                vstore16((float16)0, 0, to + at);
            for (; at < count; ++at)
                to[at] = 0;
            to += count;
        }
        {
            const int count = after * depth_2;
            int at = 0;
            for (; at + 16 <= count; at += 16)
                vstore16((float16)0, 0, to + at);
            for (; at < count; ++at)
                to[at] = 0;
            to += count;
        }
    }
    const index_t step = column_lane_2 * depth_2;
    const index_t row_step = row_lane_1 * buffer_width * depth_2;
    const index_t tap_row = row_depth_0 * buffer_width * depth_2;
    const index_t tap_column = column_depth_1 * depth_2;
    __local const float *corner = row_buffer - first_lane * step;
    const index_t y0_image = y0_start + group * y0_group + image * y0_0;
    const index_t bias_image = bias_start + group * bias_group;
    const index_t x0_image = x0_start + group * x0_group + image * x0_0;

    // What the next work-item, which is likely to run here, copies beside what this one did.
    __global const float *next = x_memory + x_row + (above + buffer_height) * x_pixel_row;
    __global const float *next_end = next + (last_row - first_row) * row_lane_1 * x_pixel_row;
    for (index_t some = packed_first; some < packed_last; some += packed_a_tile)
        for (index_t line = first_row; line < last_row; ++line)
            for (index_t tile = first_tile; tile < last_tile; ++tile)
            for (index_t other = some; other < min(some + packed_a_tile, packed_last); ++other) {
                __global const float *strip = packed
                    + (group * packed_tiles + other) * depth_padded * 32;
                const index_t first = min(tile * 7, lane_2 - 7);
                const int shared = tile * 7 - first;
                __local const float *corner_here = corner + (line - first_row) * row_step + first * step;
                const index_t y0_line = y0_image + line * y0_1 + first * y0_2;
                const index_t bias_line = bias_image;
                const index_t x0_line = x0_image + line * x0_1 + first * x0_2;
                const index_t column = other * 32;
                const int rows_left = 7;
                const int columns_left = min((index_t)32, outputs - column);
                for (int j = 0; j < rows_left; ++j) {
                    #pragma unroll
                    for (int c = 0; c < 32; c += 16) {
                        prefetch_store(y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel + 7 * y0_2);
                        prefetch_line(x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel + 7 * x0_2);
                    }
                }
                float16 sum[7][2];
                #pragma unroll
                for (int j = 0; j < 7; ++j)
                    #pragma unroll
                    for (int v = 0; v < 2; ++v)
                        sum[j][v] = 0;
                __global const float *ahead = next < next_end ? next : strip;
                next += depth_padded * 4;
                for (int tap_0 = 0; tap_0 < depth_0; ++tap_0)
                    for (int tap_1 = 0; tap_1 < taps; ++tap_1) {
                        __local const float *a = corner_here + tap_0 * tap_row + tap_1 * tap_column;
                        __global const float *b = strip + (tap_0 * taps + tap_1) * run * 32;
                        int left_over = run;
                        for (; left_over >= 4; left_over -= 4) {
                            prefetch_line(ahead + 0);
                            ahead += 16;
                            #pragma unroll
                            for (int u = 0; u < 4; ++u) {
                                float16 row[2];
                                #pragma unroll
                                for (int v = 0; v < 2; ++v)
                                    row[v] = vload16(v, b + u * 32);
                                #pragma unroll
                                for (int j = 0; j < 7; ++j) {
                                    const float16 factor = a[j * step + u];
                                    #pragma unroll
                                    for (int v = 0; v < 2; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 4;
                            b += 128;

                        }
                        for (; left_over > 0; --left_over) {
                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                float16 row[2];
                                #pragma unroll
                                for (int v = 0; v < 2; ++v)
                                    row[v] = vload16(v, b + u * 32);
                                #pragma unroll
                                for (int j = 0; j < 7; ++j) {
                                    const float16 factor = a[j * step + u];
                                    #pragma unroll
                                    for (int v = 0; v < 2; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 1;
                            b += 32;

                        }
                    }
                if (columns_left >= 32) {
                    #pragma unroll
                    for (int j = 0; j < 7; ++j)
                        if (j >= shared && j < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 2; ++v) {
                                const int c = v * 16;
                                float16 y0 = sum[j][v];
                                typedef float16 typeof_bias;
                                const typeof_bias bias = vload16(0, bias_memory + bias_line + (column + c) * bias_channel);
                                typedef float16 typeof_x0;
                                const typeof_x0 x0 = vload16(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                                y0 += bias;
                                typedef float16 typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 += x0;
#line 258 "kernel"
                                }
                                vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: element by element.
                float elements[224];
                #pragma unroll
                for (int j = 0; j < 7; ++j)
                    #pragma unroll
                    for (int v = 0; v < 2; ++v)
                        vstore16(sum[j][v], j * 2 + v, elements);
                for (int j = shared; j < rows_left; ++j) {
                    int c = 0;
                    for (; c + 16 <= columns_left; c += 16) {
                        float16 y0 = vload16(0, elements + j * 32 + c);
                        typedef float16 typeof_bias;
                        const typeof_bias bias = vload16(0, bias_memory + bias_line + (column + c) * bias_channel);
                        typedef float16 typeof_x0;
                        const typeof_x0 x0 = vload16(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                        y0 += bias;
                        typedef float16 typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 += x0;
#line 285 "kernel"
                        }
                        vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                    }
                    for (; c < columns_left; ++c) {
                        float y0 = elements[j * 32 + c];
                        typedef float typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_line + (column + c) * bias_channel];
                        typedef float typeof_x0;
                        const typeof_x0 x0 = (float)x0_memory[x0_line + j * x0_2 + (column + c) * x0_channel];
                        y0 += bias;
                        typedef float typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 += x0;
#line 300 "kernel"
                        }
                        y0_memory[y0_line + j * y0_2 + (column + c) * y0_channel] = y0;
                    }
                }

            }
}
