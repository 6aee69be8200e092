#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef int index_t;

// e to the power of what is at most 0; below the least normal number 0.
static inline double8 exponential(double8 x)
{
    return exp(x);
}

// The sum of the lanes of `a` in the first half of those of the result, by pairs, of `b` in the second.
static inline double8 pairs(double8 a, double8 b)
{
    return (double8)(a.even + a.odd, b.even + b.odd);
}

// softmax(q k' * scale + mask) v of few queries: a work-item has a slice of a head's keys. 8 rows of keys
// are multiplied with a query at a time, lane by lane, and their sums become one vector; 96 of them
// become weights, and these are multiplied with values, before the next keys are read; where a
// larger product than all before is found, what was summed up is scaled.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention_few(
    __global const double *q_heads,
    __global const double *k_heads,
    __global const double *v_heads,
    __global double *y_heads,
    __global double *sums_heads,
    __global const double *mask_heads,
    const double scale,
    const int queries,
    const int keys,
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
    const int mask_start,
    const int mask_0,
    const int mask_1,
    const int mask_2,
    const int mask_3,
    const int mask_row,
    const int mask_step)
{
    __local double scaled[384];
    __local double found[384];
    index_t head = get_group_id(1);
    const index_t c3 = head % size_3;
    head /= size_3;
    const index_t c2 = head % size_2;
    head /= size_2;
    const index_t c1 = head % size_1, c0 = head / size_1;
    __global const double *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
    __global const double *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
    __global const double *v_memory = v_heads + v_start + c0 * v_0 + c1 * v_1 + c2 * v_2 + c3 * v_3;
    __global double *y_memory = y_heads + y_start + c0 * y_0 + c1 * y_1 + c2 * y_2 + c3 * y_3;
    __global double *sums_memory = sums_heads + sums_start + c0 * sums_0 + c1 * sums_1 + c2 * sums_2 + c3 * sums_3;
    __global const double *mask_memory = mask_heads + mask_start + c0 * mask_0 + c1 * mask_1 + c2 * mask_2 + c3 * mask_3;

    y_memory += get_group_id(0) * y_slice;
    sums_memory += get_group_id(0) * sums_slice;
    const index_t share = (keys + get_num_groups(0) - 1) / get_num_groups(0);
    const index_t begin = min(keys, (index_t)get_group_id(0) * share), end = min(keys, begin + share);
    double most[6];
    double8 total[6];
    for (int i = 0; i < queries; ++i) {
        for (index_t e = 0; e < size; ++e)
            scaled[i * 64 + e] = (double)q_memory[i * q_row + e];
        for (index_t f = 0; f < features; ++f)
            found[i * 64 + f] = 0;
        most[i] = -INFINITY;
        total[i] = 0;
    }
    for (index_t at = begin; at < end; at += 96) {
        const int count = min((index_t)96, end - at);
        for (int i = 0; i < queries; ++i) {
            double weights[96];
            double8 top = most[i];
            for (int j = 0; j < count; j += 8) {
                __global const double *row[8];
                double8 sum[8];
                // Rows past the last key are that key again, and weigh nothing.
                #pragma unroll
                for (int lane = 0; lane < 8; ++lane) {
                    row[lane] = k_memory + (at + min(j + lane, count - 1)) * k_row;
                    sum[lane] = 0;
                }
                for (index_t e = 0; e < size; e += 8) {
                    const double8 part = vload8(0, scaled + i * 64 + e);
                    #pragma unroll
                    for (int lane = 0; lane < 8; ++lane) {
                        __global const double *k_memory = row[lane];
                        sum[lane] += part * vload8(0, k_memory + e);
                    }
                }
                #pragma unroll
                for (int left = 4; left; left /= 2)
                    #pragma unroll
                    for (int n = 0; n < left; ++n)
                        sum[n] = pairs(sum[2 * n], sum[2 * n + 1]);
                double apart[8];
                for (int lane = 0; lane < 8; ++lane)
                    apart[lane] = (double)mask_memory[i * mask_row + (at + min(j + lane, count - 1)) * mask_step];
                double8 score = sum[0] * scale + vload8(0, apart);
                vstore8(score, 0, weights + j);
                for (int lane = count - j; lane < 8; ++lane)
                    weights[j + lane] = -INFINITY;
                score = vload8(0, weights + j);
                top = score > top ? score : top;
            }
            double lanes[8], largest = -INFINITY;
            vstore8(top, 0, lanes);
            for (int lane = 0; lane < 8; ++lane)
                largest = lanes[lane] > largest ? lanes[lane] : largest;
            const double zero = largest == -INFINITY ? 0 : largest;  // no key seen yet
            const double shrunk = exponential((double8)(most[i] - zero)).s0;
            most[i] = largest;
            total[i] *= shrunk;
            for (int j = 0; j < count; j += 8) {
                const double8 p = exponential(vload8(0, weights + j) - zero);
                total[i] += p;
                vstore8(p, 0, weights + j);
            }
            for (index_t f = 0; f < features; f += 32) {
                __local double *there = found + i * 64 + f;
                double8 sum[4];
                #pragma unroll
                for (int u = 0; u < 4; ++u)
                    sum[u] = vload8(u, there) * shrunk;
                for (int j = 0; j < count; ++j)
                    #pragma unroll
                    for (int u = 0; u < 4; ++u)
                        sum[u] += weights[j] * vload8(0, v_memory + (at + j) * v_row + f + u * 8);
                #pragma unroll
                for (int u = 0; u < 4; ++u)
                    vstore8(sum[u], u, there);
            }
        }
    }
    for (int i = 0; i < queries; ++i) {
        double lanes[8], all = 0;
        vstore8(total[i], 0, lanes);
        for (int lane = 0; lane < 8; ++lane)
            all += lanes[lane];
        // A query that sees no key has no weights.
        const double part = all == 0 ? 0 : 1 / all;
        sums_memory[i * sums_row] = most[i] + log(all);
        for (index_t f = 0; f < features; ++f) {
            y_memory[i * y_row + f] = found[i * 64 + f] * part;
        }
    }
}
