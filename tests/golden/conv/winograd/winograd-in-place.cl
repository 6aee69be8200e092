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
static inline float16 pick0(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s2, a.s4, a.s6, a.s8, a.sa, a.sc, a.se, b.s0, b.s2, b.s4, b.s6, b.s8, b.sa, b.sc, b.se);
}
static inline float16 pick1(const float16 a, const float16 b)
{
    return (float16)(a.s1, a.s3, a.s5, a.s7, a.s9, a.sb, a.sd, a.sf, b.s1, b.s3, b.s5, b.s7, b.s9, b.sb, b.sd, b.sf);
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

// Winograd's convolution, the second of two kernels. A work-group takes strips of 64 outputs, and
// some tiles: transforms some channels of their weights, multiplies, and so on until all channels
// are added up; then transforms back and stores. Weights and products stay in its second cache.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd_in_place(
    __global const float *w_memory,
    __global const float *x_memory,
    __global const float *transformed,
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
    const int tile_begin,
    const int tile_end,
    const int chunk_tiles,
    const int chunks,
    const int strips,
    const int groups,
    const int channels_a_part,
    const int u_element,
    const int u_size,
    const int v_group,
    const int slice,
    const int w_end,
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
    __global float *U = partial + (index_t)get_group_id(0) * slice;
    __global float *M = U + u_size;
    const index_t all = groups * strips * chunks;
    const index_t begin = all * (index_t)get_group_id(0) / (index_t)get_num_groups(0);
    const index_t end = all * ((index_t)get_group_id(0) + 1) / (index_t)get_num_groups(0);
    for (index_t item = begin; item < end; ++item) {
        const index_t group = item / (strips * chunks);
        const index_t strip = item / chunks % strips;
        const index_t tile_first = tile_begin + item % chunks * chunk_tiles;
        const index_t tile_last = min(tile_first + chunk_tiles, tile_end);
        const int group_first = (tile_first - tile_begin) / 6;
        const int group_last = (tile_last - tile_begin + 5) / 6;
        for (index_t channel_first = 0; channel_first < channels; channel_first += channels_a_part) {
            const index_t channel_last = min(channel_first + channels_a_part, channels);
            const int some_channels = channel_last - channel_first;
            const index_t w_first = w_start + group * w_group;
            for (index_t some = channel_first; some < channel_last; some += 1) {
                for (int v = 0; v < 4; ++v) {
                    const index_t column = strip * 64 + v * 16;
                    float taps[144];
                    {
                        const index_t channel = some;
                        const int k = 0;
                        // The taps of an output lie side by side.
                        const index_t at = channel * w_channel;
                        const index_t last = min(column + 15, outputs - 1);
                        if (w_first + at + max(column * w_output, last * w_output) + 16 <= w_end) {
                            {
                                const float16 v0 = vload16(0, w_memory + w_first + min(column + 0, outputs - 1) * w_output + at);
                                const float16 v1 = vload16(0, w_memory + w_first + min(column + 1, outputs - 1) * w_output + at);
                                const float16 v2 = vload16(0, w_memory + w_first + min(column + 2, outputs - 1) * w_output + at);
                                const float16 v3 = vload16(0, w_memory + w_first + min(column + 3, outputs - 1) * w_output + at);
                                const float16 v4 = vload16(0, w_memory + w_first + min(column + 4, outputs - 1) * w_output + at);
                                const float16 v5 = vload16(0, w_memory + w_first + min(column + 5, outputs - 1) * w_output + at);
                                const float16 v6 = vload16(0, w_memory + w_first + min(column + 6, outputs - 1) * w_output + at);
                                const float16 v7 = vload16(0, w_memory + w_first + min(column + 7, outputs - 1) * w_output + at);
                                const float16 v8 = vload16(0, w_memory + w_first + min(column + 8, outputs - 1) * w_output + at);
                                const float16 v9 = vload16(0, w_memory + w_first + min(column + 9, outputs - 1) * w_output + at);
                                const float16 v10 = vload16(0, w_memory + w_first + min(column + 10, outputs - 1) * w_output + at);
                                const float16 v11 = vload16(0, w_memory + w_first + min(column + 11, outputs - 1) * w_output + at);
                                const float16 v12 = vload16(0, w_memory + w_first + min(column + 12, outputs - 1) * w_output + at);
                                const float16 v13 = vload16(0, w_memory + w_first + min(column + 13, outputs - 1) * w_output + at);
                                const float16 v14 = vload16(0, w_memory + w_first + min(column + 14, outputs - 1) * w_output + at);
                                const float16 v15 = vload16(0, w_memory + w_first + min(column + 15, outputs - 1) * w_output + at);
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

                                vstore16(v64, 0, taps);
                                vstore16(v66, 1, taps);
                                vstore16(v68, 2, taps);
                                vstore16(v70, 3, taps);
                                vstore16(v72, 4, taps);
                                vstore16(v74, 5, taps);
                                vstore16(v76, 6, taps);
                                vstore16(v78, 7, taps);
                                vstore16(v65, 8, taps);
                            }

                        } else {
                            for (int e = 0; e < 16; ++e) {
                                const index_t place = w_first + channel * w_channel + min(column + e, outputs - 1) * w_output;
                                for (int i = 0; i < 3; ++i)
                                    for (int j = 0; j < 3; ++j)
                                        taps[(i * 3 + j) * 16 + e] = (float)w_memory[place + i * w_row + j * w_column];
                            }

                        }
                        float16 t0_0;
                        float16 t1_0;
                        float16 t2_0;
                        float16 t3_0;
                        {
                            const float16 g0 = vload16(k * 9 + 0, taps);
                            const float16 g1 = vload16(k * 9 + 3, taps);
                            const float16 g2 = vload16(k * 9 + 6, taps);
                            const float16 g_e1 = g0 + g2;
                            const float16 u1 = 0.5f * g1 + (0.5f * g_e1);
                            const float16 u2 = -0.5f * g1 + (0.5f * g_e1);
                            const float16 u0 = -g0;
                            const float16 u3 = g2;
                            t0_0 = u0;
                            t1_0 = u1;
                            t2_0 = u2;
                            t3_0 = u3;
                        }
                        float16 t0_1;
                        float16 t1_1;
                        float16 t2_1;
                        float16 t3_1;
                        {
                            const float16 g0 = vload16(k * 9 + 1, taps);
                            const float16 g1 = vload16(k * 9 + 4, taps);
                            const float16 g2 = vload16(k * 9 + 7, taps);
                            const float16 g_e1 = g0 + g2;
                            const float16 u1 = 0.5f * g1 + (0.5f * g_e1);
                            const float16 u2 = -0.5f * g1 + (0.5f * g_e1);
                            const float16 u0 = -g0;
                            const float16 u3 = g2;
                            t0_1 = u0;
                            t1_1 = u1;
                            t2_1 = u2;
                            t3_1 = u3;
                        }
                        float16 t0_2;
                        float16 t1_2;
                        float16 t2_2;
                        float16 t3_2;
                        {
                            const float16 g0 = vload16(k * 9 + 2, taps);
                            const float16 g1 = vload16(k * 9 + 5, taps);
                            const float16 g2 = vload16(k * 9 + 8, taps);
                            const float16 g_e1 = g0 + g2;
                            const float16 u1 = 0.5f * g1 + (0.5f * g_e1);
                            const float16 u2 = -0.5f * g1 + (0.5f * g_e1);
                            const float16 u0 = -g0;
                            const float16 u3 = g2;
                            t0_2 = u0;
                            t1_2 = u1;
                            t2_2 = u2;
                            t3_2 = u3;
                        }
                        __global float *to = U + (channel - channel_first) * 64 + v * 16;
                        {
                            const float16 g0 = t0_0;
                            const float16 g1 = t0_1;
                            const float16 g2 = t0_2;
                            const float16 g_e1 = g0 + g2;
                            const float16 u1 = 0.5f * g1 + (0.5f * g_e1);
                            const float16 u2 = -0.5f * g1 + (0.5f * g_e1);
                            const float16 u0 = -g0;
                            const float16 u3 = g2;
                            vstore16(u0, 0, to + 0 * u_element);
                            vstore16(u1, 0, to + 1 * u_element);
                            vstore16(u2, 0, to + 2 * u_element);
                            vstore16(u3, 0, to + 3 * u_element);
                        }
                        {
                            const float16 g0 = t1_0;
                            const float16 g1 = t1_1;
                            const float16 g2 = t1_2;
                            const float16 g_e1 = g0 + g2;
                            const float16 u1 = 0.5f * g1 + (0.5f * g_e1);
                            const float16 u2 = -0.5f * g1 + (0.5f * g_e1);
                            const float16 u0 = -g0;
                            const float16 u3 = g2;
                            vstore16(u0, 0, to + 4 * u_element);
                            vstore16(u1, 0, to + 5 * u_element);
                            vstore16(u2, 0, to + 6 * u_element);
                            vstore16(u3, 0, to + 7 * u_element);
                        }
                        {
                            const float16 g0 = t2_0;
                            const float16 g1 = t2_1;
                            const float16 g2 = t2_2;
                            const float16 g_e1 = g0 + g2;
                            const float16 u1 = 0.5f * g1 + (0.5f * g_e1);
                            const float16 u2 = -0.5f * g1 + (0.5f * g_e1);
                            const float16 u0 = -g0;
                            const float16 u3 = g2;
                            vstore16(u0, 0, to + 8 * u_element);
                            vstore16(u1, 0, to + 9 * u_element);
                            vstore16(u2, 0, to + 10 * u_element);
                            vstore16(u3, 0, to + 11 * u_element);
                        }
                        {
                            const float16 g0 = t3_0;
                            const float16 g1 = t3_1;
                            const float16 g2 = t3_2;
                            const float16 g_e1 = g0 + g2;
                            const float16 u1 = 0.5f * g1 + (0.5f * g_e1);
                            const float16 u2 = -0.5f * g1 + (0.5f * g_e1);
                            const float16 u0 = -g0;
                            const float16 u3 = g2;
                            vstore16(u0, 0, to + 12 * u_element);
                            vstore16(u1, 0, to + 13 * u_element);
                            vstore16(u2, 0, to + 14 * u_element);
                            vstore16(u3, 0, to + 15 * u_element);
                        }
                    }
                }
            }

            for (int e = 0; e < 16; ++e)
                for (int some_tiles = group_first; some_tiles < group_last; ++some_tiles) {
                    __global const float *a = transformed + group * v_group + e * v_element + ((index_t)some_tiles * channel_blocks * 16 + channel_first) * 6;
                    __global const float *b = U + e * u_element;
                    __global float *to = M + e * m_element + (some_tiles - group_first) * 384;
                    __global const float *next = a + channel_blocks * 96;
                    for (int first = 0; first < some_channels; first += 64) {
                        float16 sum[6][4];
                        #pragma unroll
                        for (int j = 0; j < 6; ++j)
                            #pragma unroll
                            for (int v = 0; v < 4; ++v)
                                sum[j][v] = 0;
                        for (int left = min((int)some_channels - first, 64); left > 0; left -= 16) {
                            // A part of what comes next.
                            #pragma unroll
                            for (int n = 0; n < 6; ++n, next += 16)
                                prefetch_line(next);
                            if (left >= 16) {
                                #pragma unroll 4
                                for (int k = 0; k < 16; ++k) {
                                    float16 row[4];
                                    #pragma unroll
                                    for (int v = 0; v < 4; ++v)
                                        row[v] = vload16(v, b);
                                    #pragma unroll
                                    for (int j = 0; j < 6; ++j) {
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
                                    for (int j = 0; j < 6; ++j) {
                                        const float16 factor = a[j * 16 + k];
                                        #pragma unroll
                                        for (int v = 0; v < 4; ++v)
                                            sum[j][v] = factor * row[v] + sum[j][v];
                                    }
                                    b += 64;
                                }
                            }
                            a += 96;
                        }
                        // Sums of earlier channels are added once, so that errors do not grow with their number.
                        #pragma unroll
                        for (int j = 0; j < 6; ++j)
                            #pragma unroll
                            for (int v = 0; v < 4; ++v) {
                                if (channel_first > 0 || first > 0)
                                    sum[j][v] += vload16(v, to + j * 64);
                                vstore16(sum[j][v], v, to + j * 64);
                            }
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
#line 558 "kernel"
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
#line 585 "kernel"
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
#line 600 "kernel"
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
