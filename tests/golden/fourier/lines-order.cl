// Transforms of 18 numbers = 2 x 3 x 3, 1 neighbouring ones side by side, by
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

static inline void butterfly_3(float *r, float *i)
{
    const float r_0 = r[0], i_0 = i[0];
    const float sum_r1 = r[1] + r[2], sum_i1 = i[1] + i[2];
    const float minus_r1 = r[1] - r[2], minus_i1 = i[1] - i[2];
    r[0] = r_0 + sum_r1;
    i[0] = i_0 + sum_i1;
    {
        const float c_r = r_0 + sum_r1 * (-0.5f);
        const float c_i = i_0 + sum_i1 * (-0.5f);
        const float s_r = minus_r1 * 0.8660253882408142f;
        const float s_i = minus_i1 * 0.8660253882408142f;
        r[1] = c_r + s_i;
        i[1] = c_i - s_r;
        r[2] = c_r - s_i;
        i[2] = c_i + s_r;
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fourier_18(
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
    __local float2 first_buffer[19];
    __local float2 second_buffer[19];
    const __global float *roots = table_memory + 2 * root;
    const int lane = 0;
    const index_t across = (lines + 0) / 1;
    const index_t begin = (index_t)get_group_id(0) * per_group;
    const index_t end = min(begin + per_group, tiles);
    for (index_t tile = begin; tile < end; ++tile) {
        index_t rest = tile / across;
        const index_t line = min((tile - rest * across) * 1, max(lines - 1, (index_t)0));
        index_t x_at = x_start + line * x_lane, y_at = y_start + line * y_lane;
        float kept_r, kept_i;
        {
            int e = 0;
            for (; e < 19; ++e) {
                float r, i;
                index_t from = x_at + (index_t)(e) * x_step + lane * x_lane;
                const float2 both = *(const __global float2 *)(x_memory + from);
                r = both.x;
                i = both.y;

                first_buffer[e] = (float2)(r, i);
            }
            kept_r = first_buffer[0].x;
            kept_i = first_buffer[0].y;

        }
        {
            for (int p = 0; p < 9; ++p) {
                const float2 w_1 = ((const __global float2 *)roots)[p * 1];
                const float w_r1 = w_1.x, w_i1 = w_1.y;
                for (int q = 0; q < 1; ++q) {
                    const int b = p * 1 + q;
                    float rs[2], is[2];
                    {
                        const int at = (int)table_memory[2 * (order + b + 0)];
                        rs[0] = first_buffer[at].x;
                        is[0] = first_buffer[at].y;
                    }
                    {
                        const int at = (int)table_memory[2 * (order + b + 9)];
                        rs[1] = first_buffer[at].x;
                        is[1] = first_buffer[at].y;
                    }
                    butterfly_2(rs, is);
                    {
                        float r = rs[0], i = is[0];
                        const int at = q + 2 * p + 0;
                        second_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[1], i = is[1];
                        const float turned = r * w_r1 - i * w_i1;
                        i = r * w_i1 + i * w_r1;
                        r = turned;
                        const int at = q + 2 * p + 1;
                        second_buffer[at] = (float2)(r, i);
                    }

                }
            }

        }
        {
            for (int p = 0; p < 3; ++p) {
                const float2 w_1 = ((const __global float2 *)roots)[p * 2];
                const float w_r1 = w_1.x, w_i1 = w_1.y;
                const float2 w_2 = ((const __global float2 *)roots)[p * 4];
                const float w_r2 = w_2.x, w_i2 = w_2.y;
                for (int q = 0; q < 2; ++q) {
                    const int b = p * 2 + q;
                    float rs[3], is[3];
                    {
                        const int at = b + 0;
                        rs[0] = second_buffer[at].x;
                        is[0] = second_buffer[at].y;
                    }
                    {
                        const int at = b + 6;
                        rs[1] = second_buffer[at].x;
                        is[1] = second_buffer[at].y;
                    }
                    {
                        const int at = b + 12;
                        rs[2] = second_buffer[at].x;
                        is[2] = second_buffer[at].y;
                    }
                    butterfly_3(rs, is);
                    {
                        float r = rs[0], i = is[0];
                        const int at = q + 6 * p + 0;
                        first_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[1], i = is[1];
                        const float turned = r * w_r1 - i * w_i1;
                        i = r * w_i1 + i * w_r1;
                        r = turned;
                        const int at = q + 6 * p + 2;
                        first_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[2], i = is[2];
                        const float turned = r * w_r2 - i * w_i2;
                        i = r * w_i2 + i * w_r2;
                        r = turned;
                        const int at = q + 6 * p + 4;
                        first_buffer[at] = (float2)(r, i);
                    }

                }
            }

        }
        {
            for (int p = 0; p < 1; ++p) {
                for (int q = 0; q < 6; ++q) {
                    const int b = p * 6 + q;
                    float rs[3], is[3];
                    {
                        const int at = b + 0;
                        rs[0] = first_buffer[at].x;
                        is[0] = first_buffer[at].y;
                    }
                    {
                        const int at = b + 6;
                        rs[1] = first_buffer[at].x;
                        is[1] = first_buffer[at].y;
                    }
                    {
                        const int at = b + 12;
                        rs[2] = first_buffer[at].x;
                        is[2] = first_buffer[at].y;
                    }
                    butterfly_3(rs, is);
                    {
                        float r = rs[0], i = is[0];
                        const float sum_r = r, sum_i = i;
                        {
                            const float2 f = ((const __global float2 *)table_memory)[filter + q + 18 * p + 0];
                            const float f_r = f.x, f_i = f.y;
                            const float f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        if (b == 0) {
                            r += kept_r;
                            i += kept_i;
                            kept_r += sum_r;
                            kept_i += sum_i;
                        }
                        const float swapped = r;
                        r = i;
                        i = swapped;
                        const int at = q + 18 * p + 0;
                        second_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[1], i = is[1];
                        {
                            const float2 f = ((const __global float2 *)table_memory)[filter + q + 18 * p + 6];
                            const float f_r = f.x, f_i = f.y;
                            const float f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float swapped = r;
                        r = i;
                        i = swapped;
                        const int at = q + 18 * p + 6;
                        second_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[2], i = is[2];
                        {
                            const float2 f = ((const __global float2 *)table_memory)[filter + q + 18 * p + 12];
                            const float f_r = f.x, f_i = f.y;
                            const float f_0 = r * f_r - i * f_i;
                            i = r * f_i + i * f_r;
                            r = f_0;
                        }
                        const float swapped = r;
                        r = i;
                        i = swapped;
                        const int at = q + 18 * p + 12;
                        second_buffer[at] = (float2)(r, i);
                    }

                }
            }

        }
        {
            for (int p = 0; p < 9; ++p) {
                const float2 w_1 = ((const __global float2 *)roots)[p * 1];
                const float w_r1 = w_1.x, w_i1 = w_1.y;
                for (int q = 0; q < 1; ++q) {
                    const int b = p * 1 + q;
                    float rs[2], is[2];
                    {
                        const int at = b + 0;
                        rs[0] = second_buffer[at].x;
                        is[0] = second_buffer[at].y;
                    }
                    {
                        const int at = b + 9;
                        rs[1] = second_buffer[at].x;
                        is[1] = second_buffer[at].y;
                    }
                    butterfly_2(rs, is);
                    {
                        float r = rs[0], i = is[0];
                        const int at = q + 2 * p + 0;
                        first_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[1], i = is[1];
                        const float turned = r * w_r1 - i * w_i1;
                        i = r * w_i1 + i * w_r1;
                        r = turned;
                        const int at = q + 2 * p + 1;
                        first_buffer[at] = (float2)(r, i);
                    }

                }
            }

        }
        {
            for (int p = 0; p < 3; ++p) {
                const float2 w_1 = ((const __global float2 *)roots)[p * 2];
                const float w_r1 = w_1.x, w_i1 = w_1.y;
                const float2 w_2 = ((const __global float2 *)roots)[p * 4];
                const float w_r2 = w_2.x, w_i2 = w_2.y;
                for (int q = 0; q < 2; ++q) {
                    const int b = p * 2 + q;
                    float rs[3], is[3];
                    {
                        const int at = b + 0;
                        rs[0] = first_buffer[at].x;
                        is[0] = first_buffer[at].y;
                    }
                    {
                        const int at = b + 6;
                        rs[1] = first_buffer[at].x;
                        is[1] = first_buffer[at].y;
                    }
                    {
                        const int at = b + 12;
                        rs[2] = first_buffer[at].x;
                        is[2] = first_buffer[at].y;
                    }
                    butterfly_3(rs, is);
                    {
                        float r = rs[0], i = is[0];
                        const int at = q + 6 * p + 0;
                        second_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[1], i = is[1];
                        const float turned = r * w_r1 - i * w_i1;
                        i = r * w_i1 + i * w_r1;
                        r = turned;
                        const int at = q + 6 * p + 2;
                        second_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[2], i = is[2];
                        const float turned = r * w_r2 - i * w_i2;
                        i = r * w_i2 + i * w_r2;
                        r = turned;
                        const int at = q + 6 * p + 4;
                        second_buffer[at] = (float2)(r, i);
                    }

                }
            }

        }
        {
            for (int p = 0; p < 1; ++p) {
                for (int q = 0; q < 6; ++q) {
                    const int b = p * 6 + q;
                    float rs[3], is[3];
                    {
                        const int at = b + 0;
                        rs[0] = second_buffer[at].x;
                        is[0] = second_buffer[at].y;
                    }
                    {
                        const int at = b + 6;
                        rs[1] = second_buffer[at].x;
                        is[1] = second_buffer[at].y;
                    }
                    {
                        const int at = b + 12;
                        rs[2] = second_buffer[at].x;
                        is[2] = second_buffer[at].y;
                    }
                    butterfly_3(rs, is);
                    {
                        float r = rs[0], i = is[0];
                        const int at = q + 18 * p + 0;
                        first_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[1], i = is[1];
                        const int at = q + 18 * p + 6;
                        first_buffer[at] = (float2)(r, i);
                    }
                    {
                        float r = rs[2], i = is[2];
                        const int at = q + 18 * p + 12;
                        first_buffer[at] = (float2)(r, i);
                    }

                }
            }

        }
        {
            int e = 0;
            for (; e < 19; ++e) {
                float r, i;
                {
                    const int k = e, at = (int)table_memory[2 * (order + k) + 1];
                    r = k ? first_buffer[at].x : kept_i;
                    i = k ? first_buffer[at].y : kept_r;

                }
                const float swapped = r;
                r = i;
                i = swapped;
                r *= scale;
                i *= scale;

                {
                    const index_t to = y_at + (index_t)(e) * y_step + lane * y_lane;
                    *(__global float2 *)(y_memory + to) = (float2)(r, i);
                }

            }

        }
    }
}
