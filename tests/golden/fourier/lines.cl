// Transforms of 8 numbers = 8, 4 neighbouring ones side by side, by
// Stockham's passes: from place b + j * n / R to q + s * (R * p + k), where b = p * s + q, and s is
// the product of the radices before. Numbers that follow in memory come and go as squares, turned.
typedef int index_t;

static inline void butterfly_2(float4 *r, float4 *i)
{
    const float4 r_0 = r[0], i_0 = i[0];
    r[0] = r_0 + r[1];
    i[0] = i_0 + i[1];
    r[1] = r_0 - r[1];
    i[1] = i_0 - i[1];
}

static inline void butterfly_4(float4 *r, float4 *i)
{
    float4 a_r[2], a_i[2];
    float4 b_r[2][2], b_i[2][2];
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

static inline void butterfly_8(float4 *r, float4 *i)
{
    float4 a_r[2], a_i[2];
    float4 b_r[2][4], b_i[2][4];
    a_r[0] = r[0];
    a_i[0] = i[0];
    a_r[1] = r[4];
    a_i[1] = i[4];
    butterfly_2(a_r, a_i);
    b_r[0][0] = a_r[0];
    b_i[0][0] = a_i[0];
    b_r[1][0] = a_r[1];
    b_i[1][0] = a_i[1];
    a_r[0] = r[1];
    a_i[0] = i[1];
    a_r[1] = r[5];
    a_i[1] = i[5];
    butterfly_2(a_r, a_i);
    b_r[0][1] = a_r[0];
    b_i[0][1] = a_i[0];
    b_r[1][1] = a_r[1] * 0.7071067690849304f + a_i[1] * 0.7071067690849304f;
    b_i[1][1] = a_i[1] * 0.7071067690849304f - a_r[1] * 0.7071067690849304f;
    a_r[0] = r[2];
    a_i[0] = i[2];
    a_r[1] = r[6];
    a_i[1] = i[6];
    butterfly_2(a_r, a_i);
    b_r[0][2] = a_r[0];
    b_i[0][2] = a_i[0];
    b_r[1][2] = a_i[1];
    b_i[1][2] = -a_r[1];
    a_r[0] = r[3];
    a_i[0] = i[3];
    a_r[1] = r[7];
    a_i[1] = i[7];
    butterfly_2(a_r, a_i);
    b_r[0][3] = a_r[0];
    b_i[0][3] = a_i[0];
    b_r[1][3] = a_r[1] * (-0.7071067690849304f) + a_i[1] * 0.7071067690849304f;
    b_i[1][3] = a_i[1] * (-0.7071067690849304f) - a_r[1] * 0.7071067690849304f;
    butterfly_4(b_r[0], b_i[0]);
    r[0] = b_r[0][0];
    i[0] = b_i[0][0];
    r[2] = b_r[0][1];
    i[2] = b_i[0][1];
    r[4] = b_r[0][2];
    i[4] = b_i[0][2];
    r[6] = b_r[0][3];
    i[6] = b_i[0][3];
    butterfly_4(b_r[1], b_i[1]);
    r[1] = b_r[1][0];
    i[1] = b_i[1][0];
    r[3] = b_r[1][1];
    i[3] = b_i[1][1];
    r[5] = b_r[1][2];
    i[5] = b_i[1][2];
    r[7] = b_r[1][3];
    i[7] = b_i[1][3];
}

static inline float4 zip_low(float4 a, float4 b)
{
    return (float4)(a.s0, b.s0, a.s1, b.s1);
}
static inline float4 zip_high(float4 a, float4 b)
{
    return (float4)(a.s2, b.s2, a.s3, b.s3);
}
static inline void turn(float4 *rows)
{
    float4 other[4];
    other[0] = zip_low(rows[0], rows[2]);
    other[1] = zip_high(rows[0], rows[2]);
    other[2] = zip_low(rows[1], rows[3]);
    other[3] = zip_high(rows[1], rows[3]);
    rows[0] = zip_low(other[0], other[2]);
    rows[1] = zip_high(other[0], other[2]);
    rows[2] = zip_low(other[1], other[3]);
    rows[3] = zip_high(other[1], other[3]);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fourier_8(
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
    __local float4 first_buffer[16];
    __local float4 second_buffer[16];
    const __global float *roots = table_memory + 2 * root;
    const index_t across = (lines + 3) / 4;
    const index_t begin = (index_t)get_group_id(0) * per_group;
    const index_t end = min(begin + per_group, tiles);
    for (index_t tile = begin; tile < end; ++tile) {
        index_t rest = tile / across;
        const index_t line = min((tile - rest * across) * 4, max(lines - 4, (index_t)0));
        index_t x_at = x_start + line * x_lane, y_at = y_start + line * y_lane;
        {
            int e = 0;
            for (; e + 2 <= 8; e += 2) {
                float4 rows[4];
                #pragma unroll
                for (int l = 0; l < 4; ++l)
                    rows[l] = vload4(0, x_memory + x_at + l * x_lane + 2 * (index_t)e);
                turn(rows);
                #pragma unroll
                for (int k = 0; k < 2; ++k) {
                    float4 r = rows[2 * k], i = rows[2 * k + 1];

                    first_buffer[2 * (e + k)] = r;
                    first_buffer[2 * (e + k) + 1] = i;
                }
            }
            for (; e < 8; ++e) {
                float4 r, i;
                float lanes_r[4], lanes_i[4];
                for (int l = 0; l < 4; ++l) {
                    index_t from = x_at + (index_t)(e) * x_step + l * x_lane;
                    lanes_r[l] = x_memory[from];
                    lanes_i[l] = x_memory[from + x_part];

                }
                r = vload4(0, lanes_r);
                i = vload4(0, lanes_i);

                first_buffer[2 * (e)] = r;
                first_buffer[2 * (e) + 1] = i;
            }

        }
        {
            for (int p = 0; p < 1; ++p) {
                for (int q = 0; q < 1; ++q) {
                    const int b = p * 1 + q;
                    float4 rs[8], is[8];
                    {
                        const int at = 2 * (b + 0);
                        rs[0] = first_buffer[at];
                        is[0] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 1);
                        rs[1] = first_buffer[at];
                        is[1] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 2);
                        rs[2] = first_buffer[at];
                        is[2] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 3);
                        rs[3] = first_buffer[at];
                        is[3] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 4);
                        rs[4] = first_buffer[at];
                        is[4] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 5);
                        rs[5] = first_buffer[at];
                        is[5] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 6);
                        rs[6] = first_buffer[at];
                        is[6] = first_buffer[at + 1];
                    }
                    {
                        const int at = 2 * (b + 7);
                        rs[7] = first_buffer[at];
                        is[7] = first_buffer[at + 1];
                    }
                    butterfly_8(rs, is);
                    {
                        float4 r = rs[0], i = is[0];
                        const int at = 2 * (q + 8 * p + 0);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float4 r = rs[1], i = is[1];
                        const int at = 2 * (q + 8 * p + 1);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float4 r = rs[2], i = is[2];
                        const int at = 2 * (q + 8 * p + 2);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float4 r = rs[3], i = is[3];
                        const int at = 2 * (q + 8 * p + 3);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float4 r = rs[4], i = is[4];
                        const int at = 2 * (q + 8 * p + 4);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float4 r = rs[5], i = is[5];
                        const int at = 2 * (q + 8 * p + 5);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float4 r = rs[6], i = is[6];
                        const int at = 2 * (q + 8 * p + 6);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }
                    {
                        float4 r = rs[7], i = is[7];
                        const int at = 2 * (q + 8 * p + 7);
                        second_buffer[at] = r;
                        second_buffer[at + 1] = i;
                    }

                }
            }

        }
        {
            int e = 0;
            for (; e + 2 <= 8; e += 2) {
                float4 rows[4];
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    float4 r, i;
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
                for (int l = 0; l < 4; ++l)
                    vstore4(rows[l], 0, y_memory + y_at + l * y_lane + 2 * (index_t)e);
            }
            for (; e < 8; ++e) {
                float4 r, i;
                {
                    r = second_buffer[2 * (e)];
                    i = second_buffer[2 * (e) + 1];

                }
                r *= scale;
                i *= scale;

                float lanes_r[4], lanes_i[4];
                vstore4(r, 0, lanes_r);
                vstore4(i, 0, lanes_i);
                for (int l = 0; l < 4; ++l) {
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
