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

static inline float16 cp_uniform_lanes(ulong seed, ulong16 call, ulong16 position)
{
    const ulong word = 0xffffffff;
    ulong16 x = position, y = position >> 32, z = call, w = call >> 32 << 16;
    uint2 key = (uint2)((uint)seed, (uint)(seed >> 32));
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        const ulong16 first = (x & word) * 0xD2511F53u, second = (z & word) * 0xCD9E8D57u;
        x = second >> 32 ^ y ^ key.x;
        y = second;
        z = first >> 32 ^ w ^ key.y;
        w = first;
        key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    const ulong16 bits = (x & word) >> 8;
    return convert_float16((uint16)(convert_uint8(bits.lo), convert_uint8(bits.hi))) * 0x1p-24f;
}
// The gradients of softmax(q k' * scale + mask) v. A work-item has every so manieth block of 32 keys,
// the lanes of 2 vectors. For 96 queries at a time weights p are made again, and their
// gradient s; both are added to the gradients of these keys and values, and s, transposed as it
// lies, to what this work-item knows of the queries' gradient. Heads that share a mask are one
// work-item's, so that it adds up what s is in the gradient of the mask.
//
//                keys                     keys                       elements
//    queries  [ k q' -> p ]    values' [ dv += g' p ]    queries [ dq += s k ]
//             [ v g' -> s ]    keys'   [ dk += q' s ]
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void attention_gradient(
    __global const float *q_heads,
    __global const float *k_heads,
    __global const float *v_heads,
    __global const float *grad_heads,
    __global const float *delta_heads,
    __global float *dq_heads,
    __global float *dk_heads,
    __global float *dv_heads,
    const float scale,
    const float drop_below,
    const float drop_scale,
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
    const int grad_start,
    const int grad_0,
    const int grad_1,
    const int grad_2,
    const int grad_3,
    const int grad_row,
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
    const int dv_start,
    const int dv_0,
    const int dv_1,
    const int dv_2,
    const int dv_3,
    const int dv_row,
    __global const float *rows_memory)
{
    __local float transposed_k[2048];
    __local float transposed_v[2048];
    __local float straight_k[2048];
    __local float found_k[2048];
    __local float found_v[2048];
    __local float weights[3072];
    __local float slopes[3072];
    for (index_t n = 0; n < shared; ++n) {
        index_t head = get_group_id(1) * shared + n;
        const index_t c3 = head % size_3;
        head /= size_3;
        const index_t c2 = head % size_2;
        head /= size_2;
        const index_t c1 = head % size_1, c0 = head / size_1;
        __global const float *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
        __global const float *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
        __global const float *v_memory = v_heads + v_start + c0 * v_0 + c1 * v_1 + c2 * v_2 + c3 * v_3;
        __global const float *grad_memory = grad_heads + grad_start + c0 * grad_0 + c1 * grad_1 + c2 * grad_2 + c3 * grad_3;
        __global const float *delta_memory = delta_heads + delta_start + c0 * delta_0 + c1 * delta_1 + c2 * delta_2 + c3 * delta_3;
        __global float *dq_memory = dq_heads + dq_start + c0 * dq_0 + c1 * dq_1 + c2 * dq_2 + c3 * dq_3;
        __global float *dk_memory = dk_heads + dk_start + c0 * dk_0 + c1 * dk_1 + c2 * dk_2 + c3 * dk_3;
        __global float *dv_memory = dv_heads + dv_start + c0 * dv_0 + c1 * dv_1 + c2 * dv_2 + c3 * dv_3;

        dq_memory += get_group_id(0) * partial_rows * dq_row;
        __global const float *rows = rows_memory + (get_group_id(1) * shared + n) * queries * 2;
        for (index_t j = 0; j < partial_rows; ++j)
            for (index_t e = 0; e < partial_size; e += 16)
                vstore16((float16)0, 0, dq_memory + j * dq_row + e);
        for (index_t first = get_group_id(0) * 32; first < keys; first += get_num_groups(0) * 32) {
            const int here = min((index_t)32, keys - first);
            // Lanes past the last key are that key again, and are never stored.
            for (int lane = 0; lane < 32; ++lane) {
                const index_t key = first + min(lane, here - 1);
                for (index_t e = 0; e < partial_size; ++e) {
                    const float element = e < size ? (float)k_memory[key * k_row + e] : 0;
                    straight_k[lane * partial_size + e] = element * scale;
                    transposed_k[e * 32 + lane] = element;
                }
                for (index_t e = 0; e < features; ++e)
                    transposed_v[e * 32 + lane] = (float)v_memory[key * v_row + e];
            }
            for (int e = 0; e < 128; ++e)
                vstore16((float16)0, e, found_k);
            for (int e = 0; e < 128; ++e)
                vstore16((float16)0, e, found_v);
            // No query before the first key sees any.
            for (index_t at = first / 96 * 96; at < queries; at += 96) {
                const int count = min((index_t)96, queries - at);
                for (int j = 0; j < count; j += 8) {
                    float16 sum[8][2];
                    {
                        __global const float *row[8];
                        // Rows past the last query are that query again, and never looked at.
                        #pragma unroll
                        for (int i = 0; i < 8; ++i) {
                            row[i] = q_memory + (at + min(j + i, count - 1)) * q_row;
                            #pragma unroll
                            for (int u = 0; u < 2; ++u)
                                sum[i][u] = 0;
                        }
                        for (index_t e = 0; e < size; ++e) {
                            float16 lanes[2];
                            #pragma unroll
                            for (int u = 0; u < 2; ++u)
                                lanes[u] = vload16(u, transposed_k + e * 32);
                            #pragma unroll
                            for (int i = 0; i < 8; ++i) {
                                const float16 factor = row[i][e];
                                #pragma unroll
                                for (int u = 0; u < 2; ++u)
                                    sum[i][u] = factor * lanes[u] + sum[i][u];
                            }
                        }
                    }
                    #pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const index_t query = at + min(j + i, count - 1);
                        const float most = rows[2 * query], logarithm = rows[2 * query + 1];
                        #pragma unroll
                        for (int u = 0; u < 2; ++u) {
                            sum[i][u] = sum[i][u] * scale;
                            // The first key that this query does not see.
                            const int16 end = (int)(query - first) + 1 - u * 16;
                            sum[i][u] = end > (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) ? sum[i][u] : (float16)-INFINITY;
                            // Where rounding makes it more than the sum that it is a part of, it is all of it.
                            const float16 part = sum[i][u] - most;
                            vstore16(exponential((part > 0 ? (float16)0 : part) - logarithm), (j + i) * 2 + u, weights);
                        }
                    }
                    {
                        __global const float *row[8];
                        // Rows past the last query are that query again, and never looked at.
                        #pragma unroll
                        for (int i = 0; i < 8; ++i) {
                            row[i] = grad_memory + (at + min(j + i, count - 1)) * grad_row;
                            #pragma unroll
                            for (int u = 0; u < 2; ++u)
                                sum[i][u] = 0;
                        }
                        for (index_t e = 0; e < features; ++e) {
                            float16 lanes[2];
                            #pragma unroll
                            for (int u = 0; u < 2; ++u)
                                lanes[u] = vload16(u, transposed_v + e * 32);
                            #pragma unroll
                            for (int i = 0; i < 8; ++i) {
                                const float16 factor = row[i][e];
                                #pragma unroll
                                for (int u = 0; u < 2; ++u)
                                    sum[i][u] = factor * lanes[u] + sum[i][u];
                            }
                        }
                    }
                    #pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const index_t query = at + min(j + i, count - 1);
                        const float less = (float)delta_memory[query * delta_row];
                        const index_t block = query / drop_rows, begin = block * drop_rows;
                        const ulong rows = min(drop_rows, queries - begin);
                        const ulong seen = min(begin + (index_t)rows, keys);
                        const ulong call = first_call + block, place = (get_group_id(1) * rows + (query - begin)) * seen;
                        const ulong16 places = place + first + (ulong16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                        #pragma unroll
                        for (int u = 0; u < 2; ++u) {
                            const int at_lanes = (j + i) * 2 + u;
                            const float16 drawn = cp_uniform_lanes(seed, (ulong16)call, places + u * 16);
                            const float16 kept = drawn < drop_below ? (float16)0 : (float16)drop_scale, p = vload16(at_lanes, weights);
                            vstore16(p * kept, at_lanes, weights);
                            vstore16(p * (sum[i][u] * kept - less), at_lanes, slopes);
                        }
                    }
                }
                for (index_t e = 0; e < features; e += 8) {
                    float16 sum[8][2];
                    index_t column[8];
                    #pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const index_t element = min(e + i, features - 1);
                        column[i] = element;
                        #pragma unroll
                        for (int u = 0; u < 2; ++u)
                            sum[i][u] = vload16((e + i) * 2 + u, found_v);
                    }
                    __global const float *row = grad_memory + at * grad_row;
                    for (int j = 0; j < count; ++j, row += grad_row) {
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
                            vstore16(sum[i][u], (e + i) * 2 + u, found_v);
                }
                for (index_t e = 0; e < size; e += 8) {
                    float16 sum[8][2];
                    index_t column[8];
                    #pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        const index_t element = min(e + i, size - 1);
                        column[i] = element;
                        #pragma unroll
                        for (int u = 0; u < 2; ++u)
                            sum[i][u] = vload16((e + i) * 2 + u, found_k);
                    }
                    __global const float *row = q_memory + at * q_row;
                    for (int j = 0; j < count; ++j, row += q_row) {
                        float16 lanes[2];
                        #pragma unroll
                        for (int u = 0; u < 2; ++u)
                            lanes[u] = vload16(u, slopes + j * 32);
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
                            vstore16(sum[i][u], (e + i) * 2 + u, found_k);
                }
                for (int j = 0; j < count; j += 4)
                    for (index_t e = 0; e < partial_size; e += 64) {
                        __global float *there = dq_memory + (at + j) * dq_row + e;
                        float16 sum[4][4];
                        #pragma unroll
                        for (int i = 0; i < 4; ++i)
                            #pragma unroll
                            for (int u = 0; u < 4; ++u)
                                sum[i][u] = vload16(u, there + i * dq_row);
                        for (int lane = 0; lane < here; ++lane) {
                            float16 part[4];
                            #pragma unroll
                            for (int u = 0; u < 4; ++u)
                                part[u] = vload16(u, straight_k + lane * partial_size + e);
                            #pragma unroll
                            for (int i = 0; i < 4; ++i) {
                                const float16 factor = slopes[(j + i) * 32 + lane];
                                #pragma unroll
                                for (int u = 0; u < 4; ++u)
                                    sum[i][u] = factor * part[u] + sum[i][u];
                            }
                        }
                        #pragma unroll
                        for (int i = 0; i < 4; ++i)
                            #pragma unroll
                            for (int u = 0; u < 4; ++u)
                                vstore16(sum[i][u], u, there + i * dq_row);
                    }
            }
            for (int lane = 0; lane < here; ++lane) {
                for (index_t e = 0; e < size; ++e) {
                    dk_memory[(first + lane) * dk_row + e] = found_k[e * 32 + lane] * scale;
                }
                for (index_t e = 0; e < features; ++e) {
                    dv_memory[(first + lane) * dv_row + e] = found_v[e * 32 + lane];
                }
            }
        }
    }
}
