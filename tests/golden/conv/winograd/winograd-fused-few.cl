typedef int index_t;

// A result as a sum of products, which may be finite where what transforms add up is not.
__attribute__((noinline)) static float sum_of_products(
    __global const float *x_memory, index_t x_at, index_t top, index_t left, index_t x_rows, index_t x_columns,
    index_t x_row, index_t x_column, index_t x_step, __global const float *w_memory, index_t w_at, index_t w_rows,
    index_t w_columns, index_t w_row, index_t w_column, index_t w_step, index_t steps)
{
    const index_t row_first = max(-top, (index_t)0), row_last = min(w_rows, x_rows - top);
    const index_t column_first = max(-left, (index_t)0), column_last = min(w_columns, x_columns - left);
    float sum = 0;
    // Once there is no number there never is.
    for (index_t step = 0; step < steps && !isnan(sum); ++step) {
        float plane = 0;
        for (index_t i = row_first; i < row_last && !isnan(plane); ++i) {
            float line = 0;
            for (index_t k = column_first; k < column_last; ++k)
                line += (float)x_memory[x_at + step * x_step + (top + i) * x_row + (left + k) * x_column] * (float)w_memory[w_at + step * w_step + i * w_row + k * w_column];
            plane += line;
        }
        sum += plane;
    }
    return sum;
}

// The channels at `at`, which do not fill a vector.
__attribute__((always_inline)) static float16 channels_of(__global const float *x_memory, index_t at, int channels, index_t x_size)
{
    // The next pixel's are left out, and only at the end of memory there are none.
    const int16 there = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int)channels;
    if (at + 16 <= x_size)
        return select((float16)0, vload16(0, x_memory + at), there);
    float elements[16];
    for (int e = 0; e < 16; ++e)
        elements[e] = e < channels ? (float)x_memory[at + e] : 0;
    return vload16(0, elements);
}

