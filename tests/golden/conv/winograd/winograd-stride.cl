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

__constant ushort order[25] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 20, 16, 21, 17, 22, 18, 19, 23, 24 };
__constant ushort takes[25] = { 0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 11, 12, 13, 14, 15, 15, 12, 13, 14, 15, 15 };

// Winograd's F(2 x 2, 3 x 3): 25 products a tile instead of 36.
//
//    x: 5 x 5 pixels                every element e of the tiles by itself
//   +---------+   down, then along
//   | +-----+ |  ----------------->  V[e]: tiles x channels  *  U[e]: channels x outputs
//   | |y: 2x2| |                                           |
//   | +-----+ |  <-----------------  M[e]: tiles x 64 outputs  <--'
//   +---------+   back, and stored
//
// A work-group takes blocks of `block_tiles` tiles, whose V and M stay in its second cache; products
// of 4 tiles and 64 outputs are summed up in registers.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd(
    __global const float *w_memory,
    __global const float *x_memory,
    __global const float *packed,
    __global float *partial,
    __global float *y0_memory,
    __global const float *bias_memory,
    __global const float *x0_memory,
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
    const int parts_ahead,
    const int part_ahead,
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
            const int wide = run * 4 + 1;
            for (int block = 0; block < channel_blocks; ++block) {
                // The last block of channels ends with the last channel.
                const int channel = min(block * 16, channels - 16);
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
                // Down the columns: what neighbouring tiles share is transformed once.
                for (int c = 0; c < wide; ++c) {
                    const int x_c = left + c;
                    if ((uint)x_c >= (uint)x_columns) {
                        vstore16((float16)0, 0 * line_pitch + c, lines);
                        vstore16((float16)0, 1 * line_pitch + c, lines);
                        vstore16((float16)0, 2 * line_pitch + c, lines);
                        vstore16((float16)0, 3 * line_pitch + c, lines);
                        vstore16((float16)0, 4 * line_pitch + c, lines);
                        continue;
                    }
                    const index_t at = x_c * x_column;
                    const float16 d0 = inside_0 ? vload16(0, x_memory + x_0 + at) : (float16)0;
                    const float16 d1 = inside_1 ? vload16(0, x_memory + x_1 + at) : (float16)0;
                    const float16 d2 = inside_2 ? vload16(0, x_memory + x_2 + at) : (float16)0;
                    const float16 d3 = inside_3 ? vload16(0, x_memory + x_3 + at) : (float16)0;
                    const float16 d4 = inside_4 ? vload16(0, x_memory + x_4 + at) : (float16)0;
                    const float16 v0 = d2 - d0;
                    const float16 v1 = d2;
                    const float16 v2 = d4 - d2;
                    const float16 v3 = d1;
                    const float16 v4 = d3;
                    vstore16(v0, 0 * line_pitch + c, lines);
                    vstore16(v1, 1 * line_pitch + c, lines);
                    vstore16(v2, 2 * line_pitch + c, lines);
                    vstore16(v3, 3 * line_pitch + c, lines);
                    vstore16(v4, 4 * line_pitch + c, lines);
                }
                // Along the rows of every tile.
                int row = (int)(tile - tile_first) / 4;
                int part = (int)(tile - tile_first) - row * 4;
                for (int t = 0; t < run; ++t) {
                    __global float *to = V + ((index_t)row * channel_blocks + block) * 64 + part * 16;
                    for (int i = 0; i < 5; ++i) {
                        __local const float *line = lines + (i * line_pitch + t * 4) * 16;
                        const float16 d0 = vload16(0, line);
                        const float16 d1 = vload16(1, line);
                        const float16 d2 = vload16(2, line);
                        const float16 d3 = vload16(3, line);
                        const float16 d4 = vload16(4, line);
                        const float16 v0 = d2 - d0;
                        const float16 v1 = d2;
                        const float16 v2 = d4 - d2;
                        const float16 v3 = d1;
                        const float16 v4 = d3;
                        vstore16(v0, 0, to + 0 * v_element);
                        vstore16(v1, 0, to + 1 * v_element);
                        vstore16(v2, 0, to + 2 * v_element);
                        vstore16(v3, 0, to + 3 * v_element);
                        vstore16(v4, 0, to + 4 * v_element);
                        to += 5 * v_element;
                    }
                    if (++part == 4) {
                        part = 0;
                        ++row;
                    }
                }
            }
            tile += run;
        }

        const int tile_groups = (tile_last - tile_first + 3) / 4;
        for (index_t strip = 0; strip < strips; ++strip) {
            __global const float *weights = packed + (group * strips + strip) * u_strip;
            for (int n = 0; n < 25; ++n)
                for (int some_tiles = 0; some_tiles < tile_groups; ++some_tiles) {
                    const int e = order[n];
                    __global const float *a = V + e * v_element + (index_t)some_tiles * channel_blocks * 64;
                    __global const float *b = weights + takes[e] * u_element;
                    __global float *to = M + e * m_element + some_tiles * 256;
                    __global const float *next = b + (channels * 4 + some_tiles * channel_blocks * 32) * 16;
                    const int item = (strip * 25 + e) * tile_groups + some_tiles;
                    const int item_line = item / parts_ahead;
                    const index_t item_tile = tile_last + item_line / 4;
                    const index_t item_above = item_tile / tile_columns;
                    const index_t item_image = item_above / tile_lines;
                    // Of the rows those that the tiles above have not read.
                    const int item_row = (item_above - item_image * tile_lines) * 4 - rows_before + 1 + item_line % 4;
                    const index_t item_at = item_image * x_image + item_row * x_row + (item_tile - item_above * tile_columns) * 4 * x_column + (item - item_line * parts_ahead) * part_ahead;
                    __global const float *pixels = x_memory + (item_tile < tiles && (uint)item_row < (uint)x_rows ? x_start + group * x_group + item_at : x_start);

                    for (int first = 0; first < channels; first += 64) {
                        float16 sum[4][4];
                        #pragma unroll
                        for (int j = 0; j < 4; ++j)
                            #pragma unroll
                            for (int v = 0; v < 4; ++v)
                                sum[j][v] = 0;
                        for (int left = min((int)channels - first, 64); left > 0; left -= 16) {
                            // A part of what comes next.
                            #pragma unroll
                            for (int n = 0; n < 32; ++n, next += 16)
                                prefetch_line(next);
                            #pragma unroll
                            for (int n = 0; n < 3; ++n, pixels += 64 / sizeof(*pixels))
                                prefetch_line(pixels);
                            if (left >= 16) {
                                #pragma unroll 4
                                for (int k = 0; k < 16; ++k) {
                                    float16 row[4];
                                    #pragma unroll
                                    for (int v = 0; v < 4; ++v)
                                        row[v] = vload16(v, b);
                                    #pragma unroll
                                    for (int j = 0; j < 4; ++j) {
                                        const float16 factor = a[j * 16 + k];
                                        #pragma unroll
                                        for (int v = 0; v < 4; ++v)
                                            sum[j][v] = factor * row[v] + sum[j][v];
                                    }
                                    b += 64;
                                }
                            } else {
                                for (int k = 16 - left; k < 16; ++k) {
                                    float16 row[4];
                                    #pragma unroll
                                    for (int v = 0; v < 4; ++v)
                                        row[v] = vload16(v, b);
                                    #pragma unroll
                                    for (int j = 0; j < 4; ++j) {
                                        const float16 factor = a[j * 16 + k];
                                        #pragma unroll
                                        for (int v = 0; v < 4; ++v)
                                            sum[j][v] = factor * row[v] + sum[j][v];
                                    }
                                    b += 64;
                                }
                            }
                            a += 64;
                        }
                        // Sums of earlier channels are added once, so that errors do not grow with their number.
                        #pragma unroll
                        for (int j = 0; j < 4; ++j)
                            #pragma unroll
                            for (int v = 0; v < 4; ++v) {
                                if (first > 0)
                                    sum[j][v] += vload16(v, to + j * 64);
                                vstore16(sum[j][v], v, to + j * 64);
                            }
                    }

                }

            for (index_t tile = tile_first; tile < tile_last;) {
                const index_t above = tile / tile_columns;
                const int tile_column = tile - above * tile_columns;
                const index_t image = above / tile_lines;
                const int tile_line = above - image * tile_lines;
                const int run = 1;
                const int rows_left = min(run * 2, (int)y_columns - tile_column * 2);
                const int lines_left = min(2, (int)y_rows - tile_line * 2);
                const index_t y0_tile = y0_start + group * y0_group + image * y0_0 + tile_line * 2 * y0_1 + tile_column * 2 * y0_2;
                const index_t bias_tile = bias_start + group * bias_group;
                const index_t x0_tile = x0_start + group * x0_group + image * x0_0 + tile_line * 2 * x0_1 + tile_column * 2 * x0_2;
                for (index_t other = strip * 4; other < min((strip + 1) * 4, output_vectors); ++other) {
                    // What one tile, or a run of them, becomes.
                    float tile_out[64];
                    const index_t column = other * 16;
                    const int columns_left = min((index_t)16, outputs - column);
                    __global const float *from = M + (tile - tile_first) * 64 + (other - strip * 4) * 16;
                    // Where the next tile goes is on its way while this one is computed.
                    for (int i = 0; i < lines_left; ++i)
                        #pragma unroll
                        for (int j = 0; j < 2; ++j)
                            prefetch_store(y0_memory + y0_tile + i * y0_1 + (j + 2) * y0_2 + column * y0_channel);
                    float16 z0_0;
                    float16 z1_0;
                    {
                        const float16 p0 = vload16(0, from + 0 * m_element);
                        const float16 p1 = vload16(0, from + 5 * m_element);
                        const float16 p2 = vload16(0, from + 10 * m_element);
                        const float16 p3 = vload16(0, from + 15 * m_element);
                        const float16 p4 = vload16(0, from + 20 * m_element);
                        const float16 r0 = p0 + p1 + p3;
                        const float16 r1 = p1 + p2 + p4;
                        z0_0 = r0;
                        z1_0 = r1;
                    }
                    float16 z0_1;
                    float16 z1_1;
                    {
                        const float16 p0 = vload16(0, from + 1 * m_element);
                        const float16 p1 = vload16(0, from + 6 * m_element);
                        const float16 p2 = vload16(0, from + 11 * m_element);
                        const float16 p3 = vload16(0, from + 16 * m_element);
                        const float16 p4 = vload16(0, from + 21 * m_element);
                        const float16 r0 = p0 + p1 + p3;
                        const float16 r1 = p1 + p2 + p4;
                        z0_1 = r0;
                        z1_1 = r1;
                    }
                    float16 z0_2;
                    float16 z1_2;
                    {
                        const float16 p0 = vload16(0, from + 2 * m_element);
                        const float16 p1 = vload16(0, from + 7 * m_element);
                        const float16 p2 = vload16(0, from + 12 * m_element);
                        const float16 p3 = vload16(0, from + 17 * m_element);
                        const float16 p4 = vload16(0, from + 22 * m_element);
                        const float16 r0 = p0 + p1 + p3;
                        const float16 r1 = p1 + p2 + p4;
                        z0_2 = r0;
                        z1_2 = r1;
                    }
                    float16 z0_3;
                    float16 z1_3;
                    {
                        const float16 p0 = vload16(0, from + 3 * m_element);
                        const float16 p1 = vload16(0, from + 8 * m_element);
                        const float16 p2 = vload16(0, from + 13 * m_element);
                        const float16 p3 = vload16(0, from + 18 * m_element);
                        const float16 p4 = vload16(0, from + 23 * m_element);
                        const float16 r0 = p0 + p1 + p3;
                        const float16 r1 = p1 + p2 + p4;
                        z0_3 = r0;
                        z1_3 = r1;
                    }
                    float16 z0_4;
                    float16 z1_4;
                    {
                        const float16 p0 = vload16(0, from + 4 * m_element);
                        const float16 p1 = vload16(0, from + 9 * m_element);
                        const float16 p2 = vload16(0, from + 14 * m_element);
                        const float16 p3 = vload16(0, from + 19 * m_element);
                        const float16 p4 = vload16(0, from + 24 * m_element);
                        const float16 r0 = p0 + p1 + p3;
                        const float16 r1 = p1 + p2 + p4;
                        z0_4 = r0;
                        z1_4 = r1;
                    }
                    {
                        const float16 p0 = z0_0;
                        const float16 p1 = z0_1;
                        const float16 p2 = z0_2;
                        const float16 p3 = z0_3;
                        const float16 p4 = z0_4;
                        const float16 r0 = p0 + p1 + p3;
                        const float16 r1 = p1 + p2 + p4;
                        vstore16(r0, 0, tile_out);
                        vstore16(r1, 1, tile_out);
                    }
                    {
                        const float16 p0 = z1_0;
                        const float16 p1 = z1_1;
                        const float16 p2 = z1_2;
                        const float16 p3 = z1_3;
                        const float16 p4 = z1_4;
                        const float16 r0 = p0 + p1 + p3;
                        const float16 r1 = p1 + p2 + p4;
                        vstore16(r0, 2, tile_out);
                        vstore16(r1, 3, tile_out);
                    }

                    int16 lost = 0;
                    for (int i = 0; i < 2; ++i)
                        for (int j = 0; j < run * 2; ++j)
                            lost |= isfinite(vload16(i * 2 + j, tile_out)) == 0;
                    if (any(lost)) {
                        const index_t x_at = x_start + group * x_group + image * x_image;
                        const index_t row = tile_line * 4, line = tile_column * 4;
                        for (int i = 0; i < lines_left; ++i)
                            for (int j = 0; j < rows_left; ++j)
                                for (int c = 0; c < columns_left; ++c) {
                                    const int at = (i * 2 + j) * 16 + c;
                                    if (!isfinite(tile_out[at]))
                                        tile_out[at] = sum_of_products(
                                            x_memory, x_at, row + i * 2 - rows_before, line + j * 2 - columns_before, x_rows, x_columns, x_row, x_column, x_channel,
                                            w_memory, w_start + group * w_group + (column + c) * w_output, w_rows, w_columns, w_row, w_column, w_channel, channels);
                                }
                    }
                    for (int i = 0; i < lines_left; ++i) {
                        const index_t y0_line = y0_tile + i * y0_1;
                        const index_t bias_line = bias_tile;
                        const index_t x0_line = x0_tile + i * x0_1;
                        float16 sum[2][1];
                        #pragma unroll
                        for (int j = 0; j < 2; ++j)
                            sum[j][0] = vload16(i * 2 + j, tile_out);
                        if (columns_left >= 16) {
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                if (j < rows_left) {
                                    #pragma unroll
                                    for (int v = 0; v < 1; ++v) {
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
#line 445 "kernel"
                                        }
                                        vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                                    }
                                }
                            continue;
                        }
                        // At the edges, and where columns do not lie side by side: element by element.
                        float elements[32];
                        #pragma unroll
                        for (int j = 0; j < 2; ++j)
                            #pragma unroll
                            for (int v = 0; v < 1; ++v)
                                vstore16(sum[j][v], j * 1 + v, elements);
                        for (int j = 0; j < rows_left; ++j) {
                            int c = 0;
                            for (; c + 16 <= columns_left; c += 16) {
                                float16 y0 = vload16(0, elements + j * 16 + c);
                                typedef float16 typeof_bias;
                                const typeof_bias bias = vload16(0, bias_memory + bias_line + (column + c) * bias_channel);
                                typedef float16 typeof_x0;
                                const typeof_x0 x0 = vload16(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                                y0 += bias;
                                typedef float16 typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 += x0;
#line 472 "kernel"
                                }
                                vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                            }
                            for (; c < columns_left; ++c) {
                                float y0 = elements[j * 16 + c];
                                typedef float typeof_bias;
                                const typeof_bias bias = (float)bias_memory[bias_line + (column + c) * bias_channel];
                                typedef float typeof_x0;
                                const typeof_x0 x0 = (float)x0_memory[x0_line + j * x0_2 + (column + c) * x0_channel];
                                y0 += bias;
                                typedef float typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 += x0;
#line 487 "kernel"
                                }
                                y0_memory[y0_line + j * y0_2 + (column + c) * y0_channel] = y0;
                            }
                        }

                    }
                }
                tile += run;
            }

        }
    }
}
