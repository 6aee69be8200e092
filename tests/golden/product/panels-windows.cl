// A matrix product, one of whose operands is gathered from an array: the windows of a convolution,
// or simply a matrix. The other one was packed beforehand.
//
//                    columns: 2 vectors of 16
//                +------------------------+
//     depth      |  b: a row a step       |      A tile of 13 rows x 32 columns stays in
//                +------------------------+      registers while `depth` passes by: every step adds
//     +-------+  +------------------------+      the product of a column of a and a row of b.
//     | a:    |  |                        |
//     | a     |  |  sum,  13 rows         |      Gathered: the columns. A work-item copies as
//     | column|  |                        |      many tiles of them as fit the cache to `panel`,
//     | a step|  |                        |      neatly, and multiplies them by every packed tile.
//     +-------+  +------------------------+
//
// A lane is one row or column of what is gathered. Element (lane, depth) of it lies at
// lane_place + depth_place and, where windows may leave the array, at (lane_row + depth_row,
// lane_column + depth_column) of a plane; outside of that it is 0. Lanes and depths are numbers of
// three digits: (image, y, x) of a pixel, (y, x, channel) of a window's element.
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d(
    __global const float *x_memory,
    __global const float *packed,
    __global float *partial,
    __global float *y0_memory,
    __global const float *bias_memory,
    __global const float *x0_memory,
    const int lanes,
    const int lane_1,
    const int lane_2,
    const int outputs,
    const int tiles,
    const int packed_tiles,
    const int groups,
    const int splits,
    const int tiles_a_group,
    const int packed_a_group,
    const int chunk,
    const int block,
    const int depth,
    const int depth_padded,
    const int depth_1,
    const int depth_2,
    const int x_start,
    const int x_group,
    const int x_size,
    const int x_lane_0,
    const int x_lane_1,
    const int x_lane_2,
    const int x_depth_0,
    const int x_depth_1,
    const int x_depth_2,
    const int w_start,
    const int w_group,
    const int w_depth,
    const int height,
    const int width,
    const int row_start,
    const int column_start,
    const int row_lane_0,
    const int row_lane_1,
    const int row_depth_0,
    const int row_depth_1,
    const int column_lane_1,
    const int column_lane_2,
    const int column_depth_1,
    const int column_depth_2,
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
    __local float panel[8192];

    const index_t first = (index_t)get_group_id(0) * tiles_a_group;
    const int count = min(tiles_a_group, tiles - first);
    const index_t packed_first = (index_t)get_group_id(1) * packed_a_group;
    const index_t packed_last = min(packed_first + packed_a_group, packed_tiles);
    const index_t group = (index_t)get_group_id(2) / splits;
    const index_t split = (index_t)get_group_id(2) - group * splits;
    const index_t begin = split * chunk;
    const index_t end = min(begin + chunk, depth);
    const index_t x_at = x_start + group * x_group;
    const index_t y0_at = y0_start + group * y0_group;
    const index_t bias_at = bias_start + group * bias_group;
    const index_t x0_at = x0_start + group * x0_group;

    // A last vector of lanes may reach past the tile: what it reads there is never used, and what it
    // writes to the panel is overwritten by the step that follows, or lies in the slack behind the tile.
    index_t lane_places[272];
    int lane_rows[272], lane_columns[272];
    index_t y0_places[256];
    index_t x0_places[256];
    {
        index_t number = first * 32;
        index_t digit_2 = number % lane_2;
        number /= lane_2;
        index_t digit_1 = number % lane_1;
        index_t digit_0 = number / lane_1;
        for (int lane = 0; lane < count * 32; ++lane) {
            // Lanes past the end copy the last one, and are never stored.
            lane_places[lane] = digit_0 * x_lane_0 + digit_1 * x_lane_1 + digit_2 * x_lane_2;
            lane_rows[lane] = digit_0 * row_lane_0 + digit_1 * row_lane_1 + row_start;
            lane_columns[lane] = digit_1 * column_lane_1 + digit_2 * column_lane_2 + column_start;
            y0_places[lane] = digit_0 * y0_0 + digit_1 * y0_1 + digit_2 * y0_2;
            x0_places[lane] = digit_0 * x0_0 + digit_1 * x0_1 + digit_2 * x0_2;
            if (first * 32 + lane + 1 >= lanes)
                continue;
            if (++digit_2 == lane_2) {
                digit_2 = 0;
                if (++digit_1 == lane_1) {
                    digit_1 = 0;
                    ++digit_0;
                }
            }
        }
    }

    char whole[16];
    for (int v = 0; v < count * 2; ++v) {
        bool neighbours = true;
        for (int u = 1; u < 16; ++u) {
            const int lane = v * 16 + u;
            neighbours &= y0_places[lane] - y0_places[lane - 1] == 1;
            neighbours &= x0_places[lane] - x0_places[lane - 1] == 1;
        }
        whole[v] = neighbours;
    }

    for (index_t from = begin; from < end || from == begin; from += block) {
        const int length = min(block, end - from);
        const int padded = (length + 0) / 1 * 1;

        // Copy this part of the tiles to the panel.
        index_t rest = from;
        int digit_2 = rest % depth_2;
        rest /= depth_2;
        int digit_1 = rest % depth_1;
        int digit_0 = rest / depth_1;
        // Whether the lanes of a vector are neighbours in memory.
        char neighbours[16];
        for (int v = 0; v < count * 2; ++v) {
            bool all_are = true;
            const int start = v / 2 * 32 + v % 2 * 16;
            for (int u = 1; u < min(16, 32 - start % 32); ++u)
                all_are &= lane_places[start + u] - lane_places[start] == u;
            neighbours[v] = all_are;
        }
        for (int k = 0; k < length; ++k) {
            const index_t place = x_at + digit_0 * x_depth_0 + digit_1 * x_depth_1 + digit_2 * x_depth_2;
            const int row = digit_0 * row_depth_0 + digit_1 * row_depth_1, column = digit_1 * column_depth_1 + digit_2 * column_depth_2;
            if (++digit_2 == depth_2) {
                digit_2 = 0;
                if (++digit_1 == depth_1) {
                    digit_1 = 0;
                    ++digit_0;
                }
            }

            for (int tile = 0; tile < count; ++tile) {
                __local float *to = panel + tile * (padded * 32) + k * 32;
                const index_t *places = lane_places + tile * 32;
                const int *rows_here = lane_rows + tile * 32;
                const int *columns_here = lane_columns + tile * 32;
                for (int v = 0; v < 2; ++v) {
                    const index_t at = place + places[v * 16];
                    if (neighbours[tile * 2 + v] && at >= 0 && at + 16 <= x_size) {
                        float16 value = vload16(0, x_memory + at);
                        const int16 rows_in = vload16(v, rows_here) + row;
                        const int16 columns_in = vload16(v, columns_here) + column;
                        const int16 inside = (as_uint16(rows_in) < (uint16)(uint)height)
                            & (as_uint16(columns_in) < (uint16)(uint)width);
                        value = (inside) ? value : (float16)0;
                        vstore16(value, 0, to + v * 16);
                        continue;
                    }
                    for (int l = v * 16; l < min((v + 1) * 16, 32); ++l) {
                        const bool inside = (uint)(rows_here[l] + row) < (uint)height
                            && (uint)(columns_here[l] + column) < (uint)width;
                        to[l] = inside ? (float)x_memory[place + places[l]] : 0;
                    }
                }
            }
        }

        // Multiply: the panel stays in the cache, the packed tiles pass by.
        for (index_t other = packed_first; other < packed_last; ++other) {
            __global const float *strip = packed
                + ((group * packed_tiles + other) * depth_padded + from) * 13;
            for (int tile = 0; tile < count; ++tile) {
                __global const float *a = strip;
                __local const float *b = panel + tile * (padded * 32);
                float16 sum[13][2];
                const index_t number = ((split * groups + group) * tiles + first + tile) * packed_tiles + other;
                __global float *kept = partial + number * 416;
                if (from > begin) {
                    #pragma unroll
                    for (int j = 0; j < 13; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            sum[j][v] = vload16(j * 2 + v, kept);
                } else
                {
                    #pragma unroll
                    for (int j = 0; j < 13; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            sum[j][v] = 0;
                }
                for (int k = 0; k < padded; k += 1) {
                    const int u = 0;
                    {
                        float16 row[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            row[v] = vload16(v, b);
                        #pragma unroll
                        for (int j = 0; j < 13; ++j) {
                            const float16 factor = a[j * 1 + u];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = factor * row[v] + sum[j][v];
                        }
                        b += 32;
                    }
                    a += 13;
                }
                if (from + block < end) {
                    #pragma unroll
                    for (int j = 0; j < 13; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(sum[j][v], j * 2 + v, kept);
                    continue;
                }
                const index_t row = other * 13;
                const int rows_left = min((index_t)13, outputs - row);
                const int columns_left = min((index_t)32, lanes - (first + tile) * 32);
                if (columns_left >= 32 && whole[tile * 2 + 0] && whole[tile * 2 + 1]) {
                    #pragma unroll
                    for (int j = 0; j < 13; ++j)
                        if (j < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 2; ++v) {
                                const int c = v * 16;
                                float16 y0 = sum[j][v];
                                typedef float16 typeof_bias;
                                const typeof_bias bias = (float)bias_memory[bias_at + (row + j) * bias_channel];
                                typedef float16 typeof_x0;
                                const typeof_x0 x0 = vload16(0, x0_memory + x0_at + x0_places[tile * 32 + c] + (row + j) * x0_channel);
                                y0 += bias;
                                typedef float16 typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 += x0;
#line 268 "kernel"
                                }
                                vstore16(y0, 0, y0_memory + y0_at + y0_places[tile * 32 + c] + (row + j) * y0_channel);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: element by element.
                float elements[416];
                #pragma unroll
                for (int j = 0; j < 13; ++j)
                    #pragma unroll
                    for (int v = 0; v < 2; ++v)
                        vstore16(sum[j][v], j * 2 + v, elements);
                for (int j = 0; j < rows_left; ++j)
                    for (int c = 0; c < columns_left; ++c) {
                        float y0 = elements[j * 32 + c];
                        typedef float typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_at + (row + j) * bias_channel];
                        typedef float typeof_x0;
                        const typeof_x0 x0 = (float)x0_memory[x0_at + x0_places[tile * 32 + c] + (row + j) * x0_channel];
                        y0 += bias;
                        typedef float typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 += x0;
#line 294 "kernel"
                        }
                        y0_memory[y0_at + y0_places[tile * 32 + c] + (row + j) * y0_channel] = y0;
                    }

            }
        }
    }
}
