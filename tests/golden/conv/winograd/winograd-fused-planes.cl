typedef int index_t;
static inline __attribute__((overloadable)) int cp_max(int a, int b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) uint cp_max(uint a, uint b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) long cp_max(long a, long b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) ulong cp_max(ulong a, ulong b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float cp_max(float a, float b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float2 cp_max(float2 a, float2 b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float4 cp_max(float4 a, float4 b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float8 cp_max(float8 a, float8 b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float16 cp_max(float16 a, float16 b)
{
    return max(a, b);
}
#undef max
#define max(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_max((cp_type)cp_in_a, (cp_type)cp_in_b); })

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

// Winograd's F(2 x 2, 3 x 3): 16 products a tile instead of 36.
//
//    x: 4 x 4 pixels                every element e of the tiles by itself
//   +---------+   down, then along
//   | +-----+ |  ----------------->  V[e]: tiles x channels  *  U[e]: channels x outputs
//   | |y: 2x2| |                                           |
//   | +-----+ |  <-----------------  M[e]: tiles x 64 outputs  <--'
//   +---------+   back, and stored
//
// A work-group takes blocks of `block_tiles` tiles, whose V and M stay in its second cache; products
// of 6 tiles and 64 outputs are summed up in registers.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd(
    __global const float *w_memory,
    __global const float *x_memory,
    __global const float *packed,
    __global float *partial,
    __global float *y0_memory,
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
    const int x_size,
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
    const int y0_2,
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
            const int top = (int)(above - image * tile_lines) * 2 - rows_before;
            const int left = tile_column * 2 - columns_before;
            const int wide = run * 2 + 2;
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
                float square[1024];
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
                        const float16 v0 = d2 - d0;
                        const float16 v1 = d1 + d2;
                        const float16 v2 = d2 - d1;
                        const float16 v3 = d3 - d1;
                        vstore16(v0, 0 + k, square);
                        vstore16(v1, 16 + k, square);
                        vstore16(v2, 32 + k, square);
                        vstore16(v3, 48 + k, square);
                    }
                    for (int i = 0; i < 4; ++i) {
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
                int row = (int)(tile - tile_first) / 6;
                int part = (int)(tile - tile_first) - row * 6;
                for (int t = 0; t < run; ++t) {
                    __global float *to = V + ((index_t)row * channel_blocks + block) * 96 + part * 16;
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
                    if (++part == 6) {
                        part = 0;
                        ++row;
                    }
                }
            }
            tile += run;
        }

        const int tile_groups = (tile_last - tile_first + 5) / 6;
        for (index_t strip = 0; strip < strips; ++strip) {
            __global const float *weights = packed + (group * strips + strip) * u_strip;
            for (int e = 0; e < 16; ++e)
                for (int some_tiles = 0; some_tiles < tile_groups; ++some_tiles) {
                    __global const float *a = V + e * v_element + (index_t)some_tiles * channel_blocks * 96;
                    __global const float *b = weights + e * u_element;
                    __global float *to = M + e * m_element + some_tiles * 384;
                    for (int first = 0; first < channels; first += 64) {
                        float16 sum[6][4];
                        #pragma unroll
                        for (int j = 0; j < 6; ++j)
                            #pragma unroll
                            for (int v = 0; v < 4; ++v)
                                sum[j][v] = 0;
                        for (int left = min((int)channels - first, 64); left > 0; left -= 16) {
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
                // As many tiles as give vectors of pixels.
                const int run = min(min((int)(tile_last - tile), tile_columns - tile_column), 8);
                const int rows_left = min(run * 2, (int)y_columns - tile_column * 2);
                const int lines_left = min(2, (int)y_rows - tile_line * 2);
                const index_t y0_tile = y0_start + group * y0_group + image * y0_0 + tile_line * 2 * y0_1 + tile_column * 2 * y0_2;
                const index_t x0_tile = x0_start + group * x0_group + image * x0_0 + tile_line * 2 * x0_1 + tile_column * 2 * x0_2;
                for (index_t other = strip * 4; other < min((strip + 1) * 4, output_vectors); ++other) {
                    // What one tile, or a run of them, becomes.
                    float tile_out[512];
                    const index_t column = other * 16;
                    const int columns_left = min((index_t)16, outputs - column);
                    for (int t = 0; t < run; ++t) {
                        __global const float *from = M + (tile + t - tile_first) * 64 + (other - strip * 4) * 16;
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
                            vstore16(r0, 0 + t * 2, tile_out);
                            vstore16(r1, 1 + t * 2, tile_out);
                        }
                        {
                            const float16 p0 = z1_0;
                            const float16 p1 = z1_1;
                            const float16 p2 = z1_2;
                            const float16 p3 = z1_3;
                            const float16 r0 = p0 + p1 + p2;
                            const float16 r1 = p1 + p3 - p2;
                            vstore16(r0, 16 + t * 2, tile_out);
                            vstore16(r1, 17 + t * 2, tile_out);
                        }

                    }
                    int16 lost = 0;
                    for (int i = 0; i < 2; ++i)
                        for (int j = 0; j < run * 2; ++j)
                            lost |= isfinite(vload16(i * 16 + j, tile_out)) == 0;
                    if (any(lost)) {
                        const index_t x_at = x_start + group * x_group + image * x_image;
                        const index_t row = tile_line * 2, line = tile_column * 2;
                        for (int i = 0; i < lines_left; ++i)
                            for (int j = 0; j < rows_left; ++j)
                                for (int c = 0; c < columns_left; ++c) {
                                    const int at = (i * 16 + j) * 16 + c;
                                    if (!isfinite(tile_out[at]))
                                        tile_out[at] = sum_of_products(
                                            x_memory, x_at, row + i * 1 - rows_before, line + j * 1 - columns_before, x_rows, x_columns, x_row, 1, x_channel,
                                            w_memory, w_start + group * w_group + (column + c) * w_output, w_rows, w_columns, w_row, w_column, w_channel, channels);
                                }
                    }
                    for (int i = 0; i < lines_left; ++i) {
                        const index_t y0_line = y0_tile + i * y0_1;
                        const index_t x0_line = x0_tile + i * x0_1;
                        float transposed[256];
                        {
                            const float16 v0 = vload16(i * 16 + 0, tile_out);
                            const float16 v1 = vload16(i * 16 + 1, tile_out);
                            const float16 v2 = vload16(i * 16 + 2, tile_out);
                            const float16 v3 = vload16(i * 16 + 3, tile_out);
                            const float16 v4 = vload16(i * 16 + 4, tile_out);
                            const float16 v5 = vload16(i * 16 + 5, tile_out);
                            const float16 v6 = vload16(i * 16 + 6, tile_out);
                            const float16 v7 = vload16(i * 16 + 7, tile_out);
                            const float16 v8 = vload16(i * 16 + 8, tile_out);
                            const float16 v9 = vload16(i * 16 + 9, tile_out);
                            const float16 v10 = vload16(i * 16 + 10, tile_out);
                            const float16 v11 = vload16(i * 16 + 11, tile_out);
                            const float16 v12 = vload16(i * 16 + 12, tile_out);
                            const float16 v13 = vload16(i * 16 + 13, tile_out);
                            const float16 v14 = vload16(i * 16 + 14, tile_out);
                            const float16 v15 = vload16(i * 16 + 15, tile_out);
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

                            vstore16(v64, 0, transposed);
                            vstore16(v66, 1, transposed);
                            vstore16(v68, 2, transposed);
                            vstore16(v70, 3, transposed);
                            vstore16(v72, 4, transposed);
                            vstore16(v74, 5, transposed);
                            vstore16(v76, 6, transposed);
                            vstore16(v78, 7, transposed);
                            vstore16(v65, 8, transposed);
                            vstore16(v67, 9, transposed);
                            vstore16(v69, 10, transposed);
                            vstore16(v71, 11, transposed);
                            vstore16(v73, 12, transposed);
                            vstore16(v75, 13, transposed);
                            vstore16(v77, 14, transposed);
                            vstore16(v79, 15, transposed);
                        }
                        for (int c = 0; c < columns_left; ++c) {
                            int j = 0;
                            if (j + 16 <= rows_left) {
                                float16 y0 = vload16(0, transposed + c * 16 + j);
                                typedef float16 typeof_x0;
                                const typeof_x0 x0 = vload16(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                                typedef float16 typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 = max(y0 + x0, 0);
#line 630 "kernel"
                                }
                                vstore16(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                                j += 16;
                            }
                            if (j + 8 <= rows_left) {
                                float8 y0 = vload8(0, transposed + c * 16 + j);
                                typedef float8 typeof_x0;
                                const typeof_x0 x0 = vload8(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                                typedef float8 typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 = max(y0 + x0, 0);
#line 643 "kernel"
                                }
                                vstore8(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                                j += 8;
                            }
                            if (j + 4 <= rows_left) {
                                float4 y0 = vload4(0, transposed + c * 16 + j);
                                typedef float4 typeof_x0;
                                const typeof_x0 x0 = vload4(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                                typedef float4 typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 = max(y0 + x0, 0);
#line 656 "kernel"
                                }
                                vstore4(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                                j += 4;
                            }
                            if (j + 2 <= rows_left) {
                                float2 y0 = vload2(0, transposed + c * 16 + j);
                                typedef float2 typeof_x0;
                                const typeof_x0 x0 = vload2(0, x0_memory + x0_line + j * x0_2 + (column + c) * x0_channel);
                                typedef float2 typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 = max(y0 + x0, 0);
#line 669 "kernel"
                                }
                                vstore2(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                                j += 2;
                            }
                            for (; j < rows_left; ++j) {
                                float y0 = transposed[c * 16 + j];
                                typedef float typeof_x0;
                                const typeof_x0 x0 = (float)x0_memory[x0_line + j * x0_2 + (column + c) * x0_channel];
                                typedef float typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 = max(y0 + x0, 0);
#line 682 "kernel"
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
