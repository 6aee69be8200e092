// Transforms of 15 numbers = 5 x 3, a work-group each, by
// Stockham's passes: from place b + j * n / R to q + s * (R * p + k), where b = p * s + q, and s is
// the product of the radices before. Numbers that follow in memory come and go as squares, turned.
typedef int index_t;

static inline void butterfly_5(float *r, float *i)
{
    const float r_0 = r[0], i_0 = i[0];
    const float sum_r1 = r[1] + r[4], sum_i1 = i[1] + i[4];
    const float minus_r1 = r[1] - r[4], minus_i1 = i[1] - i[4];
    const float sum_r2 = r[2] + r[3], sum_i2 = i[2] + i[3];
    const float minus_r2 = r[2] - r[3], minus_i2 = i[2] - i[3];
    r[0] = r_0 + sum_r1 + sum_r2;
    i[0] = i_0 + sum_i1 + sum_i2;
    {
        const float c_r = r_0 + sum_r1 * 0.30901700258255005f + sum_r2 * (-0.80901700258255f);
        const float c_i = i_0 + sum_i1 * 0.30901700258255005f + sum_i2 * (-0.80901700258255f);
        const float s_r = minus_r1 * 0.9510565400123596f + minus_r2 * 0.5877852439880371f;
        const float s_i = minus_i1 * 0.9510565400123596f + minus_i2 * 0.5877852439880371f;
        r[1] = c_r + s_i;
        i[1] = c_i - s_r;
        r[4] = c_r - s_i;
        i[4] = c_i + s_r;
    }
    {
        const float c_r = r_0 + sum_r1 * (-0.80901700258255f) + sum_r2 * 0.30901700258255005f;
        const float c_i = i_0 + sum_i1 * (-0.80901700258255f) + sum_i2 * 0.30901700258255005f;
        const float s_r = minus_r1 * 0.5877852439880371f + minus_r2 * (-0.9510565400123596f);
        const float s_i = minus_i1 * 0.5877852439880371f + minus_i2 * (-0.9510565400123596f);
        r[2] = c_r + s_i;
        i[2] = c_i - s_r;
        r[3] = c_r - s_i;
        i[3] = c_i + s_r;
    }
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

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void fourier_15(
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
    __local float2 first_buffer[120];
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
            for (int b = first; b < 3; b += 4) {
                const int p = b / 1;
                const int q = b - p * 1;
                const float2 w_1 = ((const __global float2 *)roots)[p * 1];
                const float w_r1 = w_1.x, w_i1 = w_1.y;
                const float2 w_2 = ((const __global float2 *)roots)[p * 2];
                const float w_r2 = w_2.x, w_i2 = w_2.y;
                const float2 w_3 = ((const __global float2 *)roots)[p * 3];
                const float w_r3 = w_3.x, w_i3 = w_3.y;
                const float2 w_4 = ((const __global float2 *)roots)[p * 4];
                const float w_r4 = w_4.x, w_i4 = w_4.y;
                float rs[5], is[5];
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 0) * x_step + lane * x_lane;
                    const float2 both = *(const __global float2 *)(x_memory + from);
                    r = both.x;
                    i = both.y;

                    rs[0] = r;
                    is[0] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 3) * x_step + lane * x_lane;
                    const float2 both = *(const __global float2 *)(x_memory + from);
                    r = both.x;
                    i = both.y;

                    rs[1] = r;
                    is[1] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 6) * x_step + lane * x_lane;
                    const float2 both = *(const __global float2 *)(x_memory + from);
                    r = both.x;
                    i = both.y;

                    rs[2] = r;
                    is[2] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 9) * x_step + lane * x_lane;
                    const float2 both = *(const __global float2 *)(x_memory + from);
                    r = both.x;
                    i = both.y;

                    rs[3] = r;
                    is[3] = i;
                }
                {
                    float r, i;
                    index_t from = x_at + (index_t)(b + 12) * x_step + lane * x_lane;
                    const float2 both = *(const __global float2 *)(x_memory + from);
                    r = both.x;
                    i = both.y;

                    rs[4] = r;
                    is[4] = i;
                }
                butterfly_5(rs, is);
                {
                    float r = rs[0], i = is[0];
                    const int at = (q + 5 * p + 0) * 8 + lane;
                    first_buffer[at] = (float2)(r, i);
                }
                {
                    float r = rs[1], i = is[1];
                    const float turned = r * w_r1 - i * w_i1;
                    i = r * w_i1 + i * w_r1;
                    r = turned;
                    const int at = (q + 5 * p + 1) * 8 + lane;
                    first_buffer[at] = (float2)(r, i);
                }
                {
                    float r = rs[2], i = is[2];
                    const float turned = r * w_r2 - i * w_i2;
                    i = r * w_i2 + i * w_r2;
                    r = turned;
                    const int at = (q + 5 * p + 2) * 8 + lane;
                    first_buffer[at] = (float2)(r, i);
                }
                {
                    float r = rs[3], i = is[3];
                    const float turned = r * w_r3 - i * w_i3;
                    i = r * w_i3 + i * w_r3;
                    r = turned;
                    const int at = (q + 5 * p + 3) * 8 + lane;
                    first_buffer[at] = (float2)(r, i);
                }
                {
                    float r = rs[4], i = is[4];
                    const float turned = r * w_r4 - i * w_i4;
                    i = r * w_i4 + i * w_r4;
                    r = turned;
                    const int at = (q + 5 * p + 4) * 8 + lane;
                    first_buffer[at] = (float2)(r, i);
                }

            }
            barrier(CLK_LOCAL_MEM_FENCE);

        }
        {
            for (int b = first; b < 5; b += 4) {
                const int p = b / 5;
                const int q = b - p * 5;
                float rs[3], is[3];
                {
                    const int at = (b + 0) * 8 + lane;
                    rs[0] = first_buffer[at].x;
                    is[0] = first_buffer[at].y;
                }
                {
                    const int at = (b + 5) * 8 + lane;
                    rs[1] = first_buffer[at].x;
                    is[1] = first_buffer[at].y;
                }
                {
                    const int at = (b + 10) * 8 + lane;
                    rs[2] = first_buffer[at].x;
                    is[2] = first_buffer[at].y;
                }
                butterfly_3(rs, is);
                {
                    float r = rs[0], i = is[0];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 15 * p + 0) * y_step + lane * y_lane;
                        *(__global float2 *)(y_memory + to) = (float2)(r, i);
                    }

                }
                {
                    float r = rs[1], i = is[1];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 15 * p + 5) * y_step + lane * y_lane;
                        *(__global float2 *)(y_memory + to) = (float2)(r, i);
                    }

                }
                {
                    float r = rs[2], i = is[2];
                    r *= scale;
                    i *= scale;

                    {
                        const index_t to = y_at + (index_t)(q + 15 * p + 10) * y_step + lane * y_lane;
                        *(__global float2 *)(y_memory + to) = (float2)(r, i);
                    }

                }

            }
            barrier(CLK_LOCAL_MEM_FENCE);

        }
    }
}
