#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef int index_t;

// e to the power of what is at most 0; below the least normal number 0.
static inline double8 exponential(double8 x)
{
    return exp(x);
}

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define prefetch_line(address) __builtin_prefetch(address)
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#endif

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
// The gradients of softmax(q k' * scale + mask) v. A work-item has every so manieth block of 16 keys,
// the lanes of 2 vectors. For 96 queries at a time weights p are made again, and their
// gradient s; both are added to the gradients of these keys and values, and s, transposed as it
// lies, to what this work-item knows of the queries' gradient. Heads that share a mask are one
// work-item's, so that it adds up what s is in the gradient of the mask.
//
//                keys                     keys                       elements
//    queries  [ k q' -> p ]    values' [ dv += g' p ]    queries [ dq += s k ]
//             [ v g' -> s ]    keys'   [ dk += q' s ]
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention_gradient(
    __global const double *q_heads,
    __global const double *k_heads,
    __global const double *v_heads,
    __global const double *grad_heads,
    __global const double *delta_heads,
    __global double *dq_heads,
    __global double *dk_heads,
    __global double *dv_heads,
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
    const int partial_rows,
    const int partial_size,
    const int shared,
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
    const int grad_start,
    const int grad_0,
    const int grad_1,
    const int grad_2,
    const int grad_3,
    const int grad_row,
    const int grad_step,
    const int delta_start,
    const int delta_0,
    const int delta_1,
    const int delta_2,
    const int delta_3,
    const int delta_row,
    const int dq_start,
    const int dq_0,
    const int dq_1,
    const int dq_2,
    const int dq_3,
    const int dq_row,
    const int dk_start,
    const int dk_0,
    const int dk_1,
    const int dk_2,
    const int dk_3,
    const int dk_row,
    const int dk_step,
    const int dv_start,
    const int dv_0,
    const int dv_1,
    const int dv_2,
    const int dv_3,
    const int dv_row,
    const int dv_step,
    const int mask_start,
    const int mask_0,
    const int mask_1,
    const int mask_2,
    const int mask_3,
    const int mask_row,
    const int mask_step,
    __global const double *rows_memory)
{
    __local double transposed_k[1024];
    __local double transposed_v[1024];
    __local double straight_k[1024];
    __local double found_k[1024];
    __local double found_v[1024];
    __local double weights[1536];
    __local double slopes[1536];
    for (index_t n = 0; n < shared; ++n) {
        index_t head = get_group_id(1) * shared + n;
        const index_t c3 = head % size_3;
        head /= size_3;
        const index_t c2 = head % size_2;
        head /= size_2;
        const index_t c1 = head % size_1, c0 = head / size_1;
        __global const double *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
        __global const double *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
        __global const double *v_memory = v_heads + v_start + c0 * v_0 + c1 * v_1 + c2 * v_2 + c3 * v_3;
        __global const double *grad_memory = grad_heads + grad_start + c0 * grad_0 + c1 * grad_1 + c2 * grad_2 + c3 * grad_3;
        __global const double *delta_memory = delta_heads + delta_start + c0 * delta_0 + c1 * delta_1 + c2 * delta_2 + c3 * delta_3;
        __global double *dq_memory = dq_heads + dq_start + c0 * dq_0 + c1 * dq_1 + c2 * dq_2 + c3 * dq_3;
        __global double *dk_memory = dk_heads + dk_start + c0 * dk_0 + c1 * dk_1 + c2 * dk_2 + c3 * dk_3;
        __global double *dv_memory = dv_heads + dv_start + c0 * dv_0 + c1 * dv_1 + c2 * dv_2 + c3 * dv_3;
        __global const uchar *mask_memory = mask_heads + mask_start + c0 * mask_0 + c1 * mask_1 + c2 * mask_2 + c3 * mask_3;

        dq_memory += get_group_id(0) * partial_rows * dq_row;
        __global const double *rows = rows_memory + (get_group_id(1) * shared + n) * queries * 2;
        for (index_t j = 0; j < partial_rows; ++j)
            for (index_t e = 0; e < partial_size; e += 8)
                vstore8((double8)0, 0, dq_memory + j * dq_row + e);
        for (index_t first = get_group_id(0) * 16; first < keys; first += get_num_groups(0) * 16) {
            const int here = min((index_t)16, keys - first);
            // Lanes past the last key are that key again, and are never stored.
            for (int lane = 0; lane < 16; ++lane) {
                const index_t key = first + min(lane, here - 1);
                for (index_t e = 0; e < partial_size; ++e) {
                    const double element = e < size ? (double)k_memory[key * k_row + e * k_step] : 0;
                    straight_k[lane * partial_size + e] = element * scale;
                    transposed_k[e * 16 + lane] = element;
                }
                for (index_t e = 0; e < features; ++e)
                    transposed_v[e * 16 + lane] = (double)v_memory[key * v_row + e * v_step];
            }
            for (int e = 0; e < 128; ++e)
                vstore8((double8)0, e, found_k);
            for (int e = 0; e < 128; ++e)
                vstore8((double8)0, e, found_v);
            for (index_t at = 0; at < queries; at += 96) {
                const int count = min((index_t)96, queries - at);
                for (int j = 0; j < count; j += 8) {
                    double8 sum[8][2];
                    {
                        __global const double *row[8];
                        // Rows past the last query are that query again, and never looked at.
                        #pragma unroll
                        for (int i = 0; i < 8; ++i) {
                            row[i] = q_memory + (at + min(j + i, count - 1)) * q_row;
                            #pragma unroll
                            for (int u = 0; u < 2; ++u)
                                sum[i][u] = 0;
                        }
                        for (index_t e = 0; e < size; ++e) {
                            double8 lanes[2];
                            #pragma unroll
                            for (int u = 0; u < 2; ++u)
                                lanes[u] = vload8(u, transposed_k + e * 16);
                            #pragma unroll
                            for (int i = 0; i < 8; ++i) {
                                const double8 factor = row[i][e * q_step];
                                #pragma unroll
                                for (int u = 0; u < 2; ++u)
                                    sum[i][u] = factor * lanes[u] + sum[i][u];
                            }
                        }
                    }
                    #pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const index_t query = at + min(j + i, count - 1);
                        const double most = rows[2 * query], logarithm = rows[2 * query + 1];
                        // Rows of a mask are far apart.
                        for (int lane = 0; lane < 16; lane += 64 / (int)sizeof(uchar))
                            prefetch_line(mask_memory + (query + 8) * mask_row + (first + lane) * mask_step);
                        double apart[16];
                        for (int lane = 0; lane < 16; ++lane)
                            apart[lane] = mask_memory[query * mask_row + (first + min(lane, here - 1)) * mask_step] != 0;
                        #pragma unroll
                        for (int u = 0; u < 2; ++u) {
                            sum[i][u] = vload8(u, apart) != 0 ? sum[i][u] * scale : (double8)-INFINITY;
                            // Where rounding makes it more than the sum that it is a part of, it is all of it.
                            const double8 part = sum[i][u] - most;
                            vstore8(exponential((part > 0 ? (double8)0 : part) - logarithm), (j + i) * 2 + u, weights);
                        }
                    }
                    {
                        __global const double *row[8];
                        // Rows past the last query are that query again, and never looked at.
                        #pragma unroll
                        for (int i = 0; i < 8; ++i) {
                            row[i] = grad_memory + (at + min(j + i, count - 1)) * grad_row;
                            #pragma unroll
                            for (int u = 0; u < 2; ++u)
                                sum[i][u] = 0;
                        }
                        for (index_t e = 0; e < features; ++e) {
                            double8 lanes[2];
                            #pragma unroll
                            for (int u = 0; u < 2; ++u)
                                lanes[u] = vload8(u, transposed_v + e * 16);
                            #pragma unroll
                            for (int i = 0; i < 8; ++i) {
                                const double8 factor = row[i][e * grad_step];
                                #pragma unroll
                                for (int u = 0; u < 2; ++u)
                                    sum[i][u] = factor * lanes[u] + sum[i][u];
                            }
                        }
                    }
                    #pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const index_t query = at + min(j + i, count - 1);
                        const double less = (double)delta_memory[query * delta_row];
                        const index_t block = query / drop_rows, begin = block * drop_rows;
                        const ulong rows = min(drop_rows, queries - begin);
                        const ulong seen = keys;
                        const ulong call = first_call + block, place = (get_group_id(1) * rows + (query - begin)) * seen;
                        const ulong8 places = place + first + (ulong8)(0, 1, 2, 3, 4, 5, 6, 7);
                        #pragma unroll
                        for (int u = 0; u < 2; ++u) {
                            const int at_lanes = (j + i) * 2 + u;
                            const double8 drawn = cp_uniform_lanes(seed, (ulong8)call, places + u * 8);
                            const double8 kept = drawn < drop_below ? (double8)0 : (double8)drop_scale, p = vload8(at_lanes, weights);
                            vstore8(p * kept, at_lanes, weights);
                            vstore8(p * (sum[i][u] * kept - less), at_lanes, slopes);
                        }
                    }
                }
                for (index_t e = 0; e < features; e += 8) {
                    double8 sum[8][2];
                    index_t column[8];
                    #pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const index_t element = min(e + i, features - 1);
                        column[i] = element * grad_step;
                        #pragma unroll
                        for (int u = 0; u < 2; ++u)
                            sum[i][u] = vload8((e + i) * 2 + u, found_v);
                    }
                    __global const double *row = grad_memory + at * grad_row;
                    for (int j = 0; j < count; ++j, row += grad_row) {
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
                            vstore8(sum[i][u], (e + i) * 2 + u, found_v);
                }
                for (index_t e = 0; e < size; e += 8) {
                    double8 sum[8][2];
                    index_t column[8];
                    #pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const index_t element = min(e + i, size - 1);
                        column[i] = element * q_step;
                        #pragma unroll
                        for (int u = 0; u < 2; ++u)
                            sum[i][u] = vload8((e + i) * 2 + u, found_k);
                    }
                    __global const double *row = q_memory + at * q_row;
                    for (int j = 0; j < count; ++j, row += q_row) {
                        double8 lanes[2];
                        #pragma unroll
                        for (int u = 0; u < 2; ++u)
                            lanes[u] = vload8(u, slopes + j * 16);
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
                            vstore8(sum[i][u], (e + i) * 2 + u, found_k);
                }
                for (int j = 0; j < count; j += 4)
                    for (index_t e = 0; e < partial_size; e += 32) {
                        __global double *there = dq_memory + (at + j) * dq_row + e;
                        double8 sum[4][4];
                        #pragma unroll
                        for (int i = 0; i < 4; ++i)
                            #pragma unroll
                            for (int u = 0; u < 4; ++u)
                                sum[i][u] = vload8(u, there + i * dq_row);
                        for (int lane = 0; lane < here; ++lane) {
                            double8 part[4];
                            #pragma unroll
                            for (int u = 0; u < 4; ++u)
                                part[u] = vload8(u, straight_k + lane * partial_size + e);
                            #pragma unroll
                            for (int i = 0; i < 4; ++i) {
                                const double8 factor = slopes[(j + i) * 16 + lane];
                                #pragma unroll
                                for (int u = 0; u < 4; ++u)
                                    sum[i][u] = factor * part[u] + sum[i][u];
                            }
                        }
                        #pragma unroll
                        for (int i = 0; i < 4; ++i)
                            #pragma unroll
                            for (int u = 0; u < 4; ++u)
                                vstore8(sum[i][u], u, there + i * dq_row);
                    }
            }
            for (int lane = 0; lane < here; ++lane) {
                for (index_t e = 0; e < size; ++e) {
                    dk_memory[(first + lane) * dk_row + e * dk_step] = found_k[e * 16 + lane] * scale;
                }
                for (index_t e = 0; e < features; ++e) {
                    dv_memory[(first + lane) * dv_row + e * dv_step] = found_v[e * 16 + lane];
                }
            }
        }
    }
}
