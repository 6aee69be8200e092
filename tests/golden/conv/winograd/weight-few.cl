typedef int index_t;

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

// Winograd's gradient in the weight, F(3 x 3, 2 x 2), but for the last step: a worker transforms
// some tiles of both images, multiplies them, adds that to its products, and goes on to the next.
// Tiles and products stay in its second cache. weight_product.cl.jinja has the picture,
// weight_finish.cl.jinja adds up the workers' products.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_weight_winograd_fused(
    __global const float *inputs_memory,
    __global const float *gradients_memory,
    __global float *transformed,
    __global float *products,
    const int inputs_x_start,
    const int inputs_x_group,
    const int inputs_x_image,
    const int inputs_x_row,
    const int inputs_x_channel,
    const int inputs_x_size,
    const int inputs_x_column,
    const int inputs_x_rows,
    const int inputs_x_columns,
    const int inputs_rows_before,
    const int inputs_columns_before,
    const int inputs_channels,
    const int inputs_channel_blocks,
    const int inputs_tile_lines,
    const int inputs_tile_columns,
    const int inputs_longest_run,
    const int inputs_line_pitch,
    const int inputs_v_element,
    const int inputs_v_block,
    const int gradients_x_start,
    const int gradients_x_group,
    const int gradients_x_image,
    const int gradients_x_row,
    const int gradients_x_channel,
    const int gradients_x_size,
    const int gradients_x_column,
    const int gradients_x_rows,
    const int gradients_x_columns,
    const int gradients_rows_before,
    const int gradients_columns_before,
    const int gradients_channels,
    const int gradients_channel_blocks,
    const int gradients_tile_lines,
    const int gradients_tile_columns,
    const int gradients_longest_run,
    const int gradients_line_pitch,
    const int gradients_v_element,
    const int gradients_v_block,
    const int lanes,
    const int lane_slots,
    const int factors,
    const int strips,
    const int blocks,
    const int blocks_a_part,
    const int slot_size,
    const int b_element,
    const int a_element,
    const int m_element,
    const int m_size,
    const int groups,
    const int tiles_all,
    const int tiles_a_block,
    const int slice,
    const int b_size)
{
    __local float lines[4096];
    const index_t worker = get_group_id(0), workers = get_num_groups(0);
    const index_t begin = tiles_all * worker / workers, end = tiles_all * (worker + 1) / workers;
    __global float *B = transformed + worker * slice, *A = B + b_size;
    const int strip_first = 0, strip_last = strips, block_first = 0, block_last = blocks;
    for (index_t group = 0; group < groups; ++group) {
        __global float *M = products + (worker * groups + group) * m_size;
        for (index_t first = begin; first < end; first += tiles_a_block) {
            const index_t last = min(first + tiles_a_block, end);
            {
                __global const float *x_memory = inputs_memory;
                const index_t x_start = inputs_x_start;
                const index_t x_group = inputs_x_group;
                const index_t x_image = inputs_x_image;
                const index_t x_row = inputs_x_row;
                const index_t x_channel = inputs_x_channel;
                const index_t x_size = inputs_x_size;
                const index_t x_column = inputs_x_column;
                const index_t x_rows = inputs_x_rows;
                const index_t x_columns = inputs_x_columns;
                const index_t rows_before = inputs_rows_before;
                const index_t columns_before = inputs_columns_before;
                const index_t channels = inputs_channels;
                const index_t channel_blocks = inputs_channel_blocks;
                const index_t tile_lines = inputs_tile_lines;
                const index_t tile_columns = inputs_tile_columns;
                const index_t longest_run = inputs_longest_run;
                const index_t line_pitch = inputs_line_pitch;
                const index_t v_element = inputs_v_element;
                const index_t v_block = inputs_v_block;
                __global float *V = B;
                for (index_t tile = first; tile < last;) {
                    // A run of tiles in a line of tiles.
                    const index_t above = tile / tile_columns;
                    const int tile_column = tile - above * tile_columns;
                    const index_t image = above / tile_lines;
                    const int run = min(min((int)(last - tile), tile_columns - tile_column), (int)longest_run);
                    const int top = (int)(above - image * tile_lines) * 2 - rows_before;
                    const int left = tile_column * 2 - columns_before;
                    const int wide = run * 2 + 2;
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
                        // Down the columns: what neighbouring tiles share is transformed once.
                        for (int c = 0; c < wide; ++c) {
                            const int x_c = left + c;
                            if ((uint)x_c >= (uint)x_columns) {
                                vstore16((float16)0, 0 * line_pitch + c, lines);
                                vstore16((float16)0, 1 * line_pitch + c, lines);
                                vstore16((float16)0, 2 * line_pitch + c, lines);
                                vstore16((float16)0, 3 * line_pitch + c, lines);
                                continue;
                            }
                            const index_t at = x_c * x_column;
                            const float16 d0 = inside_0 ? channels_of(x_memory, x_0 + at, channels, x_size) : (float16)0;
                            const float16 d1 = inside_1 ? channels_of(x_memory, x_1 + at, channels, x_size) : (float16)0;
                            const float16 d2 = inside_2 ? channels_of(x_memory, x_2 + at, channels, x_size) : (float16)0;
                            const float16 d3 = inside_3 ? channels_of(x_memory, x_3 + at, channels, x_size) : (float16)0;
                            const float16 v0 = d2 - d0;
                            const float16 v1 = d1 + d2;
                            const float16 v2 = d2 - d1;
                            const float16 v3 = d3 - d1;
                            vstore16(v0, 0 * line_pitch + c, lines);
                            vstore16(v1, 1 * line_pitch + c, lines);
                            vstore16(v2, 2 * line_pitch + c, lines);
                            vstore16(v3, 3 * line_pitch + c, lines);
                        }
                        // Along the rows of every tile.
                        __global float *slots = V + block * v_block + (tile - first) * 16;
                        for (int t = 0; t < run; ++t) {
                            __global float *to = slots + t * 16;
                            for (int i = 0; i < 4; ++i) {
                                __local const float *line = lines + (i * line_pitch + t * 2) * 16;
                                const float16 d0 = vload16(0, line);
                                const float16 d1 = vload16(1, line);
                                const float16 d2 = vload16(2, line);
                                const float16 d3 = vload16(3, line);
                                const float16 v0 = d2 - d0;
                                const float16 v1 = d1 + d2;
                                const float16 v2 = d2 - d1;
                                const float16 v3 = d3 - d1;
                                vstore16(v0, 0, to + 0 * v_element);
                                vstore16(v1, 0, to + 1 * v_element);
                                vstore16(v2, 0, to + 2 * v_element);
                                vstore16(v3, 0, to + 3 * v_element);
                                to += 4 * v_element;
                            }
                        }
                    }
                    tile += run;
                }

            }
            {
                __global const float *x_memory = gradients_memory;
                const index_t x_start = gradients_x_start;
                const index_t x_group = gradients_x_group;
                const index_t x_image = gradients_x_image;
                const index_t x_row = gradients_x_row;
                const index_t x_channel = gradients_x_channel;
                const index_t x_size = gradients_x_size;
                const index_t x_column = gradients_x_column;
                const index_t x_rows = gradients_x_rows;
                const index_t x_columns = gradients_x_columns;
                const index_t rows_before = gradients_rows_before;
                const index_t columns_before = gradients_columns_before;
                const index_t channels = gradients_channels;
                const index_t channel_blocks = gradients_channel_blocks;
                const index_t tile_lines = gradients_tile_lines;
                const index_t tile_columns = gradients_tile_columns;
                const index_t longest_run = gradients_longest_run;
                const index_t line_pitch = gradients_line_pitch;
                const index_t v_element = gradients_v_element;
                const index_t v_block = gradients_v_block;
                __global float *V = A;
                for (index_t tile = first; tile < last;) {
                    // A run of tiles in a line of tiles.
                    const index_t above = tile / tile_columns;
                    const int tile_column = tile - above * tile_columns;
                    const index_t image = above / tile_lines;
                    const int run = min(min((int)(last - tile), tile_columns - tile_column), (int)longest_run);
                    const int top = (int)(above - image * tile_lines) * 2 - rows_before;
                    const int left = tile_column * 2 - columns_before;
                    const int wide = run * 2 + 0;
                    for (int block = 0; block < channel_blocks; ++block) {
                        // The last block of channels ends with the last channel.
                        const int channel = 0;
                        const index_t x_at = x_start + group * x_group + image * x_image + channel * x_channel;
                        // Rows outside are not read: of another row, that is there, nothing is taken.
                        const bool inside_0 = (uint)(top + 0) < (uint)x_rows;
                        const index_t x_0 = x_at + (inside_0 ? top + 0 : 0) * x_row;
                        const bool inside_1 = (uint)(top + 1) < (uint)x_rows;
                        const index_t x_1 = x_at + (inside_1 ? top + 1 : 0) * x_row;
                        // Down the columns: what neighbouring tiles share is transformed once.
                        for (int c = 0; c < wide; ++c) {
                            const int x_c = left + c;
                            if ((uint)x_c >= (uint)x_columns) {
                                vstore16((float16)0, 0 * line_pitch + c, lines);
                                vstore16((float16)0, 1 * line_pitch + c, lines);
                                vstore16((float16)0, 2 * line_pitch + c, lines);
                                vstore16((float16)0, 3 * line_pitch + c, lines);
                                continue;
                            }
                            const index_t at = x_c * x_column;
                            const float16 d0 = inside_0 ? channels_of(x_memory, x_0 + at, channels, x_size) : (float16)0;
                            const float16 d1 = inside_1 ? channels_of(x_memory, x_1 + at, channels, x_size) : (float16)0;
                            const float16 v0 = -d0;
                            const float16 v1 = 0.5f * d1 + (0.5f * d0);
                            const float16 v2 = -0.5f * d1 + (0.5f * d0);
                            const float16 v3 = d1;
                            vstore16(v0, 0 * line_pitch + c, lines);
                            vstore16(v1, 1 * line_pitch + c, lines);
                            vstore16(v2, 2 * line_pitch + c, lines);
                            vstore16(v3, 3 * line_pitch + c, lines);
                        }
                        // Along the rows of every tile.
                        __global float *slots = V + block * v_block + (tile - first) * 16;
                        for (int t = 0; t < run; ++t) {
                            __global float *to = slots + t * 16;
                            for (int i = 0; i < 4; ++i) {
                                __local const float *line = lines + (i * line_pitch + t * 2) * 16;
                                const float16 d0 = vload16(0, line);
                                const float16 d1 = vload16(1, line);
                                const float16 v0 = -d0;
                                const float16 v1 = 0.5f * d1 + (0.5f * d0);
                                const float16 v2 = -0.5f * d1 + (0.5f * d0);
                                const float16 v3 = d1;
                                vstore16(v0, 0, to + 0 * v_element);
                                vstore16(v1, 0, to + 1 * v_element);
                                vstore16(v2, 0, to + 2 * v_element);
                                vstore16(v3, 0, to + 3 * v_element);
                                to += 4 * v_element;
                            }
                        }
                    }
                    tile += run;
                }

            }
            const int tiles = last - first;
            for (int e = 0; e < 16; ++e)
                for (int strip = strip_first; strip < strip_last; ++strip) {
                    // The last strip may have fewer vectors: the last one is multiplied again.
                    __global const float *b[1];
                    for (int v = 0; v < 1; ++v)
                        b[v] = B + e * b_element + min(strip * 1 + v, (int)lane_slots - 1) * slot_size;
                    for (int block = block_first; block < block_last; ++block) {
                        __global const float *a = A + e * a_element + block / 2 * slot_size + block % 2 * 8;
                        __global float *to = M + e * m_element + ((strip - strip_first) * blocks_a_part + block - block_first) * 128;
                        float16 sum[8][1];
                        #pragma unroll
                        for (int j = 0; j < 8; ++j)
                            #pragma unroll
                            for (int v = 0; v < 1; ++v)
                                sum[j][v] = 0;
                        #pragma unroll 4
                        for (int t = 0; t < (int)tiles; ++t) {
                            float16 row[1];
                            #pragma unroll
                            for (int v = 0; v < 1; ++v)
                                row[v] = vload16(t, b[v]);
                            #pragma unroll
                            for (int j = 0; j < 8; ++j) {
                                const float16 factor = a[t * 16 + j];
                                #pragma unroll
                                for (int v = 0; v < 1; ++v)
                                    sum[j][v] = factor * row[v] + sum[j][v];
                            }
                        }
                        // Sums of earlier tiles are added once, so that errors do not grow with their number.
                        #pragma unroll
                        for (int j = 0; j < 8; ++j)
                            #pragma unroll
                            for (int v = 0; v < 1; ++v) {
                                if (!(first == begin))
                                    sum[j][v] += vload16(v, to + j * 16);
                                vstore16(sum[j][v], v, to + j * 16);
                            }
                    }
                }

        }
    }
}
