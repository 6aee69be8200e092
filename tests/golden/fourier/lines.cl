// Transforms of 60 numbers = 4 x 5 x 3, 16 neighbouring ones side by side, by
// Stockham's passes: from place b + j * n / R to q + s * (R * p + k), where b = p * s + q, and s is
// the product of the radices before. Numbers that follow in memory come and go as squares, turned.
typedef int index_t;

static inline void butterfly_2(float16 *r, float16 *i)
{
    const float16 r_0 = r[0], i_0 = i[0];
    r[0] = r_0 + r[1];
    i[0] = i_0 + i[1];
    r[1] = r_0 - r[1];
    i[1] = i_0 - i[1];
}

static inline void butterfly_4(float16 *r, float16 *i)
{
    float16 a_r[2], a_i[2];
    float16 b_r[2][2], b_i[2][2];
    a_r[0] = r[0];
    a_i[0] = i[0];
    a_r[1] = r[2];
    a_i[1] = i[2];
    butterfly_2(a_r, a_i);
    b_r[0][0] = a_r[0];
    b_i[0][0] = a_i[0];
    b_r[1][0] = a_r[1];
    b_i[1][0] = a_i[1];
    a_r[0] = r[1];
    a_i[0] = i[1];
    a_r[1] = r[3];
    a_i[1] = i[3];
    butterfly_2(a_r, a_i);
    b_r[0][1] = a_r[0];
    b_i[0][1] = a_i[0];
    b_r[1][1] = a_i[1];
    b_i[1][1] = -a_r[1];
    butterfly_2(b_r[0], b_i[0]);
    r[0] = b_r[0][0];
    i[0] = b_i[0][0];
    r[2] = b_r[0][1];
    i[2] = b_i[0][1];
    butterfly_2(b_r[1], b_i[1]);
    r[1] = b_r[1][0];
    i[1] = b_i[1][0];
    r[3] = b_r[1][1];
    i[3] = b_i[1][1];
}

static inline void butterfly_5(float16 *r, float16 *i)
{
    const float16 r_0 = r[0], i_0 = i[0];
    const float16 sum_r1 = r[1] + r[4], sum_i1 = i[1] + i[4];
    const float16 minus_r1 = r[1] - r[4], minus_i1 = i[1] - i[4];
    const float16 sum_r2 = r[2] + r[3], sum_i2 = i[2] + i[3];
    const float16 minus_r2 = r[2] - r[3], minus_i2 = i[2] - i[3];
    r[0] = r_0 + sum_r1 + sum_r2;
    i[0] = i_0 + sum_i1 + sum_i2;
    {
        const float16 c_r = r_0 + sum_r1 * 0.30901700258255005f + sum_r2 * (-0.80901700258255f);
        const float16 c_i = i_0 + sum_i1 * 0.30901700258255005f + sum_i2 * (-0.80901700258255f);
        const float16 s_r = minus_r1 * 0.9510565400123596f + minus_r2 * 0.5877852439880371f;
        const float16 s_i = minus_i1 * 0.9510565400123596f + minus_i2 * 0.5877852439880371f;
        r[1] = c_r + s_i;
        i[1] = c_i - s_r;
        r[4] = c_r - s_i;
        i[4] = c_i + s_r;
    }
    {
        const float16 c_r = r_0 + sum_r1 * (-0.80901700258255f) + sum_r2 * 0.30901700258255005f;
        const float16 c_i = i_0 + sum_i1 * (-0.80901700258255f) + sum_i2 * 0.30901700258255005f;
        const float16 s_r = minus_r1 * 0.5877852439880371f + minus_r2 * (-0.9510565400123596f);
        const float16 s_i = minus_i1 * 0.5877852439880371f + minus_i2 * (-0.9510565400123596f);
        r[2] = c_r + s_i;
        i[2] = c_i - s_r;
        r[3] = c_r - s_i;
        i[3] = c_i + s_r;
    }
}

