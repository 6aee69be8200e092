// A matrix product, one of whose operands is read where it lies: windows of a row of pixels, or a
// matrix. Its lanes are rows: along depth their elements are neighbours, and from lane to lane it is
// always the same step.
//
//                columns: 4 vectors of 16
//            +------------------------+
//            |  b: a row a step       |      A tile of 6 rows x 64 columns stays in registers while
//            +------------------------+      depth passes by. The last tile of a line of lanes begins early
//     +---+  +------------------------+      enough to end with it; what it shares with the tile before is
//     | a |  |                        |      stored once.
//     |   |  |                        |
//     |   |  |  sum,   6 rows         |      A work-item takes some lines of lanes, or a part of one, and
//     |   |  |                        |      passes all packed tiles by.
//     +---+  +------------------------+
//
// Windows may leave the image: the rows of pixels that they touch are copied to a row buffer in
// local memory, with zeros around.
// In it lanes are neighbours although they are rows: planes are copied as they are, and the sums
// transposed when they are stored.
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
    const index_t first_lane = min(first_tile * 6, lane_2 - 6);
    const int left = first_lane * column_lane_2 + column_start;
    const int buffer_height = (last_row - first_row - 1) * row_lane_1 + (depth_0 - 1) * row_depth_0 + 1;
    const int buffer_width = (min(last_tile * 6, lane_2) - first_lane - 1) * column_lane_2
        + (depth_1 - 1) * column_depth_1 + 1;
    const index_t x_row = x_at - row_start * x_pixel_row - column_start * x_pixel;
    __local float *to = row_buffer;
    const int before = clamp(-left, 0, buffer_width);
    const int after = clamp(left + buffer_width - width, 0, buffer_width - before);
    const int between = buffer_width - before - after;
    // Lines are short: a vector at a time, with zeros where it leaves the plane.
    const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int r = above; r < above + buffer_height; ++r) {
        const bool inside = (uint)r < (uint)height;
        const index_t row_at = x_row + r * x_pixel_row + left;
        for (int e = 0; e < depth_2; ++e) {
            for (int c = 0; c < buffer_width; c += 16) {
                const int first = before - c, last = first + between;
                const index_t place = row_at + e * x_depth_2 + c;
                float16 v = 0;
                if (inside && place >= 0 && place + 16 <= x_size) {
                    v = select(v, vload16(0, x_memory + place), lanes >= first && lanes < last);
                } else if (inside) {
                    float elements[16];
                    for (int u = 0; u < 16; ++u)
                        elements[u] = u >= first && u < last ? (float)x_memory[place + u] : 0;
                    v = vload16(0, elements);
                }
                // What this writes behind a line is overwritten next, or lies in the slack of the row buffer.
                vstore16(v, 0, to + c);
            }
            to += buffer_width;
        }
    }
    const index_t channel_step = buffer_width;
    const index_t buffer_line = depth_2 * buffer_width;
    const index_t step = 1, row_step = row_lane_1 * buffer_line;
    const index_t tap_row = row_depth_0 * buffer_line, tap_column = column_depth_1;
    const index_t run_step = channel_step;
    const index_t tap_step = tap_column;
    __local const float *corner = row_buffer - first_lane * step;
    const index_t y0_image = y0_start + group * y0_group + image * y0_0;
    const index_t bias_image = bias_start + group * bias_group;

    for (index_t some = packed_first; some < packed_last; some += packed_a_tile)
        for (index_t line = first_row; line < last_row; ++line)
            for (index_t tile = first_tile; tile < last_tile; ++tile)
            for (index_t other = some; other < min(some + packed_a_tile, packed_last); ++other) {
                __global const float *strip = packed
                    + (group * packed_tiles + other) * depth_padded * 64;
                const index_t first = min(tile * 6, lane_2 - 6);
                const int shared = tile * 6 - first;
                __local const float *corner_here = corner + (line - first_row) * row_step + first * step;
                const index_t y0_line = y0_image + line * y0_1 + first * y0_2;
                const index_t bias_line = bias_image;
                const index_t column = other * 64;
                const int rows_left = 6;
                const int columns_left = min((index_t)64, outputs - column);
                float16 sum[6][4];
                #pragma unroll
                for (int j = 0; j < 6; ++j)
                    #pragma unroll
                    for (int v = 0; v < 4; ++v)
                        sum[j][v] = 0;
                for (int tap_0 = 0; tap_0 < depth_0; ++tap_0)
                    for (int tap_1 = 0; tap_1 < taps; ++tap_1) {
                        __local const float *a = corner_here + tap_0 * tap_row + tap_1 * tap_step;
                        __global const float *b = strip + (tap_0 * taps + tap_1) * run * 64;
                        int left_over = run;
                        for (; left_over >= 4; left_over -= 4) {
                            #pragma unroll
                            for (int u = 0; u < 4; ++u) {
                                float16 row[4];
                                #pragma unroll
                                for (int v = 0; v < 4; ++v)
                                    row[v] = vload16(v, b + u * 64);
                                #pragma unroll
                                for (int j = 0; j < 6; ++j) {
                                    const float16 factor = a[u * run_step + j * 1];
                                    #pragma unroll
                                    for (int v = 0; v < 4; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 4 * run_step;
                            b += 256;

                        }
                        for (; left_over > 0; --left_over) {
                            #pragma unroll
                            for (int u = 0; u < 1; ++u) {
                                float16 row[4];
                                #pragma unroll
                                for (int v = 0; v < 4; ++v)
                                    row[v] = vload16(v, b + u * 64);
                                #pragma unroll
                                for (int j = 0; j < 6; ++j) {
                                    const float16 factor = a[u * run_step + j * 1];
                                    #pragma unroll
                                    for (int v = 0; v < 4; ++v)
                                        sum[j][v] = factor * row[v] + sum[j][v];
                                }
                            }
                            a += 1 * run_step;
                            b += 64;

                        }
                    }
                float transposed[1024];
                {
                    const float16 v0 = sum[0][0];
                    const float16 v1 = sum[1][0];
                    const float16 v2 = sum[2][0];
                    const float16 v3 = sum[3][0];
                    const float16 v4 = sum[4][0];
                    const float16 v5 = sum[5][0];
                    const float16 v6 = sum[5][0];
                    const float16 v7 = sum[5][0];
                    const float16 v8 = sum[5][0];
                    const float16 v9 = sum[5][0];
                    const float16 v10 = sum[5][0];
                    const float16 v11 = sum[5][0];
                    const float16 v12 = sum[5][0];
                    const float16 v13 = sum[5][0];
                    const float16 v14 = sum[5][0];
                    const float16 v15 = sum[5][0];
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

                    vstore16(v64, 0, transposed + 0);
                    vstore16(v66, 0, transposed + 16);
                    vstore16(v68, 0, transposed + 32);
                    vstore16(v70, 0, transposed + 48);
                    vstore16(v72, 0, transposed + 64);
                    vstore16(v74, 0, transposed + 80);
                    vstore16(v76, 0, transposed + 96);
                    vstore16(v78, 0, transposed + 112);
                    vstore16(v65, 0, transposed + 128);
                    vstore16(v67, 0, transposed + 144);
                    vstore16(v69, 0, transposed + 160);
                    vstore16(v71, 0, transposed + 176);
                    vstore16(v73, 0, transposed + 192);
                    vstore16(v75, 0, transposed + 208);
                    vstore16(v77, 0, transposed + 224);
                    vstore16(v79, 0, transposed + 240);
                }
                {
                    const float16 v0 = sum[0][1];
                    const float16 v1 = sum[1][1];
                    const float16 v2 = sum[2][1];
                    const float16 v3 = sum[3][1];
                    const float16 v4 = sum[4][1];
                    const float16 v5 = sum[5][1];
                    const float16 v6 = sum[5][1];
                    const float16 v7 = sum[5][1];
                    const float16 v8 = sum[5][1];
                    const float16 v9 = sum[5][1];
                    const float16 v10 = sum[5][1];
                    const float16 v11 = sum[5][1];
                    const float16 v12 = sum[5][1];
                    const float16 v13 = sum[5][1];
                    const float16 v14 = sum[5][1];
                    const float16 v15 = sum[5][1];
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

                    vstore16(v64, 0, transposed + 256);
                    vstore16(v66, 0, transposed + 272);
                    vstore16(v68, 0, transposed + 288);
                    vstore16(v70, 0, transposed + 304);
                    vstore16(v72, 0, transposed + 320);
                    vstore16(v74, 0, transposed + 336);
                    vstore16(v76, 0, transposed + 352);
                    vstore16(v78, 0, transposed + 368);
                    vstore16(v65, 0, transposed + 384);
                    vstore16(v67, 0, transposed + 400);
                    vstore16(v69, 0, transposed + 416);
                    vstore16(v71, 0, transposed + 432);
                    vstore16(v73, 0, transposed + 448);
                    vstore16(v75, 0, transposed + 464);
                    vstore16(v77, 0, transposed + 480);
                    vstore16(v79, 0, transposed + 496);
                }
                {
                    const float16 v0 = sum[0][2];
                    const float16 v1 = sum[1][2];
                    const float16 v2 = sum[2][2];
                    const float16 v3 = sum[3][2];
                    const float16 v4 = sum[4][2];
                    const float16 v5 = sum[5][2];
                    const float16 v6 = sum[5][2];
                    const float16 v7 = sum[5][2];
                    const float16 v8 = sum[5][2];
                    const float16 v9 = sum[5][2];
                    const float16 v10 = sum[5][2];
                    const float16 v11 = sum[5][2];
                    const float16 v12 = sum[5][2];
                    const float16 v13 = sum[5][2];
                    const float16 v14 = sum[5][2];
                    const float16 v15 = sum[5][2];
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

                    vstore16(v64, 0, transposed + 512);
                    vstore16(v66, 0, transposed + 528);
                    vstore16(v68, 0, transposed + 544);
                    vstore16(v70, 0, transposed + 560);
                    vstore16(v72, 0, transposed + 576);
                    vstore16(v74, 0, transposed + 592);
                    vstore16(v76, 0, transposed + 608);
                    vstore16(v78, 0, transposed + 624);
                    vstore16(v65, 0, transposed + 640);
                    vstore16(v67, 0, transposed + 656);
                    vstore16(v69, 0, transposed + 672);
                    vstore16(v71, 0, transposed + 688);
                    vstore16(v73, 0, transposed + 704);
                    vstore16(v75, 0, transposed + 720);
                    vstore16(v77, 0, transposed + 736);
                    vstore16(v79, 0, transposed + 752);
                }
                {
                    const float16 v0 = sum[0][3];
                    const float16 v1 = sum[1][3];
                    const float16 v2 = sum[2][3];
                    const float16 v3 = sum[3][3];
                    const float16 v4 = sum[4][3];
                    const float16 v5 = sum[5][3];
                    const float16 v6 = sum[5][3];
                    const float16 v7 = sum[5][3];
                    const float16 v8 = sum[5][3];
                    const float16 v9 = sum[5][3];
                    const float16 v10 = sum[5][3];
                    const float16 v11 = sum[5][3];
                    const float16 v12 = sum[5][3];
                    const float16 v13 = sum[5][3];
                    const float16 v14 = sum[5][3];
                    const float16 v15 = sum[5][3];
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

                    vstore16(v64, 0, transposed + 768);
                    vstore16(v66, 0, transposed + 784);
                    vstore16(v68, 0, transposed + 800);
                    vstore16(v70, 0, transposed + 816);
                    vstore16(v72, 0, transposed + 832);
                    vstore16(v74, 0, transposed + 848);
                    vstore16(v76, 0, transposed + 864);
                    vstore16(v78, 0, transposed + 880);
                    vstore16(v65, 0, transposed + 896);
                    vstore16(v67, 0, transposed + 912);
                    vstore16(v69, 0, transposed + 928);
                    vstore16(v71, 0, transposed + 944);
                    vstore16(v73, 0, transposed + 960);
                    vstore16(v75, 0, transposed + 976);
                    vstore16(v77, 0, transposed + 992);
                    vstore16(v79, 0, transposed + 1008);
                }
                for (int c = 0; c < columns_left; ++c) {
                    if (shared == 0) {
                        {
                            const int j = 0;
                            float4 y0 = vload4(0, transposed + c * 16 + j);
                            typedef float4 typeof_bias;
                            const typeof_bias bias = (float)bias_memory[bias_line + (column + c) * bias_channel];
                            y0 += bias;
                            typedef float4 typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 = max(y0, 0);
#line 653 "kernel"
                            }
                            vstore4(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                        }
                        {
                            const int j = 4;
                            float2 y0 = vload2(0, transposed + c * 16 + j);
                            typedef float2 typeof_bias;
                            const typeof_bias bias = (float)bias_memory[bias_line + (column + c) * bias_channel];
                            y0 += bias;
                            typedef float2 typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 = max(y0, 0);
#line 667 "kernel"
                            }
                            vstore2(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                        }
                        continue;
                    }
                    int j = shared;
                    const int left = 6 - j;
                    if (left & 1) {
                        float y0 = transposed[c * 16 + j];
                        typedef float typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_line + (column + c) * bias_channel];
                        y0 += bias;
                        typedef float typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 = max(y0, 0);
#line 684 "kernel"
                        }
                        y0_memory[y0_line + j * y0_2 + (column + c) * y0_channel] = y0;
                        j += 1;
                    }
                    if (left & 2) {
                        float2 y0 = vload2(0, transposed + c * 16 + j);
                        typedef float2 typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_line + (column + c) * bias_channel];
                        y0 += bias;
                        typedef float2 typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 = max(y0, 0);
#line 698 "kernel"
                        }
                        vstore2(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                        j += 2;
                    }
                    if (left & 4) {
                        float4 y0 = vload4(0, transposed + c * 16 + j);
                        typedef float4 typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_line + (column + c) * bias_channel];
                        y0 += bias;
                        typedef float4 typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 = max(y0, 0);
#line 712 "kernel"
                        }
                        vstore4(y0, 0, y0_memory + y0_line + j * y0_2 + (column + c) * y0_channel);
                        j += 4;
                    }
                }

            }
}
