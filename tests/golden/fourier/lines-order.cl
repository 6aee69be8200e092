// Transforms of 16 numbers = 16, 16 neighbouring ones side by side, by
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

static inline void butterfly_16(float16 *r, float16 *i)
{
    float16 a_r[4], a_i[4];
    float16 b_r[4][4], b_i[4][4];
    a_r[0] = r[0];
    a_i[0] = i[0];
    a_r[1] = r[4];
    a_i[1] = i[4];
    a_r[2] = r[8];
    a_i[2] = i[8];
    a_r[3] = r[12];
    a_i[3] = i[12];
    butterfly_4(a_r, a_i);
    b_r[0][0] = a_r[0];
    b_i[0][0] = a_i[0];
    b_r[1][0] = a_r[1];
    b_i[1][0] = a_i[1];
    b_r[2][0] = a_r[2];
    b_i[2][0] = a_i[2];
    b_r[3][0] = a_r[3];
    b_i[3][0] = a_i[3];
    a_r[0] = r[1];
    a_i[0] = i[1];
    a_r[1] = r[5];
    a_i[1] = i[5];
    a_r[2] = r[9];
    a_i[2] = i[9];
    a_r[3] = r[13];
    a_i[3] = i[13];
    butterfly_4(a_r, a_i);
    b_r[0][1] = a_r[0];
    b_i[0][1] = a_i[0];
    b_r[1][1] = a_r[1] * 0.9238795042037964f + a_i[1] * 0.3826834261417389f;
    b_i[1][1] = a_i[1] * 0.9238795042037964f - a_r[1] * 0.3826834261417389f;
    b_r[2][1] = a_r[2] * 0.7071067690849304f + a_i[2] * 0.7071067690849304f;
    b_i[2][1] = a_i[2] * 0.7071067690849304f - a_r[2] * 0.7071067690849304f;
    b_r[3][1] = a_r[3] * 0.3826834261417389f + a_i[3] * 0.9238795042037964f;
    b_i[3][1] = a_i[3] * 0.3826834261417389f - a_r[3] * 0.9238795042037964f;
    a_r[0] = r[2];
    a_i[0] = i[2];
    a_r[1] = r[6];
    a_i[1] = i[6];
    a_r[2] = r[10];
    a_i[2] = i[10];
    a_r[3] = r[14];
    a_i[3] = i[14];
    butterfly_4(a_r, a_i);
    b_r[0][2] = a_r[0];
    b_i[0][2] = a_i[0];
    b_r[1][2] = a_r[1] * 0.7071067690849304f + a_i[1] * 0.7071067690849304f;
    b_i[1][2] = a_i[1] * 0.7071067690849304f - a_r[1] * 0.7071067690849304f;
    b_r[2][2] = a_i[2];
    b_i[2][2] = -a_r[2];
    b_r[3][2] = a_r[3] * (-0.7071067690849304f) + a_i[3] * 0.7071067690849304f;
    b_i[3][2] = a_i[3] * (-0.7071067690849304f) - a_r[3] * 0.7071067690849304f;
    a_r[0] = r[3];
    a_i[0] = i[3];
    a_r[1] = r[7];
    a_i[1] = i[7];
    a_r[2] = r[11];
    a_i[2] = i[11];
    a_r[3] = r[15];
    a_i[3] = i[15];
    butterfly_4(a_r, a_i);
    b_r[0][3] = a_r[0];
    b_i[0][3] = a_i[0];
    b_r[1][3] = a_r[1] * 0.3826834261417389f + a_i[1] * 0.9238795042037964f;
    b_i[1][3] = a_i[1] * 0.3826834261417389f - a_r[1] * 0.9238795042037964f;
    b_r[2][3] = a_r[2] * (-0.7071067690849304f) + a_i[2] * 0.7071067690849304f;
    b_i[2][3] = a_i[2] * (-0.7071067690849304f) - a_r[2] * 0.7071067690849304f;
    b_r[3][3] = a_r[3] * (-0.9238795042037964f) + a_i[3] * (-0.3826834261417389f);
    b_i[3][3] = a_i[3] * (-0.9238795042037964f) - a_r[3] * (-0.3826834261417389f);
    butterfly_4(b_r[0], b_i[0]);
    r[0] = b_r[0][0];
    i[0] = b_i[0][0];
    r[4] = b_r[0][1];
    i[4] = b_i[0][1];
    r[8] = b_r[0][2];
    i[8] = b_i[0][2];
    r[12] = b_r[0][3];
    i[12] = b_i[0][3];
    butterfly_4(b_r[1], b_i[1]);
    r[1] = b_r[1][0];
    i[1] = b_i[1][0];
    r[5] = b_r[1][1];
    i[5] = b_i[1][1];
    r[9] = b_r[1][2];
    i[9] = b_i[1][2];
    r[13] = b_r[1][3];
    i[13] = b_i[1][3];
    butterfly_4(b_r[2], b_i[2]);
    r[2] = b_r[2][0];
    i[2] = b_i[2][0];
    r[6] = b_r[2][1];
    i[6] = b_i[2][1];
    r[10] = b_r[2][2];
    i[10] = b_i[2][2];
    r[14] = b_r[2][3];
    i[14] = b_i[2][3];
    butterfly_4(b_r[3], b_i[3]);
    r[3] = b_r[3][0];
    i[3] = b_i[3][0];
    r[7] = b_r[3][1];
    i[7] = b_i[3][1];
    r[11] = b_r[3][2];
    i[11] = b_i[3][2];
    r[15] = b_r[3][3];
    i[15] = b_i[3][3];
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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fourier_16(
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
    __local float16 first_buffer[34];
    __local float16 second_buffer[34];
    const __global float *roots = table_memory + 2 * root;
    const index_t across = (lines + 15) / 16;
    const index_t begin = (index_t)get_group_id(0) * per_group;
    const index_t end = min(begin + per_group, tiles);
    for (index_t tile = begin; tile < end; ++tile) {
        index_t rest = tile / across;
        const index_t line = min((tile - rest * across) * 16, max(lines - 16, (index_t)0));
        index_t x_at = x_start + line * x_lane, y_at = y_start + line * y_lane;
        float16 kept_r, kept_i;
        {
            int e = 0;
            for (; e + 8 <= 17; e += 8) {
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
            for (; e < 17; ++e) {
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
            kept_r = first_buffer[2 * (0)];
            kept_i = first_buffer[2 * (0) + 1];

        }
        {
            for (int p = 0; p < 1; ++p) {
                for (int q = 0; q < 1; ++q) {
                    const int b = p * 1 + q;
                    float16 rs[16], is[16];
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 0)]);
                        rs[0] = first_buffer[at];
                        is[0] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 1)]);
                        rs[1] = first_buffer[at];
                        is[1] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 2)]);
                        rs[2] = first_buffer[at];
                        is[2] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 3)]);
                        rs[3] = first_buffer[at];
                        is[3] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 4)]);
                        rs[4] = first_buffer[at];
                        is[4] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 5)]);
                        rs[5] = first_buffer[at];
                        is[5] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 6)]);
                        rs[6] = first_buffer[at];
                        is[6] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 7)]);
                        rs[7] = first_buffer[at];
                        is[7] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 8)]);
                        rs[8] = first_buffer[at];
                        is[8] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 9)]);
                        rs[9] = first_buffer[at];
                        is[9] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 10)]);
                        rs[10] = first_buffer[at];
                        is[10] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 11)]);
                        rs[11] = first_buffer[at];
                        is[11] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 12)]);
                        rs[12] = first_buffer[at];
                        is[12] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 13)]);
                        rs[13] = first_buffer[at];
                        is[13] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 14)]);
                        rs[14] = first_buffer[at];
                        is[14] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * ((int)table_memory[2 * (order + b + 15)]);
                        rs[15] = first_buffer[at];
                        is[15] = first_buffer[at + 1];
                    }
                    butterfly_16(rs, is);
                    {
                        float16 r = rs[0], i = is[0];
                        const float16 sum_r = r, sum_i = i;
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 0)], f_i = table_memory[2 * (filter + q + 16 * p + 0) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        if (b == 0) {
                            r += kept_r;
                            i += kept_i;
                            kept_r += sum_r;
                            kept_i += sum_i;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 0);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[1], i = is[1];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 1)], f_i = table_memory[2 * (filter + q + 16 * p + 1) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 1);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[2], i = is[2];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 2)], f_i = table_memory[2 * (filter + q + 16 * p + 2) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 2);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[3], i = is[3];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 3)], f_i = table_memory[2 * (filter + q + 16 * p + 3) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 3);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[4], i = is[4];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 4)], f_i = table_memory[2 * (filter + q + 16 * p + 4) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 4);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[5], i = is[5];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 5)], f_i = table_memory[2 * (filter + q + 16 * p + 5) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 5);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[6], i = is[6];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 6)], f_i = table_memory[2 * (filter + q + 16 * p + 6) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 6);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[7], i = is[7];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 7)], f_i = table_memory[2 * (filter + q + 16 * p + 7) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 7);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[8], i = is[8];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 8)], f_i = table_memory[2 * (filter + q + 16 * p + 8) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 8);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[9], i = is[9];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 9)], f_i = table_memory[2 * (filter + q + 16 * p + 9) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 9);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[10], i = is[10];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 10)], f_i = table_memory[2 * (filter + q + 16 * p + 10) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 10);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[11], i = is[11];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 11)], f_i = table_memory[2 * (filter + q + 16 * p + 11) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 11);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[12], i = is[12];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 12)], f_i = table_memory[2 * (filter + q + 16 * p + 12) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 12);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[13], i = is[13];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 13)], f_i = table_memory[2 * (filter + q + 16 * p + 13) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 13);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[14], i = is[14];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 14)], f_i = table_memory[2 * (filter + q + 16 * p + 14) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 14);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[15], i = is[15];
                        {
                            const float f_r = table_memory[2 * (filter + q + 16 * p + 15)], f_i = table_memory[2 * (filter + q + 16 * p + 15) + 1];
                            const float16 f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float16 swapped = r;
                        r = i;
                        i = swapped;
                        const int at = 2 * (q + 16 * p + 15);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }

                }
            }

        }
        {
            for (int p = 0; p < 1; ++p) {
                for (int q = 0; q < 1; ++q) {
                    const int b = p * 1 + q;
                    float16 rs[16], is[16];
                    {
                        const int at = 2 * (b + 0);
                        rs[0] = second_buffer[at];
                        is[0] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 1);
                        rs[1] = second_buffer[at];
                        is[1] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 2);
                        rs[2] = second_buffer[at];
                        is[2] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 3);
                        rs[3] = second_buffer[at];
                        is[3] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 4);
                        rs[4] = second_buffer[at];
                        is[4] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 5);
                        rs[5] = second_buffer[at];
                        is[5] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 6);
                        rs[6] = second_buffer[at];
                        is[6] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 7);
                        rs[7] = second_buffer[at];
                        is[7] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 8);
                        rs[8] = second_buffer[at];
                        is[8] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 9);
                        rs[9] = second_buffer[at];
                        is[9] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 10);
                        rs[10] = second_buffer[at];
                        is[10] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 11);
                        rs[11] = second_buffer[at];
                        is[11] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 12);
                        rs[12] = second_buffer[at];
                        is[12] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 13);
                        rs[13] = second_buffer[at];
                        is[13] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 14);
                        rs[14] = second_buffer[at];
                        is[14] = second_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 15);
                        rs[15] = second_buffer[at];
                        is[15] = second_buffer[at + 1];
                    }
                    butterfly_16(rs, is);
                    {
                        float16 r = rs[0], i = is[0];
                        const int at = 2 * (q + 16 * p + 0);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[1], i = is[1];
                        const int at = 2 * (q + 16 * p + 1);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[2], i = is[2];
                        const int at = 2 * (q + 16 * p + 2);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[3], i = is[3];
                        const int at = 2 * (q + 16 * p + 3);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[4], i = is[4];
                        const int at = 2 * (q + 16 * p + 4);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[5], i = is[5];
                        const int at = 2 * (q + 16 * p + 5);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[6], i = is[6];
                        const int at = 2 * (q + 16 * p + 6);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[7], i = is[7];
                        const int at = 2 * (q + 16 * p + 7);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[8], i = is[8];
                        const int at = 2 * (q + 16 * p + 8);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[9], i = is[9];
                        const int at = 2 * (q + 16 * p + 9);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[10], i = is[10];
                        const int at = 2 * (q + 16 * p + 10);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[11], i = is[11];
                        const int at = 2 * (q + 16 * p + 11);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[12], i = is[12];
                        const int at = 2 * (q + 16 * p + 12);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[13], i = is[13];
                        const int at = 2 * (q + 16 * p + 13);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[14], i = is[14];
                        const int at = 2 * (q + 16 * p + 14);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }
                    {
                        float16 r = rs[15], i = is[15];
                        const int at = 2 * (q + 16 * p + 15);
                        first_buffer[at] = r;
                        first_buffer[at + 1] = i;
                    }

                }
            }

        }
        {
            int e = 0;
            for (; e + 8 <= 17; e += 8) {
                float16 rows[16];
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    float16 r, i;
                    {
                        const int k = e + j, at = 2 * ((int)table_memory[2 * (order + k) + 1]);
                        r = k ? first_buffer[at] : kept_i;
                        i = k ? first_buffer[at + 1] : kept_r;

                    }
                    const float16 swapped = r;
                    r = i;
                    i = swapped;
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
            for (; e < 17; ++e) {
                float16 r, i;
                {
                    const int k = e, at = 2 * ((int)table_memory[2 * (order + k) + 1]);
                    r = k ? first_buffer[at] : kept_i;
                    i = k ? first_buffer[at + 1] : kept_r;

                }
                const float16 swapped = r;
                r = i;
                i = swapped;
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