static inline void butterfly_3(float16 *r, float16 *i)
{
    const float16 r_0 = r[0], i_0 = i[0];
    const float16 sum_r1 = r[1] + r[2], sum_i1 = i[1] + i[2];
    const float16 minus_r1 = r[1] - r[2], minus_i1 = i[1] - i[2];
    r[0] = r_0 + sum_r1;
    i[0] = i_0 + sum_i1;
    {
        const float16 c_r = r_0 + sum_r1 * (-0.5f);
        const float16 c_i = i_0 + sum_i1 * (-0.5f);
        const float16 s_r = minus_r1 * 0.8660253882408142f;
        const float16 s_i = minus_i1 * 0.8660253882408142f;
        r[1] = c_r + s_i;
        i[1] = c_i - s_r;
        r[2] = c_r - s_i;
        i[2] = c_i + s_r;
    }
}

static inline float16 zip_low(float16 a, float16 b)
{
    return (float16)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7);
}
static inline float16 zip_high(float16 a, float16 b)
{
    return (float16)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf);
}
static inline void turn(float16 *rows)
{
    float16 other[16];
    other[0] = zip_low(rows[0], rows[8]);
    other[1] = zip_high(rows[0], rows[8]);
    other[2] = zip_low(rows[1], rows[9]);
    other[3] = zip_high(rows[1], rows[9]);
    other[4] = zip_low(rows[2], rows[10]);
    other[5] = zip_high(rows[2], rows[10]);
    other[6] = zip_low(rows[3], rows[11]);
    other[7] = zip_high(rows[3], rows[11]);
    other[8] = zip_low(rows[4], rows[12]);
    other[9] = zip_high(rows[4], rows[12]);
    other[10] = zip_low(rows[5], rows[13]);
    other[11] = zip_high(rows[5], rows[13]);
    other[12] = zip_low(rows[6], rows[14]);
    other[13] = zip_high(rows[6], rows[14]);
    other[14] = zip_low(rows[7], rows[15]);
    other[15] = zip_high(rows[7], rows[15]);
    rows[0] = zip_low(other[0], other[8]);
    rows[1] = zip_high(other[0], other[8]);
    rows[2] = zip_low(other[1], other[9]);
    rows[3] = zip_high(other[1], other[9]);
    rows[4] = zip_low(other[2], other[10]);
    rows[5] = zip_high(other[2], other[10]);
    rows[6] = zip_low(other[3], other[11]);
    rows[7] = zip_high(other[3], other[11]);
    rows[8] = zip_low(other[4], other[12]);
    rows[9] = zip_high(other[4], other[12]);
    rows[10] = zip_low(other[5], other[13]);
    rows[11] = zip_high(other[5], other[13]);
    rows[12] = zip_low(other[6], other[14]);
    rows[13] = zip_high(other[6], other[14]);
    rows[14] = zip_low(other[7], other[15]);
    rows[15] = zip_high(other[7], other[15]);
    other[0] = zip_low(rows[0], rows[8]);
    other[1] = zip_high(rows[0], rows[8]);
    other[2] = zip_low(rows[1], rows[9]);
    other[3] = zip_high(rows[1], rows[9]);
    other[4] = zip_low(rows[2], rows[10]);
    other[5] = zip_high(rows[2], rows[10]);
    other[6] = zip_low(rows[3], rows[11]);
    other[7] = zip_high(rows[3], rows[11]);
    other[8] = zip_low(rows[4], rows[12]);
    other[9] = zip_high(rows[4], rows[12]);
    other[10] = zip_low(rows[5], rows[13]);
    other[11] = zip_high(rows[5], rows[13]);
    other[12] = zip_low(rows[6], rows[14]);
    other[13] = zip_high(rows[6], rows[14]);
    other[14] = zip_low(rows[7], rows[15]);
    other[15] = zip_high(rows[7], rows[15]);
    rows[0] = zip_low(other[0], other[8]);
    rows[1] = zip_high(other[0], other[8]);
    rows[2] = zip_low(other[1], other[9]);
    rows[3] = zip_high(other[1], other[9]);
    rows[4] = zip_low(other[2], other[10]);
    rows[5] = zip_high(other[2], other[10]);
    rows[6] = zip_low(other[3], other[11]);
    rows[7] = zip_high(other[3], other[11]);
    rows[8] = zip_low(other[4], other[12]);
    rows[9] = zip_high(other[4], other[12]);
    rows[10] = zip_low(other[5], other[13]);
    rows[11] = zip_high(other[5], other[13]);
    rows[12] = zip_low(other[6], other[14]);
    rows[13] = zip_high(other[6], other[14]);
    rows[14] = zip_low(other[7], other[15]);
    rows[15] = zip_high(other[7], other[15]);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fourier_60(
    __global const float *x_memory,
    __global float *y_memory,
    __global const float *table_memory,
    const int lines,
    const int tiles,
    const int per_group,
    const int root,
    const int halves,
    const int filter,
    const int order,
    const int x_start,
    const int x_step,
    const int x_lane,
    const int x_part,
    const int y_start,
    const int y_step,
    const int y_lane,
    const int y_part,
    const int in_step,
    const int in_lane,
    const int in_limit,
    const int before,
    const int out_step,
    const int out_lane,
    const int out_limit,
    const int after,
    const int points,
    const int x_point,
    const int in_given,
    const float scale)
{
    __local float16 first_buffer[120];
    __local float16 second_buffer[120];
    const __global float *roots = table_memory + 2 * root;
    const index_t across = (lines + 15) / 16;
    const index_t begin = (index_t)get_group_id(0) * per_group;
    const index_t end = min(begin + per_group, tiles);
    for (index_t tile = begin; tile < end; ++tile) {
        index_t rest = tile / across;
        const index_t line = min((tile - rest * across) * 16, max(lines - 16, (index_t)0));
        index_t x_at = x_start + line * x_lane, y_at = y_start + line * y_lane;
        {
            int e = 0;
            for (; e + 8 <= 60; e += 8) {
                float16 rows[16];
                #pragma unroll
                for (int l = 0; l < 16; ++l)
                    rows[l] = vload16(0, x_memory + x_at + l * x_lane + 2 * (index_t)e);
                turn(rows);
                #pragma unroll
                for (int k = 0; k < 8; ++k) {
                    float16 r = rows[2 * k], i = rows[2 * k + 1];

                    first_buffer[2 * (e + k)] = r;
                    first_buffer[2 * (e + k) + 1] = i;
                }
            }
            for (; e < 60; ++e) {
                float16 r, i;
                float lanes_r[16], lanes_i[16];
                for (int l = 0; l < 16; ++l) {
                    index_t from = x_at + (index_t)(e) * x_step + l * x_lane;
                    lanes_r[l] = x_memory[from];
                    lanes_i[l] = x_memory[from + x_part];

                }
                r = vload16(0, lanes_r);
                i = vload16(0, lanes_i);

                first_buffer[2 * (e)] = r;
                first_buffer[2 * (e) + 1] = i;
            }

        }
        {
            for (int p = 0; p < 15; ++p) {
                const float w_r1 = roots[p * 2], w_i1 = roots[p * 2 + 1];
                const float w_r2 = roots[p * 4], w_i2 = roots[p * 4 + 1];
                const float w_r3 = roots[p * 6], w_i3 = roots[p * 6 + 1];
                for (int q = 0; q < 1; ++q) {
                    const int b = p * 1 + q;
                    float16 rs[4], is[4];
                    {
                        const int at = 2 * (b + 0);
                        rs[0] = first_buffer[at];
                        is[0] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 15);
                        rs[1] = first_buffer[at];
                        is[1] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 30);
                        rs[2] = first_buffer[at];
                        is[2] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 45);
                        rs[3] = first_buffer[at];
                        is[3] = first_buffer[at + 1];
                    }
                    butterfly_4(rs, is);
                    {
                        float16 r = rs[0], i = is[0];
                        const int at = 2 * (q + 4 * p + 0);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[1], i = is[1];
                        const float16 turned = r * w_r1 - i * w_i1;
                        i = r * w_i1 + i * w_r1;
                        r = turned;
                        const int at = 2 * (q + 4 * p + 1);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[2], i = is[2];
                        const float16 turned = r * w_r2 - i * w_i2;
                        i = r * w_i2 + i * w_r2;
                        r = turned;
                        const int at = 2 * (q + 4 * p + 2);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[3], i = is[3];
                        const float16 turned = r * w_r3 - i * w_i3;
                        i = r * w_i3 + i * w_r3;
                        r = turned;
                        const int at = 2 * (q + 4 * p + 3);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }

                }
            }

        }
        {
            for (int p = 0; p < 3; ++p) {
                const float w_r1 = roots[p * 8], w_i1 = roots[p * 8 + 1];
                const float w_r2 = roots[p * 16], w_i2 = roots[p * 16 + 1];
                const float w_r3 = roots[p * 24], w_i3 = roots[p * 24 + 1];
                const float w_r4 = roots[p * 32], w_i4 = roots[p * 32 + 1];
                for (int q = 0; q < 4; ++q) {
                    const int b = p * 4 + q;
                    float16 rs[5], is[5];
                    {
                        const int at = 2 * (b + 0);
                        rs[0] = second_buffer[at];
                        is[0] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 12);
                        rs[1] = second_buffer[at];
                        is[1] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 24);
                        rs[2] = second_buffer[at];
                        is[2] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 36);
                        rs[3] = second_buffer[at];
                        is[3] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 48);
                        rs[4] = second_buffer[at];
                        is[4] = second_buffer[at + 1];
                    }
                    butterfly_5(rs, is);
                    {
                        float16 r = rs[0], i = is[0];
                        const int at = 2 * (q + 20 * p + 0);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[1], i = is[1];
                        const float16 turned = r * w_r1 - i * w_i1;
                        i = r * w_i1 + i * w_r1;
                        r = turned;
                        const int at = 2 * (q + 20 * p + 4);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[2], i = is[2];
                        const float16 turned = r * w_r2 - i * w_i2;
                        i = r * w_i2 + i * w_r2;
                        r = turned;
                        const int at = 2 * (q + 20 * p + 8);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[3], i = is[3];
                        const float16 turned = r * w_r3 - i * w_i3;
                        i = r * w_i3 + i * w_r3;
                        r = turned;
                        const int at = 2 * (q + 20 * p + 12);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[4], i = is[4];
                        const float16 turned = r * w_r4 - i * w_i4;
                        i = r * w_i4 + i * w_r4;
                        r = turned;
                        const int at = 2 * (q + 20 * p + 16);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }

                }
            }

        }
        {
            for (int p = 0; p < 1; ++p) {
                for (int q = 0; q < 20; ++q) {
                    const int b = p * 20 + q;
                    float16 rs[3], is[3];
                    {
                        const int at = 2 * (b + 0);
                        rs[0] = first_buffer[at];
                        is[0] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 20);
                        rs[1] = first_buffer[at];
                        is[1] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 40);
                        rs[2] = first_buffer[at];
                        is[2] = first_buffer[at + 1];
                    }
                    butterfly_3(rs, is);
                    {
                        float16 r = rs[0], i = is[0];
                        const int at = 2 * (q + 60 * p + 0);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[1], i = is[1];
                        const int at = 2 * (q + 60 * p + 20);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[2], i = is[2];
                        const int at = 2 * (q + 60 * p + 40);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }

                }
            }

        }
        {
            int e = 0;
            for (; e + 8 <= 60; e += 8) {
                float16 rows[16];
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    float16 r, i;
                    {
                        r = second_buffer[2 * (e + j)];
                        i = second_buffer[2 * (e + j) + 1];

                    }
                    r *= scale;
                    i *= scale;

                    rows[2 * j] = r;
                    rows[2 * j + 1] = i;
                }
                turn(rows);
                #pragma unroll
                for (int l = 0; l < 16; ++l)
                    vstore16(rows[l], 0, y_memory + y_at + l * y_lane + 2 * (index_t)e);
            }
            for (; e < 60; ++e) {
                float16 r, i;
                {
                    r = second_buffer[2 * (e)];
                    i = second_buffer[2 * (e) + 1];

                }
                r *= scale;
                i *= scale;

                float lanes_r[16], lanes_i[16];
                vstore16(r, 0, lanes_r);
                vstore16(i, 0, lanes_i);
                for (int l = 0; l < 16; ++l) {
                    {
                        const index_t to = y_at + (index_t)(e) * y_step + l * y_lane;
                        y_memory[to] = lanes_r[l];
                        y_memory[to + y_part] = lanes_i[l];
                    }
                }

            }

        }
    }
}
