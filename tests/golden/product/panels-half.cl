// A matrix product, one of whose operands is gathered from an array: the windows of a convolution,
// or simply a matrix. The other one was packed beforehand.
//
//                    columns: 2 vectors of 16
//                +------------------------+
//     depth      |  b: a row a step       |      A tile of 10 rows x 32 columns stays in
//                +------------------------+      registers while `depth` passes by: every step adds
//     +-------+  +------------------------+      the product of a column of a and a row of b.
//     | a:    |  |                        |
//     | a     |  |  sum,  10 rows         |      Gathered: the rows. A work-item copies as
//     | column|  |                        |      many tiles of them as fit the cache to `panel`,
//     | a step|  |                        |      neatly, and multiplies them by every packed tile.
//     +-------+  +------------------------+
//
// A lane is one row or column of what is gathered. Element (lane, depth) of it lies at
// lane_place + depth_place and, where windows may leave the array, at (lane_row + depth_row,
// lane_column + depth_column) of a plane; outside of that it is 0. Lanes and depths are numbers of
// three digits: (image, y, x) of a pixel, (y, x, channel) of a window's element.
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void matmul(
    __global const half *x_memory,
    __global const float *packed,
    __global half *y0_memory,
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
    const int y0_start,
    const int y0_group,
    const int y0_channel,
    const int y0_0,
    const int y0_1,
    const int y0_2)
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

    // A last vector of lanes may reach past the tile: what it reads there is never used, and what it
    // writes to the panel is overwritten by the step that follows, or lies in the slack behind the tile.
    index_t lane_places[96];
    index_t y0_places[80];
    {
        index_t number = first * 10;
        index_t digit_2 = number % lane_2;
        number /= lane_2;
        index_t digit_1 = number % lane_1;
        index_t digit_0 = number / lane_1;
        for (int lane = 0; lane < count * 10; ++lane) {
            // Lanes past the end copy the last one, and are never stored.
            lane_places[lane] = digit_0 * x_lane_0 + digit_1 * x_lane_1 + digit_2 * x_lane_2;
            y0_places[lane] = digit_0 * y0_0 + digit_1 * y0_1 + digit_2 * y0_2;
            if (first * 10 + lane + 1 >= lanes)
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

    for (index_t from = begin; from < end || from == begin; from += block) {
        const int length = min(block, end - from);
        const int padded = (length + 15) / 16 * 16;

        // Copy this part of the tiles to the panel.
        index_t rest = from;
        int digit_2 = rest % depth_2;
        rest /= depth_2;
        int digit_1 = rest % depth_1;
        int digit_0 = rest / depth_1;
        for (int k = 0; k < padded; k += 16) {
            // 16 steps of k: in memory they mostly are neighbours.
            index_t depth_places[16];
            int there = min(16, length - k);
            bool neighbours = there == 16;
            for (int u = 0; u < 16; ++u) {
                if (u < there) {
                    depth_places[u] = digit_0 * x_depth_0 + digit_1 * x_depth_1 + digit_2 * x_depth_2;
                    if (++digit_2 == depth_2) {
                        digit_2 = 0;
                        if (++digit_1 == depth_1) {
                            digit_1 = 0;
                            ++digit_0;
                        }
                    }

                    neighbours &= depth_places[u] - depth_places[0] == u;
                }
            }
            if (neighbours) {
                for (int tile = 0; tile < count; ++tile) {
                    __local float *to = panel + (tile * padded + k) * 10;
                    for (int l = 0; l < 10; ++l) {
                        const int lane = tile * 10 + l;
                        const index_t place = x_at + lane_places[lane] + depth_places[0];
                        const float16 value = vload_half16(0, x_memory + place);
                        vstore16(value, l, to);
                    }
                }
            } else {
                for (int tile = 0; tile < count; ++tile)
                    for (int l = 0; l < 10; ++l) {
                        const int lane = tile * 10 + l;
                        __local float *to = panel + (tile * padded + k) * 10 + l * 16;
                        for (int u = 0; u < 16; ++u) {
                            float value = 0;
                            if (u < there)
                                value = (float)vload_half(0, x_memory + x_at + lane_places[lane] + depth_places[u]);
                            to[u] = value;
                        }
                    }
            }
        }

        // Multiply: the panel stays in the cache, the packed tiles pass by.
        for (index_t other = packed_first; other < packed_last; ++other) {
            __global const float *strip = packed
                + ((group * packed_tiles + other) * depth_padded + from) * 32;
            for (int tile = 0; tile < count; ++tile) {
                __local const float *a = panel + tile * (padded * 10);
                __global const float *b = strip;
                float16 sum[10][2];
                {
                    #pragma unroll
                    for (int j = 0; j < 10; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            sum[j][v] = 0;
                }
                for (int k = 0; k < padded; k += 16) {
                    #pragma unroll 4
                    for (int u = 0; u < 16; ++u) {
                        float16 row[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            row[v] = vload16(v, b);
                        #pragma unroll
                        for (int j = 0; j < 10; ++j) {
                            const float16 factor = a[j * 16 + u];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = factor * row[v] + sum[j][v];
                        }
                        b += 32;
                    }
                    a += 160;
                }
                const index_t column = other * 32;
                const int rows_left = min((index_t)10, lanes - (first + tile) * 10);
                const int columns_left = min((index_t)32, outputs - column);
                if (columns_left >= 32) {
                    #pragma unroll
                    for (int j = 0; j < 10; ++j)
                        if (j < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 2; ++v) {
                                const int c = v * 16;
                                float16 y0 = sum[j][v];
                                vstore_half16(y0, 0, y0_memory + y0_at + y0_places[tile * 10 + j] + (column + c) * y0_channel);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: 2 elements at a time.
                float elements[320];
                #pragma unroll
                for (int j = 0; j < 10; ++j)
                    #pragma unroll
                    for (int v = 0; v < 2; ++v)
                        vstore16(sum[j][v], j * 2 + v, elements);
                for (int j = 0; j < rows_left; ++j)
                    for (int c = 0; c < columns_left; c += 2) {
                        float2 y0 = vload2(0, elements + j * 32 + c);
                        vstore_half2(y0, 0, y0_memory + y0_at + y0_places[tile * 10 + j] + (column + c) * y0_channel);
                    }

            }
        }
    }
}
