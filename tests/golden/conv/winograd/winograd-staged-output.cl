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

// Winograd's convolution, the last of three kernels: transforms products back and stores them. A
// work-group takes some tiles, all outputs.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd_output(
    __global const float *w_memory,
    __global const float *x_memory,
    __global const float *partial,
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
    const int tile_begin,
    const int tile_end,
    const int m_group,
    const int m_strip,
    const int tiles_a_part,
    const int strips,
    const int strips_a_part,
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
    const index_t group = get_group_id(2);
    const index_t tile_first = tile_begin + (index_t)get_group_id(0) * tiles_a_part;
    const index_t tile_last = min(tile_first + tiles_a_part, tile_end);
    const index_t strip_last = min(((index_t)get_group_id(1) + 1) * strips_a_part, strips);
    for (index_t strip = (index_t)get_group_id(1) * strips_a_part; strip < strip_last; ++strip) {
        __global const float *M = partial + group * m_group + strip * m_strip;

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
                __global const float *from = M + (tile - tile_begin) * 64 + (other - strip * 4) * 16;
                // Where the next tile goes is on its way while this one is computed.
                for (int i = 0; i < lines_left; ++i)
                    #pragma unroll
                    for (int j = 0; j < 2; ++j)
                        prefetch_store(y0_memory + y0_tile + i * y0_1 + (j + 2) * y0_2 + column * y0_channel);
                float16 z0_0;
                float16 z1_0;
                {
                    const float16 p0 = vload16(0, from + 0 * m_element);
                    const float16 p1 = vload16(0, from + 4 * m_element);
                    const float16 p2 = vload16(0, from + 8 * m_element);
                    const float16 p3 = vload16(0, from + 12 * m_element);
                    const float16 r0 = p0 + p1 + p2;
                    const float16 r1 = p1 + p3 - p2;
                    z0_0 = r0;
                    z1_0 = r1;
                }
                float16 z0_1;
                float16 z1_1;
                {
                    const float16 p0 = vload16(0, from + 1 * m_element);
                    const float16 p1 = vload16(0, from + 5 * m_element);
                    const float16 p2 = vload16(0, from + 9 * m_element);
                    const float16 p3 = vload16(0, from + 13 * m_element);
                    const float16 r0 = p0 + p1 + p2;
                    const float16 r1 = p1 + p3 - p2;
                    z0_1 = r0;
                    z1_1 = r1;
                }
                float16 z0_2;
                float16 z1_2;
                {
                    const float16 p0 = vload16(0, from + 2 * m_element);
                    const float16 p1 = vload16(0, from + 6 * m_element);
                    const float16 p2 = vload16(0, from + 10 * m_element);
                    const float16 p3 = vload16(0, from + 14 * m_element);
                    const float16 r0 = p0 + p1 + p2;
                    const float16 r1 = p1 + p3 - p2;
                    z0_2 = r0;
                    z1_2 = r1;
                }
                float16 z0_3;
                float16 z1_3;
                {
                    const float16 p0 = vload16(0, from + 3 * m_element);
                    const float16 p1 = vload16(0, from + 7 * m_element);
                    const float16 p2 = vload16(0, from + 11 * m_element);
                    const float16 p3 = vload16(0, from + 15 * m_element);
                    const float16 r0 = p0 + p1 + p2;
                    const float16 r1 = p1 + p3 - p2;
                    z0_3 = r0;
                    z1_3 = r1;
                }
                {
                    const float16 p0 = z0_0;
                    const float16 p1 = z0_1;
                    const float16 p2 = z0_2;
                    const float16 p3 = z0_3;
                    const float16 r0 = p0 + p1 + p2;
                    const float16 r1 = p1 + p3 - p2;
                    vstore16(r0, 0, tile_out);
                    vstore16(r1, 1, tile_out);
                }
                {
                    const float16 p0 = z1_0;
                    const float16 p1 = z1_1;
                    const float16 p2 = z1_2;
                    const float16 p3 = z1_3;
                    const float16 r0 = p0 + p1 + p2;
                    const float16 r1 = p1 + p3 - p2;
                    vstore16(r0, 2, tile_out);
                    vstore16(r1, 3, tile_out);
                }

                int16 lost = 0;
                for (int i = 0; i < 2; ++i)
                    for (int j = 0; j < run * 2; ++j)
                        lost |= isfinite(vload16(i * 2 + j, tile_out)) == 0;
                if (any(lost)) {
                    const index_t x_at = x_start + group * x_group + image * x_image;
                    const index_t row = tile_line * 2, line = tile_column * 2;
                    for (int i = 0; i < lines_left; ++i)
                        for (int j = 0; j < rows_left; ++j)
                            for (int c = 0; c < columns_left; ++c) {
                                const int at = (i * 2 + j) * 16 + c;
                                if (!isfinite(tile_out[at]))
                                    tile_out[at] = sum_of_products(
                                        x_memory, x_at, row + i * 1 - rows_before, line + j * 1 - columns_before, x_rows, x_columns, x_row, x_column, x_channel,
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
#line 239 "kernel"
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
#line 266 "kernel"
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
#line 281 "kernel"
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
