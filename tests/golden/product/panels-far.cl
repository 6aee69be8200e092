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
    __global float *partial,
    __global float *y0_memory,
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
    const int y0_2)
{
    __local float panel[65536];

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
    int lane_rows[96], lane_columns[96];
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
            lane_rows[lane] = digit_0 * row_lane_0 + digit_1 * row_lane_1 + row_start;
            lane_columns[lane] = digit_1 * column_lane_1 + digit_2 * column_lane_2 + column_start;
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
            int depth_rows[16], depth_columns[16];
            int there = min(16, length - k);
            bool neighbours = there == 16;
            for (int u = 0; u < 16; ++u) {
                if (u < there) {
                    depth_places[u] = digit_0 * x_depth_0 + digit_1 * x_depth_1 + digit_2 * x_depth_2;
                    depth_rows[u] = digit_0 * row_depth_0 + digit_1 * row_depth_1;
                    depth_columns[u] = digit_1 * column_depth_1 + digit_2 * column_depth_2;
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
                const int16 rows_here = vload16(0, depth_rows);
                const int16 columns_here = vload16(0, depth_columns);
                for (int tile = 0; tile < count; ++tile) {
                    __local float *to = panel + (tile * padded + k) * 10;
                    for (int l = 0; l < 10; ++l) {
                        const int lane = tile * 10 + l;
                        const index_t place = x_at + lane_places[lane] + depth_places[0];
                        const int16 inside = (as_uint16(rows_here + lane_rows[lane]) < (uint16)(uint)height)
                            & (as_uint16(columns_here + lane_columns[lane]) < (uint16)(uint)width);
                        float16 value = 0;
                        if (all(inside))
                            value = vload16(0, x_memory + place);
                        else if (any(inside)) {
                            float one[16];
                            int is_inside[16];
                            vstore16(inside, 0, is_inside);
                            for (int u = 0; u < 16; ++u)
                                one[u] = is_inside[u] ? (float)x_memory[place + u] : 0;
                            value = vload16(0, one);
                        }
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
                            if (u < there
                                && (uint)(lane_rows[lane] + depth_rows[u]) < (uint)height
                                && (uint)(lane_columns[lane] + depth_columns[u]) < (uint)width)
                                value = (float)x_memory[x_at + lane_places[lane] + depth_places[u]];
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
                const index_t number = ((split * groups + group) * tiles + first + tile) * packed_tiles + other;
                __global float *kept = partial + number * 320;
                if (from > begin) {
                    #pragma unroll
                    for (int j = 0; j < 10; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            sum[j][v] = vload16(j * 2 + v, kept);
                } else
                {
                    #pragma unroll
                    for (int j = 0; j < 10; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            sum[j][v] = 0;
                }
                __global const float *ahead = strip;
                if (tile < 4)
                    ahead += depth_padded * 32 + (tile) * padded * 8;
                for (int k = 0; k < padded; k += 16) {
                    prefetch_line(ahead + 0);
                    prefetch_line(ahead + 16);
                    prefetch_line(ahead + 32);
                    prefetch_line(ahead + 48);
                    prefetch_line(ahead + 64);
                    prefetch_line(ahead + 80);
                    prefetch_line(ahead + 96);
                    prefetch_line(ahead + 112);
                    ahead += 128;
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
                if (1) {
                    #pragma unroll
                    for (int j = 0; j < 10; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(sum[j][v], j * 2 + v, kept);
                    continue;
                }
            }
        }
    }
}
