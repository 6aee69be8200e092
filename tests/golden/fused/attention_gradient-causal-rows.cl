typedef int index_t;

// e to the power of what is at most 0; below the least normal number 0.
static inline float16 exponential(float16 x)
{
    x = x < -88.02969f ? (float16)-88.02969f : x;
    // The nearest whole number is what stays of a sum of this size, in its last bits.
    const float16 whole = x * M_LOG2E_F + 12582912.0f;
    const float16 rest = x * M_LOG2E_F - (whole - 12582912.0f);
    float16 y = rest * 1.5403530e-4f + 1.3333558e-3f;
    y = y * rest + 9.6181291e-3f;
    y = y * rest + 5.5504109e-2f;
    y = y * rest + 2.4022651e-1f;
    y = y * rest + 6.9314718e-1f;
    y = y * rest + 1.0f;
    return y * as_float16((as_int16(whole) << 23) + 0x3f800000);
}

// What the weights of 32 queries are made again from, as exp(score - most - logarithm). Of a large
// logarithm of a sum rounding has taken what tells the number of keys, and of it alone both are
// found anew; else they are that logarithm and 0.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention_rows(
    __global const float *q_heads,
    __global const float *k_heads,
    __global const float *sums_heads,
    const float scale,
    const int queries,
    const int keys,
    const int size,
    const int size_0,
    const int size_1,
    const int size_2,
    const int size_3,
    const int q_start,
    const int q_0,
    const int q_1,
    const int q_2,
    const int q_3,
    const int q_row,
    const int k_start,
    const int k_0,
    const int k_1,
    const int k_2,
    const int k_3,
    const int k_row,
    const int sums_start,
    const int sums_0,
    const int sums_1,
    const int sums_2,
    const int sums_3,
    const int sums_row,
    __global float *rows_memory)
{
    __local float transposed[2048];
    __local float weights[3072];
    const index_t first = get_group_id(0) * 32;
    const int here = min((index_t)32, queries - first);
    index_t head = get_group_id(1);
    const index_t c3 = head % size_3;
    head /= size_3;
    const index_t c2 = head % size_2;
    head /= size_2;
    const index_t c1 = head % size_1, c0 = head / size_1;
    __global const float *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
    __global const float *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
    __global const float *sums_memory = sums_heads + sums_start + c0 * sums_0 + c1 * sums_1 + c2 * sums_2 + c3 * sums_3;

    __global float *rows = rows_memory + (get_group_id(1) * queries + first) * 2;
    int large = 0;
    for (int lane = 0; lane < here; ++lane) {
        const float known = (float)sums_memory[(first + lane) * sums_row];
        // A query that sees no key has no weights.
        rows[2 * lane] = known == -INFINITY ? INFINITY : known;
        rows[2 * lane + 1] = 0;
        large |= fabs(known) >= 64 && fabs(known) < INFINITY;
    }
    if (!large)
        return;
    for (int lane = 0; lane < 32; ++lane) {
        const index_t query = first + min(lane, here - 1);
        for (index_t e = 0; e < size; ++e)
            transposed[e * 32 + lane] = (float)q_memory[query * q_row + e];
    }
    float16 most[2], total[2];
    for (int u = 0; u < 2; ++u) {
        most[u] = -INFINITY;
        total[u] = 0;
    }
    const index_t end = min(keys, first + here);
    for (index_t at = 0; at < end; at += 96) {
        const int count = min((index_t)96, end - at);
        float16 top[2];
        for (int u = 0; u < 2; ++u)
            top[u] = most[u];
        for (int j = 0; j < count; j += 8) {
            float16 sum[8][2];
            __global const float *row[8];
            // Rows past the last key are that key again, and never looked at.
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                row[i] = k_memory + (at + min(j + i, count - 1)) * k_row;
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] = 0;
            }
            for (index_t e = 0; e < size; ++e) {
                float16 lanes[2];
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    lanes[u] = vload16(u, transposed + e * 32);
                #pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const float16 factor = row[i][e];
                    #pragma unroll
                    for (int u = 0; u < 2; ++u)
                        sum[i][u] = factor * lanes[u] + sum[i][u];
                }
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] = sum[i][u] * scale;
            if (at + j + 7 > first) {
                #pragma unroll
                for (int i = 0; i < 8; ++i)
                    #pragma unroll
                    for (int u = 0; u < 2; ++u) {
                        // The first query that sees this key.
                        const int16 from = (int)(at + j + i - first) - u * 16;
                        sum[i][u] = from > (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) ? (float16)-INFINITY : sum[i][u];
                    }
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u) {
                    top[u] = sum[i][u] > top[u] ? sum[i][u] : top[u];
                    vstore16(sum[i][u], (j + i) * 2 + u, weights);
                }
        }
        for (int u = 0; u < 2; ++u) {
            const float16 zero = top[u] == -INFINITY ? (float16)0 : top[u];  // no key seen yet
            total[u] *= exponential(most[u] - zero);
            most[u] = top[u];
            for (int j = 0; j < count; ++j)
                total[u] += exponential(vload16(j * 2 + u, weights) - zero);
        }
    }
    float largest[32], logarithms[32];
    for (int u = 0; u < 2; ++u) {
        vstore16(most[u], u, largest);
        vstore16(log(total[u]), u, logarithms);
    }
    for (int lane = 0; lane < here; ++lane)
        if (fabs(rows[2 * lane]) >= 64 && fabs(rows[2 * lane]) < INFINITY) {
            rows[2 * lane] = largest[lane];
            rows[2 * lane + 1] = logarithms[lane];
        }
}
