#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef int index_t;

// e to the power of what is at most 0; below the least normal number 0.
static inline double8 exponential(double8 x)
{
    return exp(x);
}

// What the weights of 16 queries are made again from, as exp(score - most - logarithm). Of a large
// logarithm of a sum rounding has taken what tells the number of keys, and of it alone both are
// found anew; else they are that logarithm and 0.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention_rows(
    __global const double *q_heads,
    __global const double *k_heads,
    __global const double *sums_heads,
    __global const uchar *mask_heads,
    const double scale,
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
    const int q_step,
    const int k_start,
    const int k_0,
    const int k_1,
    const int k_2,
    const int k_3,
    const int k_row,
    const int k_step,
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
    const int mask_step,
    __global double *rows_memory)
{
    __local double transposed[1024];
    __local double weights[1536];
    const index_t first = get_group_id(0) * 16;
    const int here = min((index_t)16, queries - first);
    index_t head = get_group_id(1);
    const index_t c3 = head % size_3;
    head /= size_3;
    const index_t c2 = head % size_2;
    head /= size_2;
    const index_t c1 = head % size_1, c0 = head / size_1;
    __global const double *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
    __global const double *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
    __global const double *sums_memory = sums_heads + sums_start + c0 * sums_0 + c1 * sums_1 + c2 * sums_2 + c3 * sums_3;
    __global const uchar *mask_memory = mask_heads + mask_start + c0 * mask_0 + c1 * mask_1 + c2 * mask_2 + c3 * mask_3;

    __global double *rows = rows_memory + (get_group_id(1) * queries + first) * 2;
    int large = 0;
    for (int lane = 0; lane < here; ++lane) {
        const double known = (double)sums_memory[(first + lane) * sums_row];
        // A query that sees no key has no weights.
        rows[2 * lane] = known == -INFINITY ? INFINITY : known;
        rows[2 * lane + 1] = 0;
        large |= fabs(known) >= 64 && fabs(known) < INFINITY;
    }
    if (!large)
        return;
    for (int lane = 0; lane < 16; ++lane) {
        const index_t query = first + min(lane, here - 1);
        for (index_t e = 0; e < size; ++e)
            transposed[e * 16 + lane] = (double)q_memory[query * q_row + e * q_step];
    }
    double8 most[2], total[2];
    for (int u = 0; u < 2; ++u) {
        most[u] = -INFINITY;
        total[u] = 0;
    }
    const index_t end = keys;
    for (index_t at = 0; at < end; at += 96) {
        const int count = min((index_t)96, end - at);
        double8 top[2];
        for (int u = 0; u < 2; ++u)
            top[u] = most[u];
        for (int j = 0; j < count; j += 8) {
            double8 sum[8][2];
            __global const double *row[8];
            // Rows past the last key are that key again, and never looked at.
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                row[i] = k_memory + (at + min(j + i, count - 1)) * k_row;
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] = 0;
            }
            for (index_t e = 0; e < size; ++e) {
                double8 lanes[2];
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    lanes[u] = vload8(u, transposed + e * 16);
                #pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const double8 factor = row[i][e * k_step];
                    #pragma unroll
                    for (int u = 0; u < 2; ++u)
                        sum[i][u] = factor * lanes[u] + sum[i][u];
                }
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                const double shared = mask_memory[(at + min(j + i, count - 1)) * mask_step] != 0;
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] = (double8)shared != 0 ? sum[i][u] * scale : (double8)-INFINITY;
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u) {
                    top[u] = sum[i][u] > top[u] ? sum[i][u] : top[u];
                    vstore8(sum[i][u], (j + i) * 2 + u, weights);
                }
        }
        for (int u = 0; u < 2; ++u) {
            const double8 zero = top[u] == -INFINITY ? (double8)0 : top[u];  // no key seen yet
            total[u] *= exponential(most[u] - zero);
            most[u] = top[u];
            for (int j = 0; j < count; ++j)
                total[u] += exponential(vload8(j * 2 + u, weights) - zero);
        }
    }
    double largest[16], logarithms[16];
    for (int u = 0; u < 2; ++u) {
        vstore8(most[u], u, largest);
        vstore8(log(total[u]), u, logarithms);
    }
    for (int lane = 0; lane < here; ++lane)
        if (fabs(rows[2 * lane]) >= 64 && fabs(rows[2 * lane]) < INFINITY) {
            rows[2 * lane] = largest[lane];
            rows[2 * lane + 1] = logarithms[lane];
        }
}
