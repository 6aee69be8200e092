#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef int index_t;

// e to the power of what is at most 0; below the least normal number 0.
static inline double8 exponential(double8 x)
{
    return exp(x);
}

static inline double8 cp_uniform_lanes(ulong seed, ulong8 call, ulong8 position)
{
    const ulong word = 0xffffffff;
    ulong8 x = position, y = position >> 32, z = call, w = call >> 32 << 16;
    uint2 key = (uint2)((uint)seed, (uint)(seed >> 32));
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        const ulong8 first = (x & word) * 0xD2511F53u, second = (z & word) * 0xCD9E8D57u;
        x = second >> 32 ^ y ^ key.x;
        y = second;
        z = first >> 32 ^ w ^ key.y;
        w = first;
        key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return convert_double8((x << 32 | (y & word)) >> 11) * 0x1p-53;
}
// softmax(q k' * scale + mask) v of 16 queries, which are the lanes of 2 vectors. Products with
// 96 keys become weights, and these are multiplied with values, before the next keys are read;
// where a larger product than all before is found, what was summed up is scaled.
//
//             queries                 queries
//    keys  [ k q' -> p ]    values' [ sum += v' p ]
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention(
    __global const double *q_heads,
    __global const double *k_heads,
    __global const double *v_heads,
    __global double *y_heads,
    __global double *sums_heads,
    __global const uchar *mask_heads,
    const double scale,
    const double drop_below,
    const double drop_scale,
    const ulong seed,
    const ulong first_call,
    const int drop_rows,
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
    const int q_step,
    const int k_start,
    const int k_0,
    const int k_1,
    const int k_2,
    const int k_3,
    const int k_row,
    const int k_step,
    const int v_start,
    const int v_0,
    const int v_1,
    const int v_2,
    const int v_3,
    const int v_row,
    const int v_step,
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
    __local double transposed[1024];
    __local double weights[1536];
    __local double found[1024];
    const index_t first = (get_num_groups(0) - 1 - get_group_id(0)) * 16;
    const int here = min((index_t)16, queries - first);
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
    __global const uchar *mask_memory = mask_heads + mask_start + c0 * mask_0 + c1 * mask_1 + c2 * mask_2 + c3 * mask_3;

    for (int lane = 0; lane < 16; ++lane) {
        const index_t query = first + min(lane, here - 1);
        for (index_t e = 0; e < size; ++e)
            transposed[e * 16 + lane] = (double)q_memory[query * q_row + e * q_step];
    }
    for (int e = 0; e < 128; ++e)
        vstore8((double8)0, e, found);
    // Which call draws for a query, and for which element first.
    ulong calls[16], places[16];
    for (int lane = 0; lane < 16; ++lane) {
        const index_t query = first + min(lane, here - 1);
        const index_t block = query / drop_rows, begin = block * drop_rows;
        const ulong rows = min(drop_rows, queries - begin);
        const ulong seen = keys;
        const ulong call = first_call + block, place = (get_group_id(1) * rows + (query - begin)) * seen;
        calls[lane] = call;
        places[lane] = place;
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
            // Along keys a mask is read line by line.
            double apart[128];
            for (int lane = 0; lane < 16; ++lane) {
                const index_t line = (first + min(lane, here - 1)) * mask_row;
                #pragma unroll
                for (int i = 0; i < 8; ++i)
                    apart[i * 16 + lane] = mask_memory[line + (at + min(j + i, count - 1)) * mask_step] != 0;
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] = vload8(i * 2 + u, apart) != 0 ? sum[i][u] * scale : (double8)-INFINITY;
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u) {
                    top[u] = sum[i][u] > top[u] ? sum[i][u] : top[u];
                    vstore8(sum[i][u], (j + i) * 2 + u, weights);
                }
        }
        double8 shrunk[2];
        #pragma unroll
        for (int u = 0; u < 2; ++u) {
            const double8 zero = top[u] == -INFINITY ? (double8)0 : top[u];  // no key seen yet
            shrunk[u] = exponential(most[u] - zero);
            most[u] = top[u];
            double8 added = 0;
            for (int j = 0; j < count; ++j) {
                const double8 p = exponential(vload8(j * 2 + u, weights) - zero);
                added += p;
                const double8 drawn = cp_uniform_lanes(seed, vload8(u, calls), vload8(u, places) + (ulong)(at + j));
                vstore8(drawn < drop_below ? (double8)0 : p, j * 2 + u, weights);
            }
            total[u] = total[u] * shrunk[u] + added;
        }
        for (index_t f = 0; f < features; f += 8) {
            double8 sum[8][2];
            index_t column[8];
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
                const index_t element = min(f + i, features - 1);
                column[i] = element * v_step;
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    sum[i][u] = vload8((f + i) * 2 + u, found) * shrunk[u];
            }
            __global const double *row = v_memory + at * v_row;
            for (int j = 0; j < count; ++j, row += v_row) {
                double8 lanes[2];
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    lanes[u] = vload8(u, weights + j * 16);
                #pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const double8 factor = row[column[i]];
                    #pragma unroll
                    for (int u = 0; u < 2; ++u)
                        sum[i][u] = factor * lanes[u] + sum[i][u];
                }
            }
            #pragma unroll
            for (int i = 0; i < 8; ++i)
                #pragma unroll
                for (int u = 0; u < 2; ++u)
                    vstore8(sum[i][u], (f + i) * 2 + u, found);
        }
    }
    double parts[16], logarithms[16];
    for (int u = 0; u < 2; ++u) {
        // A query that sees no key has no weights.
        vstore8(total[u] == 0 ? (double8)0 : drop_scale / total[u], u, parts);
        vstore8(most[u] + log(total[u]), u, logarithms);
    }
    for (int lane = 0; lane < here; ++lane) {
        sums_memory[(first + lane) * sums_row] = logarithms[lane];
        for (index_t f = 0; f < features; ++f) {
            y_memory[(first + lane) * y_row + f] = found[f * 16 + lane] * parts[lane];
        }
    }
}
