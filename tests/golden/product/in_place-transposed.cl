// A matrix product, one of whose operands is read where it lies: windows of a row of pixels, or a
// matrix. Its lanes are columns: in memory they are neighbours, and from depth to depth it is always
// the same step.
//
//                columns: 1 vectors of 16
//            +------------------------+
//            |  b: a row a step       |      A tile of 3 rows x 16 columns stays in registers while
//            +------------------------+      depth passes by. The last tile of a line of lanes begins early
//     +---+  +------------------------+      enough to end with it; what it shares with the tile before is
//     | a |  |                        |      stored once.
//     |   |  |                        |
//     |   |  |  sum,   3 rows         |      A work-item takes some lines of lanes, or a part of one, and
//     |   |  |                        |      passes all packed tiles by.
//     +---+  +------------------------+
//
// Windows may leave the image: the rows of pixels that they touch are copied to a row buffer in
// local memory, with zeros around.
typedef int index_t;

static inline float16 interleave0(const float16 a, const float16 b)
{
    return (float16)(a.s0, b.s0, a.s2, a.s1, b.s1, a.s5, a.s2, b.s2, a.s8, a.s3, b.s3, a.sb, a.s4, b.s4, a.se, a.s5);
}
static inline float16 interleave1(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s1, b.s0, a.s3, a.s4, b.s1, a.s6, a.s7, b.s2, a.s9, a.sa, b.s3, a.sc, a.sd, b.s4, a.sf);
}
static inline float16 interleave2(const float16 a, const float16 b)
{
    return (float16)(a.s5, b.s5, a.s2, a.s6, b.s6, a.s5, a.s7, b.s7, a.s8, a.s8, b.s8, a.sb, a.s9, b.s9, a.se, a.sa);
}
static inline float16 interleave3(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s1, b.s6, a.s3, a.s4, b.s7, a.s6, a.s7, b.s8, a.s9, a.sa, b.s9, a.sc, a.sd, b.sa, a.sf);
}
static inline float16 interleave4(const float16 a, const float16 b)
{
    return (float16)(a.sa, b.sb, a.s2, a.sb, b.sc, a.s5, a.sc, b.sd, a.s8, a.sd, b.se, a.sb, a.se, b.sf, a.se, a.sf);
}
static inline float16 interleave5(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s1, b.sb, a.s3, a.s4, b.sc, a.s6, a.s7, b.sd, a.s9, a.sa, b.se, a.sc, a.sd, b.sf, a.sf);
}

