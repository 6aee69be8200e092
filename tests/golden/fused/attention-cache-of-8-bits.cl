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

// softmax(q k' * scale + mask) v of 32 queries, which are the lanes of 2 vectors. Products with
// 96 keys become weights, and these are multiplied with values, before the next keys are read;
// where a larger product than all before is found, what was summed up is scaled.
//
//             queries                 queries
//    keys  [ k q' -> p ]    values' [ sum += v' p ]
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention(
    __global const float *q_heads,
    __global const char *k_heads,
    __global const char *v_heads,
    __global float *y_heads,
    __global float *sums_heads,
    __global const int *length_heads,
    __global const float *bias_heads,
    const float scale,
    const long window,
    const float softcap,
    const int queries,
    const int capacity,
    const int size,
    const int features,
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
    const int v_start,
    const int v_0,
    const int v_1,
    const int v_2,
    const int v_3,
    const int v_row,
    const int y_start,
    const int y_0,
    const int y_1,
    const int y_2,
    const int y_3,
    const int y_row,
    const int sums_start,
    const int sums_0,
    const int sums_1,
    const int sums_2,
    const int sums_3,
    const int sums_row,
    const int length_start,
    const int length_0,
    const int length_1,
    const int length_2,
    const int length_3,
    const int length_row,
    const int bias_start,
    const int bias_0,
    const int bias_1,
    const int bias_2,
    const int bias_3,
    const int bias_row)
{
    __local float transposed[2048];
    __local float weights[3072];
    __local float found[2048];
    const index_t first = (get_num_groups(0) - 1 - get_group_id(0)) * 32;
    const int here = min((index_t)32, queries - first);
    index_t head = get_group_id(1);
    const index_t c3 = head % size_3;
    head /= size_3;
    const index_t c2 = head % size_2;
    head /= size_2;
    const index_t c1 = head % size_1, c0 = head / size_1;
    __global const float *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
    __global const char *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
    __global const char *v_memory = v_heads + v_start + c0 * v_0 + c1 * v_1 + c2 * v_2 + c3 * v_3;
    __global float *y_memory = y_heads + y_start + c0 * y_0 + c1 * y_1 + c2 * y_2 + c3 * y_3;
    __global float *sums_memory = sums_heads + sums_start + c0 * sums_0 + c1 * sums_1 + c2 * sums_2 + c3 * sums_3;
    __global const int *length_memory = length_heads + length_start + c0 * length_0 + c1 * length_1 + c2 * length_2 + c3 * length_3;
    __global const float *bias_memory = bias_heads + bias_start + c0 * bias_0 + c1 * bias_1 + c2 * bias_2 + c3 * bias_3;

    const index_t counted = length_memory[0], keys = clamp(counted, (index_t)0, capacity);
    // Place of the first query among the keys.
    const index_t before = counted - queries;
    for (int lane = 0; lane < 32; ++lane) {
        const index_t query = first + min(lane, here - 1);
        for (index_t e = 0; e < size; ++e)
            transposed[e * 32 + lane] = (float)q_memory[query * q_row + e];
    }
    for (int e = 0; e < 128; ++e)
        vstore16((float16)0, e, found);
    float16 most[2], total[2];
    const float slope = (float)bias_memory[0], sink = (float)bias_memory[1];
    for (int u = 0; u < 2; ++u) {
        most[u] = sink;
        total[u] = sink > -INFINITY;
    }
    const index_t end = min(keys, first + before + here), begin = max((index_t)0, first + before + 1 - (index_t)window);
    for (index_t at = begin; at < end; at += 96) {
        const int count = min((index_t)96, end - at);
        float16 top[2];
        for (int u = 0; u < 2; ++u)
            top[u] = most[u];
        for (int j = 0; j < count; j += 8) {
            float16 sum[8][2];
            __global const char *row[8];
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
                    const float16 factor = (float)row[i][e];
                    #pragma unroll
                    for (int u = 0; u < 2; ++u)
                        sum[i][u] = factor * lanes[u] + sum[i][u];
                }
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] *= as_float(vload4(0, row[i] + size));
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] = sum[i][u] * scale;
            if (softcap > 0)
                #pragma unroll
                for (int i = 0; i < 8; ++i)
                    #pragma unroll
                    for (int u = 0; u < 2; ++u)
                        sum[i][u] = softcap * tanh(sum[i][u] / softcap);
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] += slope * ((float)(int)(at + j + i - first - before - u * 16) - (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
            if (at + j + 7 > first + before || at + j <= first + before + here - 1 - (index_t)window) {
                #pragma unroll
                for (int i = 0; i < 8; ++i)
                    #pragma unroll
                    for (int u = 0; u < 2; ++u) {
                        // The first query that sees this key.
                        const int16 from = (int)(at + j + i - (first + before)) - u * 16;
                        const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                        sum[i][u] = from > lane || from + (int)window <= lane ? (float16)-INFINITY : sum[i][u];
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
        float16 shrunk[2];
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            const float16 zero = top[u] == -INFINITY ? (float16)0 : top[u];  // no key seen yet
            shrunk[u] = exponential(most[u] - zero);
            most[u] = top[u];
            float16 added = 0;
            for (int j = 0; j < count; ++j) {
                const float16 p = exponential(vload16(j * 2 + u, weights) - zero);
                added += p;
                vstore16(p * as_float(vload4(0, v_memory + (at + j) * v_row + features)), j * 2 + u, weights);
            }
            total[u] = total[u] * shrunk[u] + added;
        }
        for (index_t f = 0; f < features; f += 8) {
            float16 sum[8][2];
            index_t column[8];
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                const index_t element = min(f + i, features - 1);
                column[i] = element;
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] = vload16((f + i) * 2 + u, found) * shrunk[u];
            }
            __global const char *row = v_memory + at * v_row;
            for (int j = 0; j < count; ++j, row += v_row) {
                float16 lanes[2];
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    lanes[u] = vload16(u, weights + j * 32);
                #pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const float16 factor = (float)row[column[i]];
                    #pragma unroll
                    for (int u = 0; u < 2; ++u)
                        sum[i][u] = factor * lanes[u] + sum[i][u];
                }
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    vstore16(sum[i][u], (f + i) * 2 + u, found);
        }
    }
    float parts[32], logarithms[32];
    for (int u = 0; u < 2; ++u) {
        // A query that sees no key has no weights.
        vstore16(total[u] == 0 ? (float16)0 : 1 / total[u], u, parts);
        vstore16(most[u] + log(total[u]), u, logarithms);
    }
    for (int lane = 0; lane < here; ++lane) {
        sums_memory[(first + lane) * sums_row] = logarithms[lane];
        for (index_t f = 0; f < features; ++f) {
            y_memory[(first + lane) * y_row + f] = found[f * 32 + lane] * parts[lane];
        }
    }
}