// Winograd's F(4 x 4, 3 x 3): 36 products a tile instead of 144.
//
//    x: 6 x 6 pixels                every element e of the tiles by itself
//   +---------+   down, then along
//   | +-----+ |  ----------------->  V[e]: tiles x channels  *  U[e]: channels x outputs
//   | |y: 4x4| |                                           |
//   | +-----+ |  <-----------------  M[e]: tiles x 32 outputs  <--'
//   +---------+   back, and stored
//
// A work-group takes blocks of `block_tiles` tiles, whose V and M stay in its second cache; products
// of 8 tiles and 32 outputs are summed up in registers.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd(
    __global const float *w_memory,
    __global const float *x_memory,
    __global const float *packed,
    __global float *partial,
    __global float *y0_memory,
    const int x_start,
    const int x_group,
    const int x_image,
    const int x_row,
    const int x_channel,
    const int x_rows,
    const int x_columns,
    const int rows_before,
    const int columns_before,
    const int channels,
    const int channel_blocks,
    const int tile_lines,
    const int tile_columns,
    const int longest_run,
    const int line_pitch,
    const int v_element,
    const int x_size,
    const int x_column,
    const int w_start,
    const int w_row,
    const int w_column,
    const int w_channel,
    const int w_group,
    const int w_output,
    const int w_rows,
    const int w_columns,
    const int outputs,
    const int output_vectors,
    const int y_rows,
    const int y_columns,
    const int m_element,
    const int strips,
    const int tiles,
    const int blocks,
    const int block_tiles,
    const int groups,
    const int u_element,
    const int u_strip,
    const int v_size,
    const int slice,
    const int y0_start,
    const int y0_group,
    const int y0_channel,
    const int y0_0,
    const int y0_1,
    const int y0_2)
{
    __local float lines[4096];
    __global float *V = partial + (index_t)get_group_id(0) * slice;
    __global float *M = V + v_size;
    const index_t all = blocks * groups;
    const index_t begin = all * (index_t)get_group_id(0) / (index_t)get_num_groups(0);
    const index_t end = all * ((index_t)get_group_id(0) + 1) / (index_t)get_num_groups(0);
    for (index_t some = begin; some < end; ++some) {
        const index_t group = some / blocks;
        const index_t tile_first = (some - group * blocks) * block_tiles;
        const index_t tile_last = min(tile_first + block_tiles, tiles);
        for (index_t tile = tile_first; tile < tile_last;) {
            // A run of tiles in a line of tiles.
            const index_t above = tile / tile_columns;
            const int tile_column = tile - above * tile_columns;
            const index_t image = above / tile_lines;
            const int run = min(min((int)(tile_last - tile), tile_columns - tile_column), (int)longest_run);
            const int top = (int)(above - image * tile_lines) * 4 - rows_before;
            const int left = tile_column * 4 - columns_before;
            const int wide = run * 4 + 2;
            for (int block = 0; block < channel_blocks; ++block) {
                // The last block of channels ends with the last channel.
                const int channel = 0;
                const index_t x_at = x_start + group * x_group + image * x_image + channel * x_channel;
                // Rows outside are not read: of another row, that is there, nothing is taken.
                const bool inside_0 = (uint)(top + 0) < (uint)x_rows;
                const index_t x_0 = x_at + (inside_0 ? top + 0 : 0) * x_row;
                const bool inside_1 = (uint)(top + 1) < (uint)x_rows;
                const index_t x_1 = x_at + (inside_1 ? top + 1 : 0) * x_row;
                const bool inside_2 = (uint)(top + 2) < (uint)x_rows;
                const index_t x_2 = x_at + (inside_2 ? top + 2 : 0) * x_row;
                const bool inside_3 = (uint)(top + 3) < (uint)x_rows;
                const index_t x_3 = x_at + (inside_3 ? top + 3 : 0) * x_row;
                const bool inside_4 = (uint)(top + 4) < (uint)x_rows;
                const index_t x_4 = x_at + (inside_4 ? top + 4 : 0) * x_row;
                const bool inside_5 = (uint)(top + 5) < (uint)x_rows;
                const index_t x_5 = x_at + (inside_5 ? top + 5 : 0) * x_row;
                // Down the columns: what neighbouring tiles share is transformed once.
                for (int c = 0; c < wide; ++c) {
                    const int x_c = left + c;
                    if ((uint)x_c >= (uint)x_columns) {
                        vstore16((float16)0, 0 * line_pitch + c, lines);
                        vstore16((float16)0, 1 * line_pitch + c, lines);
                        vstore16((float16)0, 2 * line_pitch + c, lines);
                        vstore16((float16)0, 3 * line_pitch + c, lines);
                        vstore16((float16)0, 4 * line_pitch + c, lines);
                        vstore16((float16)0, 5 * line_pitch + c, lines);
                        continue;
                    }
                    const index_t at = x_c * x_column;
                    const float16 d0 = inside_0 ? channels_of(x_memory, x_0 + at, channels, x_size) : (float16)0;
                    const float16 d1 = inside_1 ? channels_of(x_memory, x_1 + at, channels, x_size) : (float16)0;
                    const float16 d2 = inside_2 ? channels_of(x_memory, x_2 + at, channels, x_size) : (float16)0;
                    const float16 d3 = inside_3 ? channels_of(x_memory, x_3 + at, channels, x_size) : (float16)0;
                    const float16 d4 = inside_4 ? channels_of(x_memory, x_4 + at, channels, x_size) : (float16)0;
                    const float16 d5 = inside_5 ? channels_of(x_memory, x_5 + at, channels, x_size) : (float16)0;
                    const float16 d_e1 = -2.25f * d2 + d4;
                    const float16 d_o1 = -2.25f * d1 + d3;
                    const float16 v1 = 0.625f * d_o1 + d_e1;
                    const float16 v2 = -0.625f * d_o1 + d_e1;
                    const float16 d_e3 = -0.390625f * d2 + d4;
                    const float16 d_o3 = -0.390625f * d1 + d3;
                    const float16 v3 = 1.5f * d_o3 + d_e3;
                    const float16 v4 = -1.5f * d_o3 + d_e3;
                    const float16 v0 = -2.640625f * d2 + (0.87890625f * d0 + d4);
                    const float16 v5 = -2.640625f * d3 + (0.87890625f * d1 + d5);
                    vstore16(v0, 0 * line_pitch + c, lines);
                    vstore16(v1, 1 * line_pitch + c, lines);
                    vstore16(v2, 2 * line_pitch + c, lines);
                    vstore16(v3, 3 * line_pitch + c, lines);
                    vstore16(v4, 4 * line_pitch + c, lines);
                    vstore16(v5, 5 * line_pitch + c, lines);
                }
                // Along the rows of every tile.
                int row = (int)(tile - tile_first) / 8;
                int part = (int)(tile - tile_first) - row * 8;
                for (int t = 0; t < run; ++t) {
                    __global float *to = V + ((index_t)row * channel_blocks + block) * 128 + part * 16;
                    for (int i = 0; i < 6; ++i) {
                        __local const float *line = lines + (i * line_pitch + t * 4) * 16;
                        const float16 d0 = vload16(0, line);
                        const float16 d1 = vload16(1, line);
                        const float16 d2 = vload16(2, line);
                        const float16 d3 = vload16(3, line);
                        const float16 d4 = vload16(4, line);
                        const float16 d5 = vload16(5, line);
                        const float16 d_e1 = -2.25f * d2 + d4;
                        const float16 d_o1 = -2.25f * d1 + d3;
                        const float16 v1 = 0.625f * d_o1 + d_e1;
                        const float16 v2 = -0.625f * d_o1 + d_e1;
                        const float16 d_e3 = -0.390625f * d2 + d4;
                        const float16 d_o3 = -0.390625f * d1 + d3;
                        const float16 v3 = 1.5f * d_o3 + d_e3;
                        const float16 v4 = -1.5f * d_o3 + d_e3;
                        const float16 v0 = -2.640625f * d2 + (0.87890625f * d0 + d4);
                        const float16 v5 = -2.640625f * d3 + (0.87890625f * d1 + d5);
                        vstore16(v0, 0, to + 0 * v_element);
                        vstore16(v1, 0, to + 1 * v_element);
                        vstore16(v2, 0, to + 2 * v_element);
                        vstore16(v3, 0, to + 3 * v_element);
                        vstore16(v4, 0, to + 4 * v_element);
                        vstore16(v5, 0, to + 5 * v_element);
                        to += 6 * v_element;
                    }
                    if (++part == 8) {
                        part = 0;
                        ++row;
                    }
                }
            }
            tile += run;
        }

        const int tile_groups = (tile_last - tile_first + 7) / 8;
        for (index_t strip = 0; strip < strips; ++strip) {
            __global const float *weights = packed + (group * strips + strip) * u_strip;
            for (int e = 0; e < 36; ++e)
                for (int some_tiles = 0; some_tiles < tile_groups; ++some_tiles) {
                    __global const float *a = V + e * v_element + (index_t)some_tiles * channel_blocks * 128;
                    __global const float *b = weights + e * u_element;
                    __global float *to = M + e * m_element + some_tiles * 256;
                    for (int first = 0; first < channels; first += 64) {
                        float16 sum[8][2];
                        #pragma unroll
                        for (int j = 0; j < 8; ++j)
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = 0;
                        for (int k = 0; k < channels; ++k) {
                            float16 row[2];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                row[v] = vload16(v, b);
                            #pragma unroll
                            for (int j = 0; j < 8; ++j) {
                                const float16 factor = a[j * 16 + k];
                                #pragma unroll
                                for (int v = 0; v < 2; ++v)
                                    sum[j][v] = factor * row[v] + sum[j][v];
                            }
                            b += 32;
                        }
                        // Sums of earlier channels are added once, so that errors do not grow with their number.
                        #pragma unroll
                        for (int j = 0; j < 8; ++j)
                            #pragma unroll
                            for (int v = 0; v < 2; ++v) {
                                if (first > 0)
                                    sum[j][v] += vload16(v, to + j * 32);
                                vstore16(sum[j][v], v, to + j * 32);
                            }
                    }

                }

            for (index_t tile = tile_first; tile < tile_last;) {
                const index_t above = tile / tile_columns;
                const int tile_column = tile - above * tile_columns;
                const index_t image = above / tile_lines;
                const int tile_line = above - image * tile_lines;
                const int run = 1;
                const int rows_left = min(run * 4, (int)y_columns - tile_column * 4);
                const int lines_left = min(4, (int)y_rows - tile_line * 4);
                const index_t y0_tile = y0_start + group * y0_group + image * y0_0 + tile_line * 4 * y0_1 + tile_column * 4 * y0_2;
                for (index_t other = strip * 2; other < min((strip + 1) * 2, output_vectors); ++other) {
                    // What one tile, or a run of them, becomes.
                    float tile_out[256];
                    const index_t column = other * 16;
                    const int columns_left = min((index_t)16, outputs - column);
                    __global const float *from = M + (tile - tile_first) * 32 + (other - strip * 2) * 16;
                    float16 z0_0;
                    float16 z1_0;
                    float16 z2_0;
                    float16 z3_0;
                    {
                        const float16 p0 = vload16(0, from + 0 * m_element);
                        const float16 p1 = vload16(0, from + 6 * m_element);
                        const float16 p2 = vload16(0, from + 12 * m_element);
                        const float16 p3 = vload16(0, from + 18 * m_element);
                        const float16 p4 = vload16(0, from + 24 * m_element);
                        const float16 p5 = vload16(0, from + 30 * m_element);
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        z0_0 = r0;
                        z1_0 = r1;
                        z2_0 = r2;
                        z3_0 = r3;
                    }
                    float16 z0_1;
                    float16 z1_1;
                    float16 z2_1;
                    float16 z3_1;
                    {
                        const float16 p0 = vload16(0, from + 1 * m_element);
                        const float16 p1 = vload16(0, from + 7 * m_element);
                        const float16 p2 = vload16(0, from + 13 * m_element);
                        const float16 p3 = vload16(0, from + 19 * m_element);
                        const float16 p4 = vload16(0, from + 25 * m_element);
                        const float16 p5 = vload16(0, from + 31 * m_element);
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        z0_1 = r0;
                        z1_1 = r1;
                        z2_1 = r2;
                        z3_1 = r3;
                    }
                    float16 z0_2;
                    float16 z1_2;
                    float16 z2_2;
                    float16 z3_2;
                    {
                        const float16 p0 = vload16(0, from + 2 * m_element);
                        const float16 p1 = vload16(0, from + 8 * m_element);
                        const float16 p2 = vload16(0, from + 14 * m_element);
                        const float16 p3 = vload16(0, from + 20 * m_element);
                        const float16 p4 = vload16(0, from + 26 * m_element);
                        const float16 p5 = vload16(0, from + 32 * m_element);
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        z0_2 = r0;
                        z1_2 = r1;
                        z2_2 = r2;
                        z3_2 = r3;
                    }
                    float16 z0_3;
                    float16 z1_3;
                    float16 z2_3;
                    float16 z3_3;
                    {
                        const float16 p0 = vload16(0, from + 3 * m_element);
                        const float16 p1 = vload16(0, from + 9 * m_element);
                        const float16 p2 = vload16(0, from + 15 * m_element);
                        const float16 p3 = vload16(0, from + 21 * m_element);
                        const float16 p4 = vload16(0, from + 27 * m_element);
                        const float16 p5 = vload16(0, from + 33 * m_element);
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        z0_3 = r0;
                        z1_3 = r1;
                        z2_3 = r2;
                        z3_3 = r3;
                    }
                    float16 z0_4;
                    float16 z1_4;
                    float16 z2_4;
                    float16 z3_4;
                    {
                        const float16 p0 = vload16(0, from + 4 * m_element);
                        const float16 p1 = vload16(0, from + 10 * m_element);
                        const float16 p2 = vload16(0, from + 16 * m_element);
                        const float16 p3 = vload16(0, from + 22 * m_element);
                        const float16 p4 = vload16(0, from + 28 * m_element);
                        const float16 p5 = vload16(0, from + 34 * m_element);
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        z0_4 = r0;
                        z1_4 = r1;
                        z2_4 = r2;
                        z3_4 = r3;
                    }
                    float16 z0_5;
                    float16 z1_5;
                    float16 z2_5;
                    float16 z3_5;
                    {
                        const float16 p0 = vload16(0, from + 5 * m_element);
                        const float16 p1 = vload16(0, from + 11 * m_element);
                        const float16 p2 = vload16(0, from + 17 * m_element);
                        const float16 p3 = vload16(0, from + 23 * m_element);
                        const float16 p4 = vload16(0, from + 29 * m_element);
                        const float16 p5 = vload16(0, from + 35 * m_element);
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        z0_5 = r0;
                        z1_5 = r1;
                        z2_5 = r2;
                        z3_5 = r3;
                    }
                    {
                        const float16 p0 = z0_0;
                        const float16 p1 = z0_1;
                        const float16 p2 = z0_2;
                        const float16 p3 = z0_3;
                        const float16 p4 = z0_4;
                        const float16 p5 = z0_5;
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        vstore16(r0, 0, tile_out);
                        vstore16(r1, 1, tile_out);
                        vstore16(r2, 2, tile_out);
                        vstore16(r3, 3, tile_out);
                    }
                    {
                        const float16 p0 = z1_0;
                        const float16 p1 = z1_1;
                        const float16 p2 = z1_2;
                        const float16 p3 = z1_3;
                        const float16 p4 = z1_4;
                        const float16 p5 = z1_5;
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        vstore16(r0, 4, tile_out);
                        vstore16(r1, 5, tile_out);
                        vstore16(r2, 6, tile_out);
                        vstore16(r3, 7, tile_out);
                    }
                    {
                        const float16 p0 = z2_0;
                        const float16 p1 = z2_1;
                        const float16 p2 = z2_2;
                        const float16 p3 = z2_3;
                        const float16 p4 = z2_4;
                        const float16 p5 = z2_5;
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        vstore16(r0, 8, tile_out);
                        vstore16(r1, 9, tile_out);
                        vstore16(r2, 10, tile_out);
                        vstore16(r3, 11, tile_out);
                    }
                    {
                        const float16 p0 = z3_0;
                        const float16 p1 = z3_1;
                        const float16 p2 = z3_2;
                        const float16 p3 = z3_3;
                        const float16 p4 = z3_4;
                        const float16 p5 = z3_5;
                        const float16 p_s1 = p1 + p2;
                        const float16 p_d1 = p1 - p2;
                        const float16 p_s3 = p3 + p4;
                        const float16 p_d3 = p3 - p4;
                        const float16 r0 = p0 + p_s1 + p_s3;
                        const float16 r1 = 1.5f * p_d3 + (0.625f * p_d1);
                        const float16 r2 = 2.25f * p_s3 + (0.390625f * p_s1);
                        const float16 r3 = 3.375f * p_d3 + (0.24414062f * p_d1 + p5);
                        vstore16(r0, 12, tile_out);
                        vstore16(r1, 13, tile_out);
                        vstore16(r2, 14, tile_out);
                        vstore16(r3, 15, tile_out);
                    }

                    int16 lost = 0;
                    for (int i = 0; i < 4; ++i)
                        for (int j = 0; j < run * 4; ++j)
                            lost |= isfinite(vload16(i * 4 + j, tile_out)) == 0;
                    if (any(lost)) {
                        const index_t x_at = x_start + group * x_group + image * x_image;
                        const index_t row = tile_line * 4, line = tile_column * 4;
                        for (int i = 0; i < lines_left; ++i)
                            for (int j = 0; j < rows_left; ++j)
                                for (int c = 0; c < columns_left; ++c) {
                                    const int at = (i * 4 + j) * 16 + c;
                                    if (!isfinite(tile_out[at]))
                                        tile_out[at] = sum_of_products(
                                            x_memory, x_at, row + i * 1 - rows_before, line + j * 1 - columns_before, x_rows, x_columns, x_row, x_column, x_channel,
                                            w_memory, w_start + group * w_group + (column + c) * w_output, w_rows, w_columns, w_row, w_column, w_channel, channels);
                                }
                    }
                    for (int i = 0; i < lines_left; ++i) {
                        const index_t y0_line = y0_tile + i * y0_1;
                        float16 sum[4][1];
                        #pragma unroll
                        for (int j = 0; j < 4; ++j)
                            sum[j][0] = vload16(i * 4 + j, tile_out);
                        if (columns_left >= 16) {
                            #pragma unroll
                            for (int j = 0; j < 4; ++j)
                                if (j < rows_left) {
                                    #pragma unroll
                                    for (int v = 0; v < 1; ++v) {
                                        const int c = v * 16;
                                        float16 y0 = sum[j][v];
                                        vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                                    }
                                }
                            continue;
                        }
                        // At the edges, and where columns do not lie side by side: 8 elements at a time.
                        float elements[64];
                        #pragma unroll
                        for (int j = 0; j < 4; ++j)
                            #pragma unroll
                            for (int v = 0; v < 1; ++v)
                                vstore16(sum[j][v], j * 1 + v, elements);
                        for (int j = 0; j < rows_left; ++j)
                            for (int c = 0; c < columns_left; c += 8) {
                                float8 y0 = vload8(0, elements + j * 16 + c);
                                vstore8(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                            }

                    }
                }
                tile += run;
            }

        }
    }
}
