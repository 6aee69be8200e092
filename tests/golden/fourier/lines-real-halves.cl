// Pairs of real numbers: their transform from that of the pairs.
//
//     dimension 0 of the launch: 4096 numbers of a line
//     dimension 1 of the launch: lines
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void halves(
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
    const int k0,
    const int x_k0,
    const int y_k0,
    const int in_k0,
    const int out_k0,
    const float scale)
{
    index_t rest = (index_t)get_global_id(1), x_at = x_start, y_at = y_start;
    const int begin = (int)get_global_id(0) * 4096, end = min(begin + 4096, (int)(points + 1));
    {
        const index_t at = rest % k0;
        rest /= k0;
        x_at += at * x_k0;
        y_at += at * y_k0;
    }
    for (int k = begin; k < end;) {
        if (k > 0 && k + 16 <= min(end, (int)points)) {
            const __global float *from = x_memory + x_at + 2 * (index_t)k, *back = x_memory + x_at + 2 * (points - 15 - k);
            const float16 a = vload16(0, from), b = vload16(1, from), c = vload16(0, back), d = vload16(1, back);
            const float16 e = vload16(0, table_memory + 2 * (halves + k)), f = vload16(1, table_memory + 2 * (halves + k));
            const float16 a_r = (float16)(a.even, b.even), a_i = (float16)(a.odd, b.odd);
            const float16 back_r = (float16)(c.even, d.even), back_i = (float16)(c.odd, d.odd);
            const float16 b_r = back_r.sfedcba9876543210, b_i = back_i.sfedcba9876543210;
            const float16 t_r = (float16)(e.even, f.even), t_i = (float16)(e.odd, f.odd);
            float16 r, i;
            const float16 d_r = a_r - b_r, d_i = a_i + b_i;
            r = a_r + b_r + (t_r * d_r - t_i * d_i);
            i = a_i - b_i + (t_r * d_i + t_i * d_r);
            r *= scale / 2;
            i *= scale / 2;

            vstore16((float16)(r.s0, i.s0, r.s1, i.s1, r.s2, i.s2, r.s3, i.s3, r.s4, i.s4, r.s5, i.s5, r.s6, i.s6, r.s7, i.s7), 0, y_memory + y_at + 2 * (index_t)k);
            vstore16((float16)(r.s8, i.s8, r.s9, i.s9, r.sa, i.sa, r.sb, i.sb, r.sc, i.sc, r.sd, i.sd, r.se, i.se, r.sf, i.sf), 1, y_memory + y_at + 2 * (index_t)k);

            k += 16;
            continue;
        }
        const int a = k == points ? 0 : k, b = k == 0 ? 0 : (int)points - k;
        float a_r = 0, a_i = 0;
        {
            const index_t from = x_at + (index_t)a * x_step;
            a_r = x_memory[from];
            a_i = x_memory[from + x_part];
        }
        float b_r = 0, b_i = 0;
        {
            const index_t from = x_at + (index_t)b * x_step;
            b_r = x_memory[from];
            b_i = x_memory[from + x_part];
        }
        const float t_r = table_memory[2 * (halves + k)], t_i = table_memory[2 * (halves + k) + 1];
        float r, i;
        const float d_r = a_r - b_r, d_i = a_i + b_i;
        r = a_r + b_r + (t_r * d_r - t_i * d_i);
        i = a_i - b_i + (t_r * d_i + t_i * d_r);
        r *= scale / 2;
        i *= scale / 2;

        const index_t to = y_at + (index_t)k * y_step;
        y_memory[to] = r;
        y_memory[to + y_part] = i;
        ++k;
    }
}
