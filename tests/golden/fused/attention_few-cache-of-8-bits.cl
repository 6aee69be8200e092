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

// The sum of the lanes of `a` in the first half of those of the result, by pairs, of `b` in the second.
static inline float16 pairs(float16 a, float16 b)
{
    return (float16)(a.even + a.odd, b.even + b.odd);
}

// softmax(q k' * scale + mask) v of few queries: a work-item has a slice of a head's keys. 16 rows of keys
// are multiplied with a query at a time, lane by lane, and their sums become one vector; 96 of them
// become weights, and these are multiplied with values, before the next keys are read; where a
// larger product than all before is found, what was summed up is scaled.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention_few(
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
    const int y_slice,
    const int sums_slice,
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
    __local float scaled[384];
    __local float found[384];
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

    y_memory += get_group_id(0) * y_slice;
    sums_memory += get_group_id(0) * sums_slice;
    const index_t counted = length_memory[0], keys = clamp(counted, (index_t)0, capacity);
    // All queries are at the last key.
    const index_t least = clamp(counted - (index_t)window, (index_t)0, keys);
    const index_t share = (keys - least + get_num_groups(0) - 1) / get_num_groups(0);
    const index_t begin = min(keys, least + (index_t)get_group_id(0) * share), end = min(keys, begin + share);
    float most[6];
    float16 total[6];
    float slope[6];
    for (int i = 0; i < queries; ++i) {
        for (index_t e = 0; e < size; ++e)
            scaled[i * 64 + e] = (float)q_memory[i * q_row + e];
        for (index_t f = 0; f < features; ++f)
            found[i * 64 + f] = 0;
        most[i] = -INFINITY;
        total[i] = 0;
        slope[i] = (float)bias_memory[i * bias_row];
        const float sink = (float)bias_memory[i * bias_row + 1];
        if (get_group_id(0) == 0 && sink > -INFINITY) {
            most[i] = sink;
            total[i].s0 = 1;
        }
    }
    for (index_t at = begin; at < end; at += 96) {
        const int count = min((index_t)96, end - at);
        for (int i = 0; i < queries; ++i) {
            float weights[96];
            float16 top = most[i];
            for (int j = 0; j < count; j += 16) {
                __global const char *row[16];
                float16 sum[16];
                // Rows past the last key are that key again, and weigh nothing.
                #pragma unroll
                for (int lane = 0; lane < 16; ++lane) {
                    row[lane] = k_memory + (at + min(j + lane, count - 1)) * k_row;
                    sum[lane] = 0;
                }
                for (index_t e = 0; e < size; e += 16) {
                    const float16 part = vload16(0, scaled + i * 64 + e);
                    #pragma unroll
                    for (int lane = 0; lane < 16; ++lane) {
                        __global const char *k_memory = row[lane];
                        sum[lane] += part * convert_float16(vload16(0, k_memory + e));
                    }
                }
                #pragma unroll
                for (int left = 8; left; left /= 2)
                    #pragma unroll
                    for (int n = 0; n < left; ++n)
                        sum[n] = pairs(sum[2 * n], sum[2 * n + 1]);
                float scales[16];
                for (int lane = 0; lane < 16; ++lane)
                    scales[lane] = as_float(vload4(0, row[lane] + size));
                sum[0] *= vload16(0, scales);
                float16 score = sum[0] * scale;
                if (softcap > 0)
                    score = softcap * tanh(score / softcap);
                score += slope[i] * ((float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + (float)(int)(at + j + 1 - counted));
                vstore16(score, 0, weights + j);
                for (int lane = count - j; lane < 16; ++lane)
                    weights[j + lane] = -INFINITY;
                score = vload16(0, weights + j);
                top = score > top ? score : top;
            }
            float lanes[16], largest = -INFINITY;
            vstore16(top, 0, lanes);
            for (int lane = 0; lane < 16; ++lane)
                largest = lanes[lane] > largest ? lanes[lane] : largest;
            const float zero = largest == -INFINITY ? 0 : largest;  // no key seen yet
            const float shrunk = exponential((float16)(most[i] - zero)).s0;
            most[i] = largest;
            total[i] *= shrunk;
            for (int j = 0; j < count; j += 16) {
                const float16 p = exponential(vload16(0, weights + j) - zero);
                total[i] += p;
                float scales[16];
                for (int lane = 0; lane < 16; ++lane)
                    scales[lane] = as_float(vload4(0, v_memory + (at + min(j + lane, count - 1)) * v_row + features));
                vstore16(p * vload16(0, scales), 0, weights + j);
            }
            for (index_t f = 0; f < features; f += 64) {
                __local float *there = found + i * 64 + f;
                float16 sum[4];
                #pragma unroll
                for (int u = 0; u < 4; ++u)
                    sum[u] = vload16(u, there) * shrunk;
                for (int j = 0; j < count; ++j)
                    #pragma unroll
                    for (int u = 0; u < 4; ++u)
                        sum[u] += weights[j] * convert_float16(vload16(0, v_memory + (at + j) * v_row + f + u * 16));
                #pragma unroll
                for (int u = 0; u < 4; ++u)
                    vstore16(sum[u], u, there);
            }
        }
    }
    for (int i = 0; i < queries; ++i) {
        float lanes[16], all = 0;
        vstore16(total[i], 0, lanes);
        for (int lane = 0; lane < 16; ++lane)
            all += lanes[lane];
        // What is joined later: a logarithm of the sum may be too coarse for that.
        sums_memory[i * sums_row] = most[i];
        sums_memory[i * sums_row + 1] = all;
        for (index_t f = 0; f < features; ++f) {
            y_memory[i * y_row + f] = found[i * 64 + f];
        }
    }
}
