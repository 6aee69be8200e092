typedef int index_t;

#define coord(d) ((d) == -2 ? (long)coord_2 : (d) == -1 ? (long)coord_3 : (d) == 1 ? (long)coord_1 : 0)

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
    __global const float *k_heads,
    __global const float *v_heads,
    __global float *y_heads,
    __global float *sums_heads,
    __global const float *x0_heads,
    __global const float *x1_heads,
    const float scale,
    const int queries,
    const int keys,
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
    const int x0_start,
    const int x0_0,
    const int x0_1,
    const int x0_2,
    const int x0_3,
    const int x0_row,
    const int x0_step,
    const int x1_start,
    const int x1_0,
    const int x1_1,
    const int x1_2,
    const int x1_3,
    const int x1_row,
    const int x1_step,
    const int coord_1_step,
    const int coord_1_size)
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
    const long coord_1 = (get_group_id(1)) / coord_1_step % coord_1_size;
    __global const float *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
    __global const float *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
    __global const float *v_memory = v_heads + v_start + c0 * v_0 + c1 * v_1 + c2 * v_2 + c3 * v_3;
    __global float *y_memory = y_heads + y_start + c0 * y_0 + c1 * y_1 + c2 * y_2 + c3 * y_3;
    __global float *sums_memory = sums_heads + sums_start + c0 * sums_0 + c1 * sums_1 + c2 * sums_2 + c3 * sums_3;
    __global const float *x0_memory = x0_heads + x0_start + c0 * x0_0 + c1 * x0_1 + c2 * x0_2 + c3 * x0_3;
    __global const float *x1_memory = x1_heads + x1_start + c0 * x1_0 + c1 * x1_1 + c2 * x1_2 + c3 * x1_3;

    for (int lane = 0; lane < 32; ++lane) {
        const index_t query = first + min(lane, here - 1);
        for (index_t e = 0; e < size; ++e)
            transposed[e * 32 + lane] = (float)q_memory[query * q_row + e];
    }
    for (int e = 0; e < 128; ++e)
        vstore16((float16)0, e, found);
    float16 most[2], total[2];
    for (int u = 0; u < 2; ++u) {
        most[u] = -INFINITY;
        total[u] = 0;
    }
    const index_t end = keys;
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
            // Along keys arrays are read line by line.
            float x1_apart[256];
            for (int lane = 0; lane < 32; ++lane) {
                const index_t line = (first + min(lane, here - 1)) * x1_row;
                #pragma unroll
                for (int i = 0; i < 8; ++i)
                    x1_apart[i * 32 + lane] = (float)x1_memory[line + (at + min(j + i, count - 1)) * x1_step];
            }
            for (int i = 0; i < 8; ++i)
                for (int u = 0; u < 2; ++u) {
                    sum[i][u] *= scale;
                    {
                        const index_t score_key = at + min(j + i, count - 1), score_first = first + u * 16, score_last = queries - 1;
                        const index_t score_query = score_first;
                        const float16 x5 = (float)coord_1;
                        const float16 x6 = (float)(score_query) + (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), x7 = (float)score_key;
                        typedef float16 typeof_x0;
                        const typeof_x0 x0 = (float)x0_memory[score_query * x0_row + score_key * x0_step];
                        typedef float16 typeof_x1;
                        const float16 x1 = vload16(i * 2 + u, x1_apart);
                        typedef float16 typeof_y0;
                        typedef float16 typeof_x2;
                        typedef float16 typeof_x3;

                        typeof_y0 y0 = sum[i][u];
                        {
#line 1 "snippet:score"
y0 += x0 * (x7 - x6) + x1 + x5;
#line 182 "kernel"
                        }
                        sum[i][u] = y0;
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
                vstore16(p, j * 2 + u, weights);
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
            __global const float *row = v_memory + at * v_row;
            for (int j = 0; j < count; ++j, row += v_row) {
                float16 lanes[2];
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    lanes[u] = vload16(u, weights + j * 32);
                #pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const float16 factor = row[column[i]];
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
