typedef int index_t;

static inline float16 pick0(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s2, a.s4, a.s6, a.s8, a.sa, a.sc, a.se, b.s0, b.s2, b.s4, b.s6, b.s8, b.sa, b.sc, b.se);
}
static inline float16 pick1(const float16 a, const float16 b)
{
    return (float16)(a.s1, a.s3, a.s5, a.s7, a.s9, a.sb, a.sd, a.sf, b.s1, b.s3, b.s5, b.s7, b.s9, b.sb, b.sd, b.sf);
}

// 16 neighbours at `at` where `inside` holds, else 0. At the ends of memory they are not all there.
__attribute__((always_inline)) static float16 columns_of(__global const float *x_memory, index_t at, int16 inside, bool whole, index_t x_size)
{
    if (whole)
        return select((float16)0, vload16(0, x_memory + at), inside);
    float elements[16];
    for (int e = 0; e < 16; ++e)
        elements[e] = at + e >= 0 && at + e < x_size ? (float)x_memory[at + e] : 0;
    return select((float16)0, vload16(0, elements), inside);
}

// Winograd's gradient in the weight, F(3 x 3, 4 x 4), but for the last step: a worker transforms
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
                    const int top = (int)(above - image * tile_lines) * 4 - rows_before;
                    const int left = tile_column * 4 - columns_before;
                    const int wide = run * 4 + 2;
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
                        const bool inside_5 = (uint)(top + 5) < (uint)x_rows;
                        const index_t x_5 = x_at + (inside_5 ? top + 5 : 0) * x_row;
                        float square[1536];
                        for (int c = 0; c < wide; c += 16) {
                            // Down the columns, 16 of them side by side; then channels become neighbours.
                            const int from = left + c;
                            // From the first element to the last one of all rows and channels.
                            const index_t rows_reach = (x_rows - 1) * x_row, channels_reach = 15 * x_channel;
                            const bool whole = x_at + from + min(rows_reach, (index_t)0) + min(channels_reach, (index_t)0) >= 0
                                && x_at + from + 16 + max(rows_reach, (index_t)0) + max(channels_reach, (index_t)0) <= x_size;
                            const int16 column = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + from;
                            const int16 there = column >= 0 && column < x_columns;
                            const int16 there_0 = inside_0 ? there : (int16)0;
                            const int16 there_1 = inside_1 ? there : (int16)0;
                            const int16 there_2 = inside_2 ? there : (int16)0;
                            const int16 there_3 = inside_3 ? there : (int16)0;
                            const int16 there_4 = inside_4 ? there : (int16)0;
                            const int16 there_5 = inside_5 ? there : (int16)0;
                            for (int k = 0; k < 16; ++k) {
                                const index_t at = k * x_channel + from;
                                const float16 d0 = columns_of(x_memory, x_0 + at, there_0, whole, x_size);
                                const float16 d1 = columns_of(x_memory, x_1 + at, there_1, whole, x_size);
                                const float16 d2 = columns_of(x_memory, x_2 + at, there_2, whole, x_size);
                                const float16 d3 = columns_of(x_memory, x_3 + at, there_3, whole, x_size);
                                const float16 d4 = columns_of(x_memory, x_4 + at, there_4, whole, x_size);
                                const float16 d5 = columns_of(x_memory, x_5 + at, there_5, whole, x_size);
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
                                vstore16(v0, 0 + k, square);
                                vstore16(v1, 16 + k, square);
                                vstore16(v2, 32 + k, square);
                                vstore16(v3, 48 + k, square);
                                vstore16(v4, 64 + k, square);
                                vstore16(v5, 80 + k, square);
                            }
                            for (int i = 0; i < 6; ++i) {
                                const float16 v0 = vload16(i * 16 + 0, square);
                                const float16 v1 = vload16(i * 16 + 1, square);
                                const float16 v2 = vload16(i * 16 + 2, square);
                                const float16 v3 = vload16(i * 16 + 3, square);
                                const float16 v4 = vload16(i * 16 + 4, square);
                                const float16 v5 = vload16(i * 16 + 5, square);
                                const float16 v6 = vload16(i * 16 + 6, square);
                                const float16 v7 = vload16(i * 16 + 7, square);
                                const float16 v8 = vload16(i * 16 + 8, square);
                                const float16 v9 = vload16(i * 16 + 9, square);
                                const float16 v10 = vload16(i * 16 + 10, square);
                                const float16 v11 = vload16(i * 16 + 11, square);
                                const float16 v12 = vload16(i * 16 + 12, square);
                                const float16 v13 = vload16(i * 16 + 13, square);
                                const float16 v14 = vload16(i * 16 + 14, square);
                                const float16 v15 = vload16(i * 16 + 15, square);
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

                                vstore16(v64, i * line_pitch + c + 0, lines);
                                vstore16(v66, i * line_pitch + c + 1, lines);
                                vstore16(v68, i * line_pitch + c + 2, lines);
                                vstore16(v70, i * line_pitch + c + 3, lines);
                                vstore16(v72, i * line_pitch + c + 4, lines);
                                vstore16(v74, i * line_pitch + c + 5, lines);
                                vstore16(v76, i * line_pitch + c + 6, lines);
                                vstore16(v78, i * line_pitch + c + 7, lines);
                                vstore16(v65, i * line_pitch + c + 8, lines);
                                vstore16(v67, i * line_pitch + c + 9, lines);
                                vstore16(v69, i * line_pitch + c + 10, lines);
                                vstore16(v71, i * line_pitch + c + 11, lines);
                                vstore16(v73, i * line_pitch + c + 12, lines);
                                vstore16(v75, i * line_pitch + c + 13, lines);
                                vstore16(v77, i * line_pitch + c + 14, lines);
                                vstore16(v79, i * line_pitch + c + 15, lines);
                            }
                        }
                        // Along the rows of every tile.
                        __global float *slots = V + block * v_block + (tile - first) * 16;
                        for (int t = 0; t < run; ++t) {
                            __global float *to = slots + t * 16;
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
                    const int top = (int)(above - image * tile_lines) * 4 - rows_before;
                    const int left = tile_column * 4 - columns_before;
                    const int wide = run * 4 + 0;
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
                        float square[1536];
                        for (int c = 0; c < wide; c += 16) {
                            // Down the columns, 16 of them side by side; then channels become neighbours.
                            const int from = left + c;
                            // From the first element to the last one of all rows and channels.
                            const index_t rows_reach = (x_rows - 1) * x_row, channels_reach = 15 * x_channel;
                            const bool whole = x_at + from + min(rows_reach, (index_t)0) + min(channels_reach, (index_t)0) >= 0
                                && x_at + from + 16 + max(rows_reach, (index_t)0) + max(channels_reach, (index_t)0) <= x_size;
                            const int16 column = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + from;
                            const int16 there = column >= 0 && column < x_columns;
                            const int16 there_0 = inside_0 ? there : (int16)0;
                            const int16 there_1 = inside_1 ? there : (int16)0;
                            const int16 there_2 = inside_2 ? there : (int16)0;
                            const int16 there_3 = inside_3 ? there : (int16)0;
                            for (int k = 0; k < 16; ++k) {
                                const index_t at = k * x_channel + from;
                                const float16 d0 = columns_of(x_memory, x_0 + at, there_0, whole, x_size);
                                const float16 d1 = columns_of(x_memory, x_1 + at, there_1, whole, x_size);
                                const float16 d2 = columns_of(x_memory, x_2 + at, there_2, whole, x_size);
                                const float16 d3 = columns_of(x_memory, x_3 + at, there_3, whole, x_size);
                                const float16 d_e1 = 2.56f * d0 + d2;
                                const float16 d_o1 = 2.56f * d1 + d3;
                                const float16 v1 = -0.16806723f * d_o1 + (-0.26890758f * d_e1);
                                const float16 v2 = -0.26890758f * d_e1 + (0.16806723f * d_o1);
                                const float16 d_e3 = 0.44444445f * d0 + d2;
                                const float16 d_o3 = 0.44444445f * d1 + d3;
                                const float16 v3 = 0.40336135f * d_o3 + (0.26890758f * d_e3);
                                const float16 v4 = -0.40336135f * d_o3 + (0.26890758f * d_e3);
                                const float16 v0 = 1.1377778f * d0;
                                const float16 v5 = d3;
                                vstore16(v0, 0 + k, square);
                                vstore16(v1, 16 + k, square);
                                vstore16(v2, 32 + k, square);
                                vstore16(v3, 48 + k, square);
                                vstore16(v4, 64 + k, square);
                                vstore16(v5, 80 + k, square);
                            }
                            for (int i = 0; i < 6; ++i) {
                                const float16 v0 = vload16(i * 16 + 0, square);
                                const float16 v1 = vload16(i * 16 + 1, square);
                                const float16 v2 = vload16(i * 16 + 2, square);
                                const float16 v3 = vload16(i * 16 + 3, square);
                                const float16 v4 = vload16(i * 16 + 4, square);
                                const float16 v5 = vload16(i * 16 + 5, square);
                                const float16 v6 = vload16(i * 16 + 6, square);
                                const float16 v7 = vload16(i * 16 + 7, square);
                                const float16 v8 = vload16(i * 16 + 8, square);
                                const float16 v9 = vload16(i * 16 + 9, square);
                                const float16 v10 = vload16(i * 16 + 10, square);
                                const float16 v11 = vload16(i * 16 + 11, square);
                                const float16 v12 = vload16(i * 16 + 12, square);
                                const float16 v13 = vload16(i * 16 + 13, square);
                                const float16 v14 = vload16(i * 16 + 14, square);
                                const float16 v15 = vload16(i * 16 + 15, square);
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

                                vstore16(v64, i * line_pitch + c + 0, lines);
                                vstore16(v66, i * line_pitch + c + 1, lines);
                                vstore16(v68, i * line_pitch + c + 2, lines);
                                vstore16(v70, i * line_pitch + c + 3, lines);
                                vstore16(v72, i * line_pitch + c + 4, lines);
                                vstore16(v74, i * line_pitch + c + 5, lines);
                                vstore16(v76, i * line_pitch + c + 6, lines);
                                vstore16(v78, i * line_pitch + c + 7, lines);
                                vstore16(v65, i * line_pitch + c + 8, lines);
                                vstore16(v67, i * line_pitch + c + 9, lines);
                                vstore16(v69, i * line_pitch + c + 10, lines);
                                vstore16(v71, i * line_pitch + c + 11, lines);
                                vstore16(v73, i * line_pitch + c + 12, lines);
                                vstore16(v75, i * line_pitch + c + 13, lines);
                                vstore16(v77, i * line_pitch + c + 14, lines);
                                vstore16(v79, i * line_pitch + c + 15, lines);
                            }
                        }
                        // Along the rows of every tile.
                        __global float *slots = V + block * v_block + (tile - first) * 16;
                        for (int t = 0; t < run; ++t) {
                            __global float *to = slots + t * 16;
                            for (int i = 0; i < 6; ++i) {
                                __local const float *line = lines + (i * line_pitch + t * 4) * 16;
                                const float16 d0 = vload16(0, line);
                                const float16 d1 = vload16(1, line);
                                const float16 d2 = vload16(2, line);
                                const float16 d3 = vload16(3, line);
                                const float16 d_e1 = 2.56f * d0 + d2;
                                const float16 d_o1 = 2.56f * d1 + d3;
                                const float16 v1 = -0.16806723f * d_o1 + (-0.26890758f * d_e1);
                                const float16 v2 = -0.26890758f * d_e1 + (0.16806723f * d_o1);
                                const float16 d_e3 = 0.44444445f * d0 + d2;
                                const float16 d_o3 = 0.44444445f * d1 + d3;
                                const float16 v3 = 0.40336135f * d_o3 + (0.26890758f * d_e3);
                                const float16 v4 = -0.40336135f * d_o3 + (0.26890758f * d_e3);
                                const float16 v0 = 1.1377778f * d0;
                                const float16 v5 = d3;
                                vstore16(v0, 0, to + 0 * v_element);
                                vstore16(v1, 0, to + 1 * v_element);
                                vstore16(v2, 0, to + 2 * v_element);
                                vstore16(v3, 0, to + 3 * v_element);
                                vstore16(v4, 0, to + 4 * v_element);
                                vstore16(v5, 0, to + 5 * v_element);
                                to += 6 * v_element;
                            }
                        }
                    }
                    tile += run;
                }

            }
            const int tiles = last - first;
            for (int e = 0; e < 36; ++e)
                for (int strip = strip_first; strip < strip_last; ++strip) {
                    // The last strip may have fewer vectors: the last one is multiplied again.
                    __global const float *b[2];
                    for (int v = 0; v < 2; ++v)
                        b[v] = B + e * b_element + min(strip * 2 + v, (int)lane_slots - 1) * slot_size;
                    for (int block = block_first; block < block_last; ++block) {
                        __global const float *a = A + e * a_element + block / 2 * slot_size + block % 2 * 8;
                        __global float *to = M + e * m_element + ((strip - strip_first) * blocks_a_part + block - block_first) * 256;
                        float16 sum[8][2];
                        #pragma unroll
                        for (int j = 0; j < 8; ++j)
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = 0;
                        #pragma unroll 4
                        for (int t = 0; t < (int)tiles; ++t) {
                            float16 row[2];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                row[v] = vload16(t, b[v]);
                            #pragma unroll
                            for (int j = 0; j < 8; ++j) {
                                const float16 factor = a[t * 16 + j];
                                #pragma unroll
                                for (int v = 0; v < 2; ++v)
                                    sum[j][v] = factor * row[v] + sum[j][v];
                            }
                        }
                        // Sums of earlier tiles are added once, so that errors do not grow with their number.
                        #pragma unroll
                        for (int j = 0; j < 8; ++j)
                            #pragma unroll
                            for (int v = 0; v < 2; ++v) {
                                if (!(first == begin))
                                    sum[j][v] += vload16(v, to + j * 32);
                                vstore16(sum[j][v], v, to + j * 32);
                            }
                    }
                }

        }
    }
}
