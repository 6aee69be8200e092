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

// Winograd's gradient in the weight, its last step: the workers' products are added up, in order, and
// transformed back to 3 x 3 taps. A work-group takes 32 lanes of 8 factors.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_weight_winograd_finish(
    __global const float *products,
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
    const int workers,
    const int m_worker)
{
    const int block = get_group_id(0), strip = get_group_id(1);
    const index_t group = get_group_id(2);
    __global const float *some = products + group * m_size + (strip * blocks_a_part + block) * 256;
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
            float from[256];
            for (int e = 0; e < 16; ++e) {
                float16 sum = vload16(0, some + at + e * m_element);
                for (index_t worker = 1; worker < workers; ++worker)
                    sum += vload16(0, some + at + e * m_element + worker * m_worker);
                vstore16(sum, e, from);
            }
            const index_t place = y0_start + group * y0_group + (factor_first + j) * y0_factor + lane * y0_lane;
            float taps[144];
            float16 z0_0;
            float16 z1_0;
            float16 z2_0;
            {
                const float16 p0 = vload16(0, from + 0 * 16);
                const float16 p1 = vload16(0, from + 4 * 16);
                const float16 p2 = vload16(0, from + 8 * 16);
                const float16 p3 = vload16(0, from + 12 * 16);
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
                const float16 p0 = vload16(0, from + 1 * 16);
                const float16 p1 = vload16(0, from + 5 * 16);
                const float16 p2 = vload16(0, from + 9 * 16);
                const float16 p3 = vload16(0, from + 13 * 16);
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
                const float16 p0 = vload16(0, from + 2 * 16);
                const float16 p1 = vload16(0, from + 6 * 16);
                const float16 p2 = vload16(0, from + 10 * 16);
                const float16 p3 = vload16(0, from + 14 * 16);
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
                const float16 p0 = vload16(0, from + 3 * 16);
                const float16 p1 = vload16(0, from + 7 * 16);
                const float16 p2 = vload16(0, from + 11 * 16);
                const float16 p3 = vload16(0, from + 15 * 16);
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
