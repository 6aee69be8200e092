// A matrix product, one of whose operands is read where it lies: windows of a row of pixels, or a
// matrix. Its lanes are columns: in memory they are neighbours, and from depth to depth it is always
// the same step.
//
//                columns: 1 vectors of 16
//            +------------------------+
//            |  b: a row a step       |      A tile of 16 rows x 16 columns stays in registers while
//            +------------------------+      depth passes by. The last tile of a line of lanes begins early
//     +---+  +------------------------+      enough to end with it; what it shares with the tile before is
//     | a |  |                        |      stored once.
//     |   |  |                        |
//     |   |  |  sum,  16 rows         |      A work-item takes some lines of lanes, or a part of one, and
//     |   |  |                        |      passes all packed tiles by.
//     +---+  +------------------------+
//
// Windows may leave the image: the rows of pixels that they touch are copied to a row buffer in
// local memory, with zeros around.
typedef int index_t;

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
    const int y0_2)
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
    const index_t first_lane = min(first_tile * 16, lane_2 - 16);
    const int left = first_lane * column_lane_2 + column_start;
    const int buffer_height = (last_row - first_row - 1) * row_lane_1 + (depth_0 - 1) * row_depth_0 + 1;
    const int buffer_width = (min(last_tile * 16, lane_2) - first_lane - 1) * column_lane_2
        + (depth_1 - 1) * column_depth_1 + 1;
    const index_t x_row = x_at - row_start * x_pixel_row - column_start * x_pixel;
    __local float *to = row_buffer;
    const int before = clamp(-left, 0, buffer_width);
    const int after = clamp(left + buffer_width - width, 0, buffer_width - before);
    const int between = buffer_width - before - after;
    // The even pixels of a line, then the odd ones: those that a window's tap meets are neighbours.
    const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int phase = (buffer_width + 31) / 32 * 16, line_width = 2 * phase;
    for (int e = 0; e < depth_2; ++e)
        for (int r = above; r < above + buffer_height; ++r) {
            const bool inside = (uint)r < (uint)height;
            const index_t row_at = x_row + e * x_depth_2 + r * x_pixel_row + left;
            for (int c = 0; c < phase; c += 16) {
                const int first = before - 2 * c, last = first + between;
                const index_t place = row_at + 2 * c;
                float16 v = 0, w = 0;
                if (inside && place >= 0 && place + 32 <= x_size) {
                    v = select(v, vload16(0, x_memory + place), lanes >= first && lanes < last);
                    w = select(w, vload16(0, x_memory + place + 16), lanes + 16 >= first && lanes + 16 < last);
                } else if (inside) {
                    float elements[32];
                    for (int u = 0; u < 32; ++u)
                        elements[u] = u >= first && u < last ? (float)x_memory[place + u] : 0;
                    v = vload16(0, elements);
                    w = vload16(1, elements);
                }
                vstore16((float16)(v.even, w.even), 0, to + c);
                vstore16((float16)(v.odd, w.odd), 0, to + phase + c);
            }
            to += line_width;
        }
    const index_t channel_step = buffer_height * line_width;
    const index_t buffer_line = line_width;
    const index_t step = 1, row_step = row_lane_1 * buffer_line;
    const index_t tap_row = row_depth_0 * buffer_line, tap_column = column_depth_1;
    __local const float *corner = row_buffer - first_lane * step;
    const index_t y0_image = y0_start + group * y0_group + image * y0_0;

    for (index_t some = packed_first; some < packed_last; some += packed_a_tile)
        for (index_t line = first_row; line < last_row; ++line)
            for (index_t tile = first_tile; tile < last_tile; ++tile)
            for (index_t other = some; other < min(some + packed_a_tile, packed_last); ++other) {
                __global const float *strip = packed
                    + (group * packed_tiles + other) * depth_padded * 16;
                const index_t first = min(tile * 16, lane_2 - 16);
                const int shared = tile * 16 - first;
                __local const float *corner_here = corner + (line - first_row) * row_step + first * step;
                const index_t y0_line = y0_image + line * y0_1 + first * y0_2;
                const index_t row = other * 16;
                const int rows_left = min((index_t)16, outputs - row);
                const int columns_left = 16;
                float16 sum[16][1];
                #pragma unroll
                for (int j = 0; j < 16; ++j)
                    #pragma unroll
                    for (int v = 0; v < 1; ++v)
                        sum[j][v] = 0;
                for (int tap_0 = 0; tap_0 < depth_0; ++tap_0)
                    for (int tap_1 = 0; tap_1 < taps; ++tap_1) {
                        __local const float *b = corner_here + tap_0 * tap_row + tap_1 * tap_column % 2 * phase + tap_1 * tap_column / 2;
                        __global const float *a = strip + (tap_0 * taps + tap_1) * run * 16;
                        int left_over = run;
                        for (; left_over >= 3; left_over -= 3) {
                            #pragma unroll
                            for (int u = 0; u < 3; ++u) {
                                float16 row[1];
                                #pragma unroll
                                for (int v = 0; v < 1; ++v)
                                    row[v] = vload16(v, b + u * channel_step);
                                #pragma unroll
                                for (int j = 0; j < 16; ++j) {
                                    const float16 factor = a[u * 16 + j];
                                    #pragma unroll
                                    for (int v = 0; v < 1; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 48;
                            b += 3 * channel_step;

                        }
                        for (; left_over > 0; --left_over) {
                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                float16 row[1];
                                #pragma unroll
                                for (int v = 0; v < 1; ++v)
                                    row[v] = vload16(v, b + u * channel_step);
                                #pragma unroll
                                for (int j = 0; j < 16; ++j) {
                                    const float16 factor = a[u * 16 + j];
                                    #pragma unroll
                                    for (int v = 0; v < 1; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 16;
                            b += 1 * channel_step;

                        }
                    }
                if (columns_left >= 16 && shared == 0) {
                    #pragma unroll
                    for (int j = 0; j < 16; ++j)
                        if (j < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 1; ++v) {
                                const int c = v * 16;
                                float16 y0 = sum[j][v];
                                vstore16(y0, 0, y0_memory + y0_line + c * y0_2 + (row + j) * y0_channel);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: element by element.
                float elements[256];
                #pragma unroll
                for (int j = 0; j < 16; ++j)
                    #pragma unroll
                    for (int v = 0; v < 1; ++v)
                        vstore16(sum[j][v], j * 1 + v, elements);
                for (int j = 0; j < rows_left; ++j) {
                    int c = shared;
                    // What is left of the first vector that is not shared.
                    const int left = -c;
                    if (left & 1) {
                        float y0 = elements[j * 16 + c];
                        y0_memory[y0_line + c * y0_2 + (row + j) * y0_channel] = y0;
                        c += 1;
                    }
                    if (left & 2) {
                        float2 y0 = vload2(0, elements + j * 16 + c);
                        vstore2(y0, 0, y0_memory + y0_line + c * y0_2 + (row + j) * y0_channel);
                        c += 2;
                    }
                    if (left & 4) {
                        float4 y0 = vload4(0, elements + j * 16 + c);
                        vstore4(y0, 0, y0_memory + y0_line + c * y0_2 + (row + j) * y0_channel);
                        c += 4;
                    }
                    if (left & 8) {
                        float8 y0 = vload8(0, elements + j * 16 + c);
                        vstore8(y0, 0, y0_memory + y0_line + c * y0_2 + (row + j) * y0_channel);
                        c += 8;
                    }
                    for (; c + 16 <= columns_left; c += 16) {
                        float16 y0 = vload16(0, elements + j * 16 + c);
                        vstore16(y0, 0, y0_memory + y0_line + c * y0_2 + (row + j) * y0_channel);
                    }
                }

            }
}
