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
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#endif
// Winograd's gradient in the weight, F(3 x 3, 2 x 2): every element e of transformed tiles by itself.
//
//    b[e]: lanes x tiles   ---.
//                              +--->  products[e]: factors x lanes  --->  3 x 3 taps
//    a[e]: tiles x factors ---'                                     back
//
// Lanes are channels, and factors outputs; or the other way round, where channels are so few that most
// of a vector of them would be empty. A work-group takes some strips of 32 lanes and some blocks of
// 8 factors at a time, whose products stay in its second cache; 8 x 2 vectors are summed up in
// registers. Transformed tiles lie as [element][slot][tile][16 of a slot].
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_weight_winograd_product(
    __global const float *b_memory,
    __global const float *a_memory,
    __global float *products,
    __global float *y0_memory,
    const float beta,
    const int y0_start,
    const int y0_group,
    const int y0_factor,
    const int y0_lane,
    const int y0_row,
    const int y0_column,
    __global const float *x_memory,
    __global const float *w_memory,
    const int images,
    const int x_start,
    const int x_group,
    const int x_image,
    const int x_row,
    const int x_column,
    const int x_lane,
    const int x_factor,
    const int x_rows,
    const int x_columns,
    const int rows_before,
    const int columns_before,
    const int w_start,
    const int w_group,
    const int w_image,
    const int w_row,
    const int w_column,
    const int w_lane,
    const int w_factor,
    const int w_rows,
    const int w_columns,
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
    const int tiles_there,
    const int is_first,
    const int is_last,
    const int keeps_all,
    const int strip_parts,
    const int strips_a_part,
    const int block_parts,
    const int items,
    const int b_size,
    const int a_size)
{
    const index_t begin = items * (index_t)get_group_id(0) / (index_t)get_num_groups(0);
    const index_t end = items * ((index_t)get_group_id(0) + 1) / (index_t)get_num_groups(0);
    for (index_t item = begin; item < end; ++item) {
        const index_t group = item / (strip_parts * block_parts);
        const int strip_first = item / block_parts % strip_parts * strips_a_part;
        const int strip_last = min(strip_first + (int)strips_a_part, (int)strips);
        const int block_first = item % block_parts * blocks_a_part;
        const int block_last = min(block_first + (int)blocks_a_part, (int)blocks);
        const int tiles = tiles_there;
        __global const float *B = b_memory + group * b_size, *A = a_memory + group * a_size;
        __global float *M = products + (keeps_all ? item : (index_t)get_group_id(0)) * m_size;
        for (int e = 0; e < 16; ++e)
            for (int strip = strip_first; strip < strip_last; ++strip) {
                // The last strip may have fewer vectors: the last one is multiplied again.
                __global const float *b[2];
                for (int v = 0; v < 2; ++v)
                    b[v] = B + e * b_element + min(strip * 2 + v, (int)lane_slots - 1) * slot_size;
                for (int block = block_first; block < block_last; ++block) {
                    __global const float *a = A + e * a_element + block / 2 * slot_size + block % 2 * 8;
                    __global float *to = M + e * m_element + ((strip - strip_first) * blocks_a_part + block - block_first) * 256;
                    // A slot of the next element's tiles, or nothing new.
                    const int pass = (strip - strip_first) * (block_last - block_first) + block - block_first;
                    const int slots = min(strip_last * 2, (int)lane_slots) - strip_first * 2, after = min(e + 1, 15);
                    __global const float *next = a;
                    if (pass < slots)
                        next = B + after * b_element + (strip_first * 2 + pass) * slot_size;
                    else if (pass - slots < (block_last - block_first) / 2)
                        next = A + after * a_element + (block_first / 2 + pass - slots) * slot_size;
                    float16 sum[8][2];
                    #pragma unroll
                    for (int j = 0; j < 8; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            sum[j][v] = 0;
                    #pragma unroll 4
                    for (int t = 0; t < (int)tiles; ++t) {
                        prefetch_line(next + t * 16);
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
                            if (!(is_first))
                                sum[j][v] += vload16(v, to + j * 32);
                            vstore16(sum[j][v], v, to + j * 32);
                        }
                }
            }

        if (!is_last)
            continue;
        for (int strip = strip_first; strip < strip_last; ++strip)
            for (int block = block_first; block < block_last; ++block) {
                __global const float *some = M + ((strip - strip_first) * blocks_a_part + block - block_first) * 256;
                // The last slots end with the last factor and the last lane; what others have is not stored again.
                const int slot = block / 2 * 16, factor_first = min(slot, max((int)factors - 16, 0)) + block % 2 * 8;
                for (int j = max(slot - factor_first, 0); j < min(8, (int)factors - factor_first); ++j)
                    for (int v = 0; v < 2; ++v) {
                        const int vector = strip * 2 + v;
                        if (vector >= lane_slots)
                            break;
                        const int lane = min(vector * 16, max((int)lanes - 16, 0));
                        const int skipped = vector * 16 - lane, there = min(16, (int)lanes - lane);
                        const index_t at = (j * 2 + v) * 16;
                        __global const float *from = some + at;
                        const index_t place = y0_start + group * y0_group + (factor_first + j) * y0_factor + lane * y0_lane;
                        float taps[144];
                        float16 z0_0;
                        float16 z1_0;
                        float16 z2_0;
                        {
                            const float16 p0 = vload16(0, from + 0 * m_element);
                            const float16 p1 = vload16(0, from + 4 * m_element);
                            const float16 p2 = vload16(0, from + 8 * m_element);
                            const float16 p3 = vload16(0, from + 12 * m_element);
                            const float16 p_s1 = p1 + p2;
                            const float16 p_d1 = p1 - p2;
                            const float16 r0 = p0 + p_s1;
                            const float16 r1 = p_d1;
                            const float16 r2 = p_s1 + p3;
                            z0_0 = r0;
                            z1_0 = r1;
                            z2_0 = r2;
                        }
                        float16 z0_1;
                        float16 z1_1;
                        float16 z2_1;
                        {
                            const float16 p0 = vload16(0, from + 1 * m_element);
                            const float16 p1 = vload16(0, from + 5 * m_element);
                            const float16 p2 = vload16(0, from + 9 * m_element);
                            const float16 p3 = vload16(0, from + 13 * m_element);
                            const float16 p_s1 = p1 + p2;
                            const float16 p_d1 = p1 - p2;
                            const float16 r0 = p0 + p_s1;
                            const float16 r1 = p_d1;
                            const float16 r2 = p_s1 + p3;
                            z0_1 = r0;
                            z1_1 = r1;
                            z2_1 = r2;
                        }
                        float16 z0_2;
                        float16 z1_2;
                        float16 z2_2;
                        {
                            const float16 p0 = vload16(0, from + 2 * m_element);
                            const float16 p1 = vload16(0, from + 6 * m_element);
                            const float16 p2 = vload16(0, from + 10 * m_element);
                            const float16 p3 = vload16(0, from + 14 * m_element);
                            const float16 p_s1 = p1 + p2;
                            const float16 p_d1 = p1 - p2;
                            const float16 r0 = p0 + p_s1;
                            const float16 r1 = p_d1;
                            const float16 r2 = p_s1 + p3;
                            z0_2 = r0;
                            z1_2 = r1;
                            z2_2 = r2;
                        }
                        float16 z0_3;
                        float16 z1_3;
                        float16 z2_3;
                        {
                            const float16 p0 = vload16(0, from + 3 * m_element);
                            const float16 p1 = vload16(0, from + 7 * m_element);
                            const float16 p2 = vload16(0, from + 11 * m_element);
                            const float16 p3 = vload16(0, from + 15 * m_element);
                            const float16 p_s1 = p1 + p2;
                            const float16 p_d1 = p1 - p2;
                            const float16 r0 = p0 + p_s1;
                            const float16 r1 = p_d1;
                            const float16 r2 = p_s1 + p3;
                            z0_3 = r0;
                            z1_3 = r1;
                            z2_3 = r2;
                        }
                        {
                            const float16 p0 = z0_0;
                            const float16 p1 = z0_1;
                            const float16 p2 = z0_2;
                            const float16 p3 = z0_3;
                            const float16 p_s1 = p1 + p2;
                            const float16 p_d1 = p1 - p2;
                            const float16 r0 = p0 + p_s1;
                            const float16 r1 = p_d1;
                            const float16 r2 = p_s1 + p3;
                            vstore16(r0, 0, taps);
                            vstore16(r1, 1, taps);
                            vstore16(r2, 2, taps);
                        }
                        {
                            const float16 p0 = z1_0;
                            const float16 p1 = z1_1;
                            const float16 p2 = z1_2;
                            const float16 p3 = z1_3;
                            const float16 p_s1 = p1 + p2;
                            const float16 p_d1 = p1 - p2;
                            const float16 r0 = p0 + p_s1;
                            const float16 r1 = p_d1;
                            const float16 r2 = p_s1 + p3;
                            vstore16(r0, 3, taps);
                            vstore16(r1, 4, taps);
                            vstore16(r2, 5, taps);
                        }
                        {
                            const float16 p0 = z2_0;
                            const float16 p1 = z2_1;
                            const float16 p2 = z2_2;
                            const float16 p3 = z2_3;
                            const float16 p_s1 = p1 + p2;
                            const float16 p_d1 = p1 - p2;
                            const float16 r0 = p0 + p_s1;
                            const float16 r1 = p_d1;
                            const float16 r2 = p_s1 + p3;
                            vstore16(r0, 6, taps);
                            vstore16(r1, 7, taps);
                            vstore16(r2, 8, taps);
                        }

                        int16 lost = 0;
                        for (int i = 0; i < 9; ++i)
                            lost |= isfinite(vload16(i, taps)) == 0;
                        if (any(lost))
                            for (int c = skipped; c < there; ++c)
                                for (int i = 0; i < 9; ++i)
                                    if (!isfinite(taps[i * 16 + c]))
                                        taps[i * 16 + c] = sum_of_products(
                                            x_memory, x_start + group * x_group + (factor_first + j) * x_factor + (lane + c) * x_lane,
                                            i / 3 - rows_before, i % 3 - columns_before, x_rows, x_columns, x_row, x_column, x_image,
                                            w_memory, w_start + group * w_group + (factor_first + j) * w_factor + (lane + c) * w_lane,
                                            w_rows, w_columns, w_row, w_column, w_image, images);
                        for (int c = skipped; c < there; ++c)
                            for (int i = 0; i < 3; ++i)
                                for (int k = 0; k < 3; ++k) {
                                    float y0 = taps[(i * 3 + k) * 16 + c];
                                    const index_t y0_at = place + c * y0_lane + i * y0_row + k * y0_column;
                                    y0 += beta * (float)y0_memory[y0_at];
                                    y0_memory[y0_at] = y0;
                                }
                    }

            }
    }
}
