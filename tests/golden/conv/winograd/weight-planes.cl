typedef int index_t;

static inline float8 pick0(const float8 a, const float8 b)
{
    return (float8)(a.s0, a.s2, a.s4, a.s6, b.s0, b.s2, b.s4, b.s6);
}
static inline float8 pick1(const float8 a, const float8 b)
{
    return (float8)(a.s1, a.s3, a.s5, a.s7, b.s1, b.s3, b.s5, b.s7);
}

// 8 neighbours at `at` where `inside` holds, else 0. At the ends of memory they are not all there.
__attribute__((always_inline)) static float8 columns_of(__global const float *x_memory, index_t at, int8 inside, bool whole, index_t x_size)
{
    if (whole)
        return select((float8)0, vload8(0, x_memory + at), inside);
    float elements[8];
    for (int e = 0; e < 8; ++e)
        elements[e] = at + e >= 0 && at + e < x_size ? (float)x_memory[at + e] : 0;
    return select((float8)0, vload8(0, elements), inside);
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
                        const int channel = min(block * 8, channels - 8);
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
                        float square[256];
                        for (int c = 0; c < wide; c += 8) {
                            // Down the columns, 8 of them side by side; then channels become neighbours.
                            const int from = left + c;
                            // From the first element to the last one of all rows and channels.
                            const index_t rows_reach = (x_rows - 1) * x_row, channels_reach = 7 * x_channel;
                            const bool whole = x_at + from + min(rows_reach, (index_t)0) + min(channels_reach, (index_t)0) >= 0
                                && x_at + from + 8 + max(rows_reach, (index_t)0) + max(channels_reach, (index_t)0) <= x_size;
                            const int8 column = (int8)(0, 1, 2, 3, 4, 5, 6, 7) + from;
                            const int8 there = column >= 0 && column < x_columns;
                            const int8 there_0 = inside_0 ? there : (int8)0;
                            const int8 there_1 = inside_1 ? there : (int8)0;
                            const int8 there_2 = inside_2 ? there : (int8)0;
                            const int8 there_3 = inside_3 ? there : (int8)0;
                            for (int k = 0; k < 8; ++k) {
                                const index_t at = k * x_channel + from;
                                const float8 d0 = columns_of(x_memory, x_0 + at, there_0, whole, x_size);
                                const float8 d1 = columns_of(x_memory, x_1 + at, there_1, whole, x_size);
                                const float8 d2 = columns_of(x_memory, x_2 + at, there_2, whole, x_size);
                                const float8 d3 = columns_of(x_memory, x_3 + at, there_3, whole, x_size);
                                const float8 v0 = d2 - d0;
                                const float8 v1 = d1 + d2;
                                const float8 v2 = d2 - d1;
                                const float8 v3 = d3 - d1;
                                vstore8(v0, 0 + k, square);
                                vstore8(v1, 8 + k, square);
                                vstore8(v2, 16 + k, square);
                                vstore8(v3, 24 + k, square);
                            }
                            for (int i = 0; i < 4; ++i) {
                                const float8 v0 = vload8(i * 8 + 0, square);
                                const float8 v1 = vload8(i * 8 + 1, square);
                                const float8 v2 = vload8(i * 8 + 2, square);
                                const float8 v3 = vload8(i * 8 + 3, square);
                                const float8 v4 = vload8(i * 8 + 4, square);
                                const float8 v5 = vload8(i * 8 + 5, square);
                                const float8 v6 = vload8(i * 8 + 6, square);
                                const float8 v7 = vload8(i * 8 + 7, square);
                                const float8 v8 = pick0(v0, v1);
                                const float8 v9 = pick1(v0, v1);
                                const float8 v10 = pick0(v2, v3);
                                const float8 v11 = pick1(v2, v3);
                                const float8 v12 = pick0(v4, v5);
                                const float8 v13 = pick1(v4, v5);
                                const float8 v14 = pick0(v6, v7);
                                const float8 v15 = pick1(v6, v7);
                                const float8 v16 = pick0(v8, v10);
                                const float8 v17 = pick1(v8, v10);
                                const float8 v18 = pick0(v12, v14);
                                const float8 v19 = pick1(v12, v14);
                                const float8 v20 = pick0(v9, v11);
                                const float8 v21 = pick1(v9, v11);
                                const float8 v22 = pick0(v13, v15);
                                const float8 v23 = pick1(v13, v15);
                                const float8 v24 = pick0(v16, v18);
                                const float8 v25 = pick1(v16, v18);
                                const float8 v26 = pick0(v20, v22);
                                const float8 v27 = pick1(v20, v22);
                                const float8 v28 = pick0(v17, v19);
                                const float8 v29 = pick1(v17, v19);
                                const float8 v30 = pick0(v21, v23);
                                const float8 v31 = pick1(v21, v23);

                                vstore8(v24, i * line_pitch + c + 0, lines);
                                vstore8(v26, i * line_pitch + c + 1, lines);
                                vstore8(v28, i * line_pitch + c + 2, lines);
                                vstore8(v30, i * line_pitch + c + 3, lines);
                                vstore8(v25, i * line_pitch + c + 4, lines);
                                vstore8(v27, i * line_pitch + c + 5, lines);
                                vstore8(v29, i * line_pitch + c + 6, lines);
                                vstore8(v31, i * line_pitch + c + 7, lines);
                            }
                        }
                        // Along the rows of every tile.
                        __global float *slots = V + block * v_block + (tile - first) * 8;
                        for (int t = 0; t < run; ++t) {
                            __global float *to = slots + t * 8;
                            for (int i = 0; i < 4; ++i) {
                                __local const float *line = lines + (i * line_pitch + t * 2) * 8;
                                const float8 d0 = vload8(0, line);
                                const float8 d1 = vload8(1, line);
                                const float8 d2 = vload8(2, line);
                                const float8 d3 = vload8(3, line);
                                const float8 v0 = d2 - d0;
                                const float8 v1 = d1 + d2;
                                const float8 v2 = d2 - d1;
                                const float8 v3 = d3 - d1;
                                vstore8(v0, 0, to + 0 * v_element);
                                vstore8(v1, 0, to + 1 * v_element);
                                vstore8(v2, 0, to + 2 * v_element);
                                vstore8(v3, 0, to + 3 * v_element);
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
                        const int channel = min(block * 8, channels - 8);
                        const index_t x_at = x_start + group * x_group + image * x_image + channel * x_channel;
                        // Rows outside are not read: of another row, that is there, nothing is taken.
                        const bool inside_0 = (uint)(top + 0) < (uint)x_rows;
                        const index_t x_0 = x_at + (inside_0 ? top + 0 : 0) * x_row;
                        const bool inside_1 = (uint)(top + 1) < (uint)x_rows;
                        const index_t x_1 = x_at + (inside_1 ? top + 1 : 0) * x_row;
                        float square[256];
                        for (int c = 0; c < wide; c += 8) {
                            // Down the columns, 8 of them side by side; then channels become neighbours.
                            const int from = left + c;
                            // From the first element to the last one of all rows and channels.
                            const index_t rows_reach = (x_rows - 1) * x_row, channels_reach = 7 * x_channel;
                            const bool whole = x_at + from + min(rows_reach, (index_t)0) + min(channels_reach, (index_t)0) >= 0
                                && x_at + from + 8 + max(rows_reach, (index_t)0) + max(channels_reach, (index_t)0) <= x_size;
                            const int8 column = (int8)(0, 1, 2, 3, 4, 5, 6, 7) + from;
                            const int8 there = column >= 0 && column < x_columns;
                            const int8 there_0 = inside_0 ? there : (int8)0;
                            const int8 there_1 = inside_1 ? there : (int8)0;
                            for (int k = 0; k < 8; ++k) {
                                const index_t at = k * x_channel + from;
                                const float8 d0 = columns_of(x_memory, x_0 + at, there_0, whole, x_size);
                                const float8 d1 = columns_of(x_memory, x_1 + at, there_1, whole, x_size);
                                const float8 v0 = -d0;
                                const float8 v1 = 0.5f * d1 + (0.5f * d0);
                                const float8 v2 = -0.5f * d1 + (0.5f * d0);
                                const float8 v3 = d1;
                                vstore8(v0, 0 + k, square);
                                vstore8(v1, 8 + k, square);
                                vstore8(v2, 16 + k, square);
                                vstore8(v3, 24 + k, square);
                            }
                            for (int i = 0; i < 4; ++i) {
                                const float8 v0 = vload8(i * 8 + 0, square);
                                const float8 v1 = vload8(i * 8 + 1, square);
                                const float8 v2 = vload8(i * 8 + 2, square);
                                const float8 v3 = vload8(i * 8 + 3, square);
                                const float8 v4 = vload8(i * 8 + 4, square);
                                const float8 v5 = vload8(i * 8 + 5, square);
                                const float8 v6 = vload8(i * 8 + 6, square);
                                const float8 v7 = vload8(i * 8 + 7, square);
                                const float8 v8 = pick0(v0, v1);
                                const float8 v9 = pick1(v0, v1);
                                const float8 v10 = pick0(v2, v3);
                                const float8 v11 = pick1(v2, v3);
                                const float8 v12 = pick0(v4, v5);
                                const float8 v13 = pick1(v4, v5);
                                const float8 v14 = pick0(v6, v7);
                                const float8 v15 = pick1(v6, v7);
                                const float8 v16 = pick0(v8, v10);
                                const float8 v17 = pick1(v8, v10);
                                const float8 v18 = pick0(v12, v14);
                                const float8 v19 = pick1(v12, v14);
                                const float8 v20 = pick0(v9, v11);
                                const float8 v21 = pick1(v9, v11);
                                const float8 v22 = pick0(v13, v15);
                                const float8 v23 = pick1(v13, v15);
                                const float8 v24 = pick0(v16, v18);
                                const float8 v25 = pick1(v16, v18);
                                const float8 v26 = pick0(v20, v22);
                                const float8 v27 = pick1(v20, v22);
                                const float8 v28 = pick0(v17, v19);
                                const float8 v29 = pick1(v17, v19);
                                const float8 v30 = pick0(v21, v23);
                                const float8 v31 = pick1(v21, v23);

                                vstore8(v24, i * line_pitch + c + 0, lines);
                                vstore8(v26, i * line_pitch + c + 1, lines);
                                vstore8(v28, i * line_pitch + c + 2, lines);
                                vstore8(v30, i * line_pitch + c + 3, lines);
                                vstore8(v25, i * line_pitch + c + 4, lines);
                                vstore8(v27, i * line_pitch + c + 5, lines);
                                vstore8(v29, i * line_pitch + c + 6, lines);
                                vstore8(v31, i * line_pitch + c + 7, lines);
                            }
                        }
                        // Along the rows of every tile.
                        __global float *slots = V + block * v_block + (tile - first) * 8;
                        for (int t = 0; t < run; ++t) {
                            __global float *to = slots + t * 8;
                            for (int i = 0; i < 4; ++i) {
                                __local const float *line = lines + (i * line_pitch + t * 2) * 8;
                                const float8 d0 = vload8(0, line);
                                const float8 d1 = vload8(1, line);
                                const float8 v0 = -d0;
                                const float8 v1 = 0.5f * d1 + (0.5f * d0);
                                const float8 v2 = -0.5f * d1 + (0.5f * d0);
                                const float8 v3 = d1;
                                vstore8(v0, 0, to + 0 * v_element);
                                vstore8(v1, 0, to + 1 * v_element);
                                vstore8(v2, 0, to + 2 * v_element);
                                vstore8(v3, 0, to + 3 * v_element);
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
                    __global const float *b[2];
                    for (int v = 0; v < 2; ++v)
                        b[v] = B + e * b_element + min(strip * 2 + v, (int)lane_slots - 1) * slot_size;
                    for (int block = block_first; block < block_last; ++block) {
                        __global const float *a = A + e * a_element + block / 2 * slot_size + block % 2 * 4;
                        __global float *to = M + e * m_element + ((strip - strip_first) * blocks_a_part + block - block_first) * 64;
                        float8 sum[4][2];
                        #pragma unroll
                        for (int j = 0; j < 4; ++j)
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = 0;
                        #pragma unroll 4
                        for (int t = 0; t < (int)tiles; ++t) {
                            float8 row[2];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                row[v] = vload8(t, b[v]);
                            #pragma unroll
                            for (int j = 0; j < 4; ++j) {
                                const float8 factor = a[t * 8 + j];
                                #pragma unroll
                                for (int v = 0; v < 2; ++v)
                                    sum[j][v] = factor * row[v] + sum[j][v];
                            }
                        }
                        // Sums of earlier tiles are added once, so that errors do not grow with their number.
                        #pragma unroll
                        for (int j = 0; j < 4; ++j)
                            #pragma unroll
                            for (int v = 0; v < 2; ++v) {
                                if (!(first == begin))
                                    sum[j][v] += vload8(v, to + j * 16);
                                vstore8(sum[j][v], v, to + j * 16);
                            }
                    }
                }

        }
    }
}