static inline float16 pick0(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s2, a.s4, a.s6, a.s8, a.sa, a.sc, a.se, b.s0, b.s2, b.s4, b.s6, b.s8, b.sa, b.sc, b.se);
}
static inline float16 pick1(const float16 a, const float16 b)
{
    return (float16)(a.s1, a.s3, a.s5, a.s7, a.s9, a.sb, a.sd, a.sf, b.s1, b.s3, b.s5, b.s7, b.s9, b.sb, b.sd, b.sf);
}

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
    // A transposition: pixels become neighbours, a plane a channel.
    const index_t plane = buffer_height * buffer_width;
    for (int r = 0; r < buffer_height; ++r) {
        __local float *line_to = row_buffer + r * buffer_width;
        const bool inside = (uint)(above + r) < (uint)height;
        for (int e = 0; e < depth_2; ++e) {
            for (int c = 0; c < (inside ? before : buffer_width); ++c)
                line_to[e * plane + c] = 0;
            for (int c = before + between; c < buffer_width; ++c)
                line_to[e * plane + c] = 0;
        }
        if (!inside)
            continue;
        const index_t line_at = x_row + (above + r) * x_pixel_row + (left + before) * x_pixel;
        line_to += before;
        int c = 0;
        for (; c + 16 <= between; c += 16) {
            int e = 0;
            for (; e + 16 <= depth_2; e += 16) {
                const float16 v0 = vload16(0, x_memory + line_at + (c + 0) * x_pixel + e);
                const float16 v1 = vload16(0, x_memory + line_at + (c + 1) * x_pixel + e);
                const float16 v2 = vload16(0, x_memory + line_at + (c + 2) * x_pixel + e);
                const float16 v3 = vload16(0, x_memory + line_at + (c + 3) * x_pixel + e);
                const float16 v4 = vload16(0, x_memory + line_at + (c + 4) * x_pixel + e);
                const float16 v5 = vload16(0, x_memory + line_at + (c + 5) * x_pixel + e);
                const float16 v6 = vload16(0, x_memory + line_at + (c + 6) * x_pixel + e);
                const float16 v7 = vload16(0, x_memory + line_at + (c + 7) * x_pixel + e);
                const float16 v8 = vload16(0, x_memory + line_at + (c + 8) * x_pixel + e);
                const float16 v9 = vload16(0, x_memory + line_at + (c + 9) * x_pixel + e);
                const float16 v10 = vload16(0, x_memory + line_at + (c + 10) * x_pixel + e);
                const float16 v11 = vload16(0, x_memory + line_at + (c + 11) * x_pixel + e);
                const float16 v12 = vload16(0, x_memory + line_at + (c + 12) * x_pixel + e);
                const float16 v13 = vload16(0, x_memory + line_at + (c + 13) * x_pixel + e);
                const float16 v14 = vload16(0, x_memory + line_at + (c + 14) * x_pixel + e);
                const float16 v15 = vload16(0, x_memory + line_at + (c + 15) * x_pixel + e);
                const float16 v16 = pick0(v0, v1);
                const float16 v17 = pick1(v0, v1);
                const float16 v18 = pick0(v2, v3);
                const float16 v19 = pick1(v2, v3);
                const float16 v20 = pick0(v4, v5);
                const float16 v21 = pick1(v4, v5);
                const float16 v22 = pick0(v6, v7);
                const float16 v23 = pick1(v6, v7);
                const float16 v24 = pick0(v8, v9);
                const float16 v25 = pick1(v8, v9);
                const float16 v26 = pick0(v10, v11);
                const float16 v27 = pick1(v10, v11);
                const float16 v28 = pick0(v12, v13);
                const float16 v29 = pick1(v12, v13);
                const float16 v30 = pick0(v14, v15);
                const float16 v31 = pick1(v14, v15);
                const float16 v32 = pick0(v16, v18);
                const float16 v33 = pick1(v16, v18);
                const float16 v34 = pick0(v20, v22);
                const float16 v35 = pick1(v20, v22);
                const float16 v36 = pick0(v24, v26);
                const float16 v37 = pick1(v24, v26);
                const float16 v38 = pick0(v28, v30);
                const float16 v39 = pick1(v28, v30);
                const float16 v40 = pick0(v17, v19);
                const float16 v41 = pick1(v17, v19);
                const float16 v42 = pick0(v21, v23);
                const float16 v43 = pick1(v21, v23);
                const float16 v44 = pick0(v25, v27);
                const float16 v45 = pick1(v25, v27);
                const float16 v46 = pick0(v29, v31);
                const float16 v47 = pick1(v29, v31);
                const float16 v48 = pick0(v32, v34);
                const float16 v49 = pick1(v32, v34);
                const float16 v50 = pick0(v36, v38);
                const float16 v51 = pick1(v36, v38);
                const float16 v52 = pick0(v40, v42);
                const float16 v53 = pick1(v40, v42);
                const float16 v54 = pick0(v44, v46);
                const float16 v55 = pick1(v44, v46);
                const float16 v56 = pick0(v33, v35);
                const float16 v57 = pick1(v33, v35);
                const float16 v58 = pick0(v37, v39);
                const float16 v59 = pick1(v37, v39);
                const float16 v60 = pick0(v41, v43);
                const float16 v61 = pick1(v41, v43);
                const float16 v62 = pick0(v45, v47);
                const float16 v63 = pick1(v45, v47);
                const float16 v64 = pick0(v48, v50);
                const float16 v65 = pick1(v48, v50);
                const float16 v66 = pick0(v52, v54);
                const float16 v67 = pick1(v52, v54);
                const float16 v68 = pick0(v56, v58);
                const float16 v69 = pick1(v56, v58);
                const float16 v70 = pick0(v60, v62);
                const float16 v71 = pick1(v60, v62);
                const float16 v72 = pick0(v49, v51);
                const float16 v73 = pick1(v49, v51);
                const float16 v74 = pick0(v53, v55);
                const float16 v75 = pick1(v53, v55);
                const float16 v76 = pick0(v57, v59);
                const float16 v77 = pick1(v57, v59);
                const float16 v78 = pick0(v61, v63);
                const float16 v79 = pick1(v61, v63);

                vstore16(v64, 0, line_to + (e + 0) * plane + c);
                vstore16(v66, 0, line_to + (e + 1) * plane + c);
                vstore16(v68, 0, line_to + (e + 2) * plane + c);
                vstore16(v70, 0, line_to + (e + 3) * plane + c);
                vstore16(v72, 0, line_to + (e + 4) * plane + c);
                vstore16(v74, 0, line_to + (e + 5) * plane + c);
                vstore16(v76, 0, line_to + (e + 6) * plane + c);
                vstore16(v78, 0, line_to + (e + 7) * plane + c);
                vstore16(v65, 0, line_to + (e + 8) * plane + c);
                vstore16(v67, 0, line_to + (e + 9) * plane + c);
                vstore16(v69, 0, line_to + (e + 10) * plane + c);
                vstore16(v71, 0, line_to + (e + 11) * plane + c);
                vstore16(v73, 0, line_to + (e + 12) * plane + c);
                vstore16(v75, 0, line_to + (e + 13) * plane + c);
                vstore16(v77, 0, line_to + (e + 14) * plane + c);
                vstore16(v79, 0, line_to + (e + 15) * plane + c);
            }
            for (; e < depth_2; ++e)
                for (int u = 0; u < 16; ++u)
                    line_to[e * plane + c + u] = (float)x_memory[line_at + (c + u) * x_pixel + e];
        }
        for (; c < between; ++c)
            for (int e = 0; e < depth_2; ++e)
                line_to[e * plane + c] = (float)x_memory[line_at + c * x_pixel + e];
    }
    const index_t channel_step = buffer_height * buffer_width;
    const index_t buffer_line = buffer_width;
    const index_t step = 1, row_step = row_lane_1 * buffer_line;
    const index_t tap_row = row_depth_0 * buffer_line, tap_column = column_depth_1;
    __local const float *corner = row_buffer - first_lane * step;
    const index_t y0_image = y0_start + group * y0_group + image * y0_0;
    const index_t bias_image = bias_start + group * bias_group;

    for (index_t some = packed_first; some < packed_last; some += packed_a_tile)
        for (index_t line = first_row; line < last_row; ++line)
            for (index_t tile = first_tile; tile < last_tile; ++tile)
            for (index_t other = some; other < min(some + packed_a_tile, packed_last); ++other) {
                __global const float *strip = packed
                    + (group * packed_tiles + other) * depth_padded * 3;
                const index_t first = min(tile * 16, lane_2 - 16);
                const int shared = tile * 16 - first;
                __local const float *corner_here = corner + (line - first_row) * row_step + first * step;
                const index_t y0_line = y0_image + line * y0_1 + first * y0_2;
                const index_t bias_line = bias_image;
                const index_t row = other * 3;
                const int rows_left = min((index_t)3, outputs - row);
                const int columns_left = 16;
                float16 sum[3][1];
                #pragma unroll
                for (int j = 0; j < 3; ++j)
                    #pragma unroll
                    for (int v = 0; v < 1; ++v)
                        sum[j][v] = 0;
                for (int tap_0 = 0; tap_0 < depth_0; ++tap_0)
                    for (int tap_1 = 0; tap_1 < taps; ++tap_1) {
                        __local const float *b = corner_here + tap_0 * tap_row + tap_1 * tap_column;
                        __global const float *a = strip + (tap_0 * taps + tap_1) * run * 3;
                        int left_over = run;
                        for (; left_over >= 4; left_over -= 4) {
                            #pragma unroll
                            for (int u = 0; u < 4; ++u) {
                                float16 row[1];
                                #pragma unroll
                                for (int v = 0; v < 1; ++v)
                                    row[v] = vload16(v, b + u * channel_step);
                                #pragma unroll
                                for (int j = 0; j < 3; ++j) {
                                    const float16 factor = a[u * 3 + j];
                                    #pragma unroll
                                    for (int v = 0; v < 1; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 12;
                            b += 4 * channel_step;

                        }
                        for (; left_over > 0; --left_over) {
                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                float16 row[1];
                                #pragma unroll
                                for (int v = 0; v < 1; ++v)
                                    row[v] = vload16(v, b + u * channel_step);
                                #pragma unroll
                                for (int j = 0; j < 3; ++j) {
                                    const float16 factor = a[u * 3 + j];
                                    #pragma unroll
                                    for (int v = 0; v < 1; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 3;
                            b += 1 * channel_step;

                        }
                    }
                // Rows that become the pixels of one row are interleaved, so that these are stored side by side.
                if (columns_left >= 16 && shared == 0) {
                    #pragma unroll
                    for (int pixel = 0; pixel < 3; pixel += 3)
                        if (pixel < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 1; ++v) {
                                const int c = v * 16;
                                float16 v0;
                                {
                                    const int j = pixel + 0;
                                    float16 y0 = sum[j][v];
                                    typedef float16 typeof_bias;
                                    const typeof_bias bias = (float)bias_memory[bias_line + (row + j) * bias_channel];
                                    y0 += bias;

                                    v0 = y0;
                                }
                                float16 v1;
                                {
                                    const int j = pixel + 1;
                                    float16 y0 = sum[j][v];
                                    typedef float16 typeof_bias;
                                    const typeof_bias bias = (float)bias_memory[bias_line + (row + j) * bias_channel];
                                    y0 += bias;

                                    v1 = y0;
                                }
                                float16 v2;
                                {
                                    const int j = pixel + 2;
                                    float16 y0 = sum[j][v];
                                    typedef float16 typeof_bias;
                                    const typeof_bias bias = (float)bias_memory[bias_line + (row + j) * bias_channel];
                                    y0 += bias;

                                    v2 = y0;
                                }
                                const float16 v3 = interleave0(v0, v1);
                                const float16 v4 = interleave1(v3, v2);
                                const float16 v5 = interleave2(v1, v2);
                                const float16 v6 = interleave3(v5, v0);
                                const float16 v7 = interleave4(v2, v0);
                                const float16 v8 = interleave5(v7, v1);

                                const int j = pixel;
                                vstore16(v4, 0, y0_memory + y0_line + c * y0_2 + (row + j) * y0_channel + 0);
                                vstore16(v6, 0, y0_memory + y0_line + c * y0_2 + (row + j) * y0_channel + 16);
                                vstore16(v8, 0, y0_memory + y0_line + c * y0_2 + (row + j) * y0_channel + 32);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: element by element.
                float elements[48];
                #pragma unroll
                for (int j = 0; j < 3; ++j)
                    #pragma unroll
                    for (int v = 0; v < 1; ++v)
                        vstore16(sum[j][v], j * 1 + v, elements);
                for (int j = 0; j < rows_left; ++j)
                    for (int c = shared; c < columns_left; ++c) {
                        float y0 = elements[j * 16 + c];
                        typedef float typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_line + (row + j) * bias_channel];
                        y0 += bias;
                        y0_memory[y0_line + c * y0_2 + (row + j) * y0_channel] = y0;
                    }

            }
}
