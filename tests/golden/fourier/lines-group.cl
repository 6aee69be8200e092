// Transforms of 64 numbers = 8 x 8, a work-group each, by
// Stockham's passes: from place b + j * n / R to q + s * (R * p + k), where b = p * s + q, and s is
// the product of the radices before. Numbers that follow in memory come and go as squares, turned.
typedef int index_t;

static inline void butterfly_2(float *r, float *i)
{
    const float r_0 = r[0], i_0 = i[0];
    r[0] = r_0 + r[1];
    i[0] = i_0 + i[1];
    r[1] = r_0 - r[1];
    i[1] = i_0 - i[1];
}

static inline void butterfly_4(float *r, float *i)
{
    float a_r[2], a_i[2];
    float b_r[2][2], b_i[2][2];
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

static inline void butterfly_8(float *r, float *i)
{
    float a_r[2], a_i[2];
    float b_r[2][4], b_i[2][4];
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

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void fourier_64(
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
    __local float first_buffer[1024];
    const __global float *roots = table_memory + 2 * root;
    const int lane = (int)get_local_id(0) % 8;
    const int first = (int)get_local_id(0) / 8;
    const index_t across = (lines + 7) / 8;
    const index_t begin = (index_t)get_group_id(0) * per_group;
    const index_t end = min(begin + per_group, tiles);
    for (index_t tile = begin; tile < end; ++tile) {
        index_t rest = tile / across;
        const index_t line = min((tile - rest * across) * 8, max(lines - 8, (index_t)0));
        index_t x_at = x_start + line * x_lane, y_at = y_start + line * y_lane;
        {
            for (int b = first; b < 8; b += 8) {
                const int p = b / 1;
                const int q = b - p * 1;
                const float w_r1 = roots[p * 2], w_i1 = roots[p * 2 + 1];
                const float w_r2 = roots[p * 4], w_i2 = roots[p * 4 + 1];
                const float w_r3 = roots[p * 6], w_i3 = roots[p * 6 + 1];
                const float w_r4 = roots[p * 8], w_i4 = roots[p * 8 + 1];
                const float w_r5 = roots[p * 10], w_i5 = roots[p * 10 + 1];
                const float w_r6 = roots[p * 12], w_i6 = roots[p * 12 + 1];
                const float w_r7 = roots[p * 14], w_i7 = roots[p * 14 + 1];
                float rs[8], is[8];
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 0) * x_step + lane * x_lane;
                    r = x_memory[from];
                    i = x_memory[from + x_part];

                    rs[0] = r;
                    is[0] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 8) * x_step + lane * x_lane;
                    r = x_memory[from];
                    i = x_memory[from + x_part];

                    rs[1] = r;
                    is[1] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 16) * x_step + lane * x_lane;
                    r = x_memory[from];
                    i = x_memory[from + x_part];

                    rs[2] = r;
                    is[2] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 24) * x_step + lane * x_lane;
                    r = x_memory[from];
                    i = x_memory[from + x_part];

                    rs[3] = r;
                    is[3] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 32) * x_step + lane * x_lane;
                    r = x_memory[from];
                    i = x_memory[from + x_part];

                    rs[4] = r;
                    is[4] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 40) * x_step + lane * x_lane;
                    r = x_memory[from];
                    i = x_memory[from + x_part];

                    rs[5] = r;
                    is[5] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 48) * x_step + lane * x_lane;
                    r = x_memory[from];
                    i = x_memory[from + x_part];

                    rs[6] = r;
                    is[6] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 56) * x_step + lane * x_lane;
                    r = x_memory[from];
                    i = x_memory[from + x_part];

                    rs[7] = r;
                    is[7] = i;
                }
                butterfly_8(rs, is);
                {
                    float r = rs[0], i = is[0];
                    const int at = 2 * ((q + 8 * p + 0) * 8 + lane);
                    first_buffer[at] = r;
                    first_buffer[at + 1] = i;
                }
                {
                    float r = rs[1], i = is[1];
                    const float turned = r * w_r1 - i * w_i1;
                    i = r * w_i1 + i * w_r1;
                    r = turned;
                    const int at = 2 * ((q + 8 * p + 1) * 8 + lane);
                    first_buffer[at] = r;
                    first_buffer[at + 1] = i;
                }
                {
                    float r = rs[2], i = is[2];
                    const float turned = r * w_r2 - i * w_i2;
                    i = r * w_i2 + i * w_r2;
                    r = turned;
                    const int at = 2 * ((q + 8 * p + 2) * 8 + lane);
                    first_buffer[at] = r;
                    first_buffer[at + 1] = i;
                }
                {
                    float r = rs[3], i = is[3];
                    const float turned = r * w_r3 - i * w_i3;
                    i = r * w_i3 + i * w_r3;
                    r = turned;
                    const int at = 2 * ((q + 8 * p + 3) * 8 + lane);
                    first_buffer[at] = r;
                    first_buffer[at + 1] = i;
                }
                {
                    float r = rs[4], i = is[4];
                    const float turned = r * w_r4 - i * w_i4;
                    i = r * w_i4 + i * w_r4;
                    r = turned;
                    const int at = 2 * ((q + 8 * p + 4) * 8 + lane);
                    first_buffer[at] = r;
                    first_buffer[at + 1] = i;
                }
                {
                    float r = rs[5], i = is[5];
                    const float turned = r * w_r5 - i * w_i5;
                    i = r * w_i5 + i * w_r5;
                    r = turned;
                    const int at = 2 * ((q + 8 * p + 5) * 8 + lane);
                    first_buffer[at] = r;
                    first_buffer[at + 1] = i;
                }
                {
                    float r = rs[6], i = is[6];
                    const float turned = r * w_r6 - i * w_i6;
                    i = r * w_i6 + i * w_r6;
                    r = turned;
                    const int at = 2 * ((q + 8 * p + 6) * 8 + lane);
                    first_buffer[at] = r;
                    first_buffer[at + 1] = i;
                }
                {
                    float r = rs[7], i = is[7];
                    const float turned = r * w_r7 - i * w_i7;
                    i = r * w_i7 + i * w_r7;
                    r = turned;
                    const int at = 2 * ((q + 8 * p + 7) * 8 + lane);
                    first_buffer[at] = r;
                    first_buffer[at + 1] = i;
                }

            }
            barrier(CLK_LOCAL_MEM_FENCE);

        }
        {
            for (int b = first; b < 8; b += 8) {
                const int p = b / 8;
                const int q = b - p * 8;
                float rs[8], is[8];
                {
                    const int at = 2 * ((b + 0) * 8 + lane);
                    rs[0] = first_buffer[at];
                    is[0] = first_buffer[at + 1];
                }
                {
                    const int at = 2 * ((b + 8) * 8 + lane);
                    rs[1] = first_buffer[at];
                    is[1] = first_buffer[at + 1];
                }
                {
                    const int at = 2 * ((b + 16) * 8 + lane);
                    rs[2] = first_buffer[at];
                    is[2] = first_buffer[at + 1];
                }
                {
                    const int at = 2 * ((b + 24) * 8 + lane);
                    rs[3] = first_buffer[at];
                    is[3] = first_buffer[at + 1];
                }
                {
                    const int at = 2 * ((b + 32) * 8 + lane);
                    rs[4] = first_buffer[at];
                    is[4] = first_buffer[at + 1];
                }
                {
                    const int at = 2 * ((b + 40) * 8 + lane);
                    rs[5] = first_buffer[at];
                    is[5] = first_buffer[at + 1];
                }
                {
                    const int at = 2 * ((b + 48) * 8 + lane);
                    rs[6] = first_buffer[at];
                    is[6] = first_buffer[at + 1];
                }
                {
                    const int at = 2 * ((b + 56) * 8 + lane);
                    rs[7] = first_buffer[at];
                    is[7] = first_buffer[at + 1];
                }
                butterfly_8(rs, is);
                {
                    float r = rs[0], i = is[0];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 64 * p + 0) * y_step + lane * y_lane;
                        y_memory[to] = r;
                        y_memory[to + y_part] = i;
                    }

                }
                {
                    float r = rs[1], i = is[1];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 64 * p + 8) * y_step + lane * y_lane;
                        y_memory[to] = r;
                        y_memory[to + y_part] = i;
                    }

                }
                {
                    float r = rs[2], i = is[2];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 64 * p + 16) * y_step + lane * y_lane;
                        y_memory[to] = r;
                        y_memory[to + y_part] = i;
                    }

                }
                {
                    float r = rs[3], i = is[3];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 64 * p + 24) * y_step + lane * y_lane;
                        y_memory[to] = r;
                        y_memory[to + y_part] = i;
                    }

                }
                {
                    float r = rs[4], i = is[4];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 64 * p + 32) * y_step + lane * y_lane;
                        y_memory[to] = r;
                        y_memory[to + y_part] = i;
                    }

                }
                {
                    float r = rs[5], i = is[5];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 64 * p + 40) * y_step + lane * y_lane;
                        y_memory[to] = r;
                        y_memory[to + y_part] = i;
                    }

                }
                {
                    float r = rs[6], i = is[6];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 64 * p + 48) * y_step + lane * y_lane;
                        y_memory[to] = r;
                        y_memory[to + y_part] = i;
                    }

                }
                {
                    float r = rs[7], i = is[7];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 64 * p + 56) * y_step + lane * y_lane;
                        y_memory[to] = r;
                        y_memory[to + y_part] = i;
                    }

                }

            }
            barrier(CLK_LOCAL_MEM_FENCE);

        }
    }
}
