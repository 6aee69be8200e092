// softmax(q k' * scale + mask) v by matrix units, of  64 queries.
//
//            keys:  32       elements: 128
// queries  [ q k' -> p ]   [ sums += p v ]     8 sub-groups of 8 have 8 queries each, 4 share them.
//
// Keys and values are in local memory, where the next block's are copied to as soon as they were
// multiplied. Weights go through local memory. Where a larger product than all before is found, what was
// summed up is scaled.
typedef int index_t;

#ifndef cl_intel_subgroup_matrix_multiply_accumulate
float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(int8 a, int8 b, float8 sums);
#endif
#define multiply_add(sums, a, b) vstore8(intel_sub_group_f16_f16_matrix_mad_k16( \
    as_int8(vload8(0, a)), as_int8(vload8(0, b)), vload8(0, sums)), 0, sums)
#ifndef cl_intel_subgroup_local_block_io
uint8 __attribute__((overloadable)) intel_sub_group_block_read8(const __local uint *from);
#endif
#define load_block(words, from) \
    vstore8(as_uint8(intel_sub_group_block_read8((const __local uint *)(from))), 0, words)
#define copy_4(to, from, whether) *(to) = (whether) ? *(from) : 0
#define copy_8(to, from, whether) *(to) = (whether) ? *(from) : (uint2)(0)
#define copy_16(to, from, whether) *(to) = (whether) ? *(from) : (uint4)(0)
#define copies_end()
#define copies_wait(left)
#define power(x) native_exp2(x)
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define pack(low, high) as_uint((half2)((half)(low), (half)(high)))

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int query_place(int line, int at)
{
    return line * 128 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_querys(words, tile, line, step) load_query_words(words, memory, tile, line, step, lane)
static inline void load_query_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = query_place(line + lane, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Pieces of 8 lines and 16 steps of k lie one after another, line by line.
static inline int key_place(int line, int at)
{
    return (line / 8 * 8 + at / 16) * 128 + line % 8 * 16 + at % 16;
}

#define load_keys(words, tile, line, step) load_key_words(words, memory, tile, line, step, lane)
static inline void load_key_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    load_block(words, tile + key_place(line, step));
}

// Pieces of 8 lines and 16 steps of k lie one after another, line by line.
static inline int value_place(int line, int at)
{
    return (line / 8 * 2 + at / 16) * 128 + line % 8 * 16 + at % 16;
}

#define load_values(words, tile, line, step) load_value_words(words, memory, tile, line, step, lane)
static inline void load_value_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    load_block(words, tile + value_place(line, step));
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int weight_place(int line, int at)
{
    return line * 32 + (at / 8 ^ (line >> 1 & 3)) * 8 + at % 8;
}

#define load_weights(words, tile, line, step) load_weight_words(words, memory, tile, line, step, lane)
static inline void load_weight_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = weight_place(line + lane, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

__kernel __attribute__((intel_reqd_sub_group_size(8))) __attribute__((reqd_work_group_size(256, 1, 1))) void attention_matrix(
    __global const half *q_heads,
    __global const half *k_heads,
    __global const half *v_heads,
    __global half *y_heads,
    __global float *sums_heads,
    __global const half *mask_heads,
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
    const int mask_start,
    const int mask_0,
    const int mask_1,
    const int mask_2,
    const int mask_3,
    const int mask_row,
    const int mask_step)
{
    __local uint4 memory[2304];
    __local ushort *key_tile = (__local ushort *)memory, *value_tile = key_tile + 4096;
    __local ushort *after = value_tile + 4096;
    __local ushort *query_tile = after;
    __local ushort *weight_tile = after + 8192;
    __local float shared[256];
    const int item = get_local_id(0), lane = item % 8, part = item / 8 % 4;
    const int own_first = item / 32 * 8;
    // Of causal attention the last queries take longest.
    const index_t first = (index_t)(get_num_groups(0) - 1 - get_group_id(0)) * 64;
    index_t head = get_group_id(1);
    const index_t c3 = head % size_3;
    head /= size_3;
    const index_t c2 = head % size_2;
    head /= size_2;
    const index_t c1 = head % size_1, c0 = head / size_1;
    __global const half *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
    __global const half *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
    __global const half *v_memory = v_heads + v_start + c0 * v_0 + c1 * v_1 + c2 * v_2 + c3 * v_3;
    __global half *y_memory = y_heads + y_start + c0 * y_0 + c1 * y_1 + c2 * y_2 + c3 * y_3;
    __global float *sums_memory = sums_heads + sums_start + c0 * sums_0 + c1 * sums_1 + c2 * sums_2 + c3 * sums_3;
    __global const half *mask_memory = mask_heads + mask_start + c0 * mask_0 + c1 * mask_1 + c2 * mask_2 + c3 * mask_3;

    const index_t end = keys;

    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int number = item + n * 256;
        const int line = number / 16, element = number % 16 * 8;
        const int inside = first + line < queries && element < size;
        __global const ushort *place = (__global const ushort *)q_memory + (inside ? (first + line) * q_row + element : 0);
        copy_16((__local uint4 *)(query_tile + query_place(line, element)), (__global const uint4 *)place, inside);
    }
    copies_end();
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int number = item + n * 256;
        const int line = number / 16, element = number % 16 * 8;
        const int inside = (index_t)0 + line < keys && element < size;
        __global const ushort *place = (__global const ushort *)k_memory + (inside ? ((index_t)0 + line) * k_row + element : 0);
        copy_16((__local uint4 *)(key_tile + key_place(line, element)), (__global const uint4 *)place, inside);
    }
    copies_end();
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int number = item + n * 256;
        const int line = number / 16, element = number % 16 * 8;
        const int inside = (index_t)0 + line < keys && element < features;
        __global const ushort *place = (__global const ushort *)v_memory + (inside ? ((index_t)0 + line) * v_row + element : 0);
        const ushort8 words = inside ? *(__global const ushort8 *)place : (ushort8)(0);
        value_tile[value_place(element + 0, line)] = words.s0;
        value_tile[value_place(element + 1, line)] = words.s1;
        value_tile[value_place(element + 2, line)] = words.s2;
        value_tile[value_place(element + 3, line)] = words.s3;
        value_tile[value_place(element + 4, line)] = words.s4;
        value_tile[value_place(element + 5, line)] = words.s5;
        value_tile[value_place(element + 6, line)] = words.s6;
        value_tile[value_place(element + 7, line)] = words.s7;
    }
    copies_end();
    float found[1][4][8], most[1][1], total[1][1];
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int element = 0; element < 8; ++element)
                found[i][j][element] = 0;
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int s = 0; s < 1; ++s) {
            most[i][s] = -INFINITY;
            total[i][s] = 0;
        }
    // Powers of 2 are the unit's own.
    const float factor = scale * M_LOG2E_F;

    for (index_t at = 0; at < end; at += 32) {
        const index_t next = at + 32;
        // Nothing is added: places in local memory are found anew for each block, not kept.
        const int item = get_local_id(0) + (int)(at >> (8 * sizeof(index_t) - 2)), lane = item % 8, part = item / 8 % 4;
        const int own_first = item / 32 * 8;
        copies_wait(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        float products[1][1][8];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 1; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element)
                    products[i][j][element] = 0;
        #pragma unroll 1
        for (int k = 0; k < 128; k += 16) {
            uint own[8];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_querys(own + i * 8, query_tile, own_first + i * 8, k);
            #pragma unroll
            for (int j = 0; j < 1; j += 1) {
                uint words[8];
                load_keys(words, key_tile, part * 8 + j * 8, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 1; ++n)
                        multiply_add(products[i][j + n], words + n * 8, own + i * 8);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int number = item + n * 256;
                const int line = number / 16, element = number % 16 * 8;
                const int inside = next + line < keys && element < size;
                __global const ushort *place = (__global const ushort *)k_memory + (inside ? (next + line) * k_row + element : 0);
                copy_16((__local uint4 *)(key_tile + key_place(line, element)), (__global const uint4 *)place, inside);
            }
        }
        copies_end();
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 1; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element)
                    products[i][j][element] *= factor;
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 1; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element) {
                    const index_t query = min(first + own_first + i * 8 + lane, queries - 1);
                    const index_t key = min(at + part * 8 + j * 8 + element, keys - 1);
                    products[i][j][element] += ((float)vload_half(0, mask_memory + query * mask_row + key * mask_step)) * M_LOG2E_F;
                }
        if (next > keys) {
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                #pragma unroll
                for (int j = 0; j < 1; ++j)
                    #pragma unroll
                    for (int element = 0; element < 8; ++element) {
                        const index_t key = at + part * 8 + j * 8 + element;
                        const int seen = key < keys;
                        products[i][j][element] = seen ? products[i][j][element] : -INFINITY;
                    }
        }
        float top[1][1];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int s = 0; s < 1; ++s)
                top[i][s] = most[i][s];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 1; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element)
                    top[i][0] = fmax(top[i][0], products[i][j][element]);
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int s = 0; s < 1; ++s)
                if ((lane & 0) == 0) {
                    const int element = 0;
                    shared[part * 64 + own_first + i * 8 + lane] = top[i][s];
                }
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int s = 0; s < 1; ++s) {
                const int element = 0;
                top[i][s] = most[i][s];
                for (int n = 0; n < 4; ++n) {
                    const float other = shared[n * 64 + own_first + i * 8 + lane];
                    top[i][s] = fmax(top[i][s], other);
                }
            }
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int s = 0; s < 1; ++s) {
                const float shrunk = power(most[i][s] - (top[i][s] == -INFINITY ? 0 : top[i][s]));
                most[i][s] = top[i][s];
                total[i][s] *= shrunk;
                top[i][s] = shrunk;
            }
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element)
                    found[i][j][element] *= top[i][0];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 1; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element) {
                    const float largest = most[i][0];
                    products[i][j][element] = power(products[i][j][element] - (largest == -INFINITY ? 0 : largest));
                    total[i][0] += products[i][j][element];
                }
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 1; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element)
                    weight_tile[weight_place(own_first + i * 8 + lane, part * 8 + j * 8 + element)] = (ushort)pack(products[i][j][element], 0);
        copies_wait(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll 1
        for (int k = 0; k < 32; k += 16) {
            uint own[8];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_weights(own + i * 8, weight_tile, own_first + i * 8, k);
            #pragma unroll
            for (int j = 0; j < 4; j += 1) {
                uint words[8];
                load_values(words, value_tile, part * 32 + j * 8, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 1; ++n)
                        multiply_add(found[i][j + n], words + n * 8, own + i * 8);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int number = item + n * 256;
                const int line = number / 16, element = number % 16 * 8;
                const int inside = next + line < keys && element < features;
                __global const ushort *place = (__global const ushort *)v_memory + (inside ? (next + line) * v_row + element : 0);
                const ushort8 words = inside ? *(__global const ushort8 *)place : (ushort8)(0);
                value_tile[value_place(element + 0, line)] = words.s0;
                value_tile[value_place(element + 1, line)] = words.s1;
                value_tile[value_place(element + 2, line)] = words.s2;
                value_tile[value_place(element + 3, line)] = words.s3;
                value_tile[value_place(element + 4, line)] = words.s4;
                value_tile[value_place(element + 5, line)] = words.s5;
                value_tile[value_place(element + 6, line)] = words.s6;
                value_tile[value_place(element + 7, line)] = words.s7;
            }
        }
        copies_end();
    }
    copies_wait(0);
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int s = 0; s < 1; ++s)
            if ((lane & 0) == 0) {
                const int element = 0;
                shared[part * 64 + own_first + i * 8 + lane] = total[i][s];
            }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int s = 0; s < 1; ++s) {
            const int element = 0;
            total[i][s] = 0;
            for (int n = 0; n < 4; ++n) {
                const float other = shared[n * 64 + own_first + i * 8 + lane];
                total[i][s] = total[i][s] + other;
            }
        }
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int s = 0; s < 1; ++s) {
            const int element = 0;
            const index_t query = first + own_first + i * 8 + lane;
            if (part == 0 && query < queries && (lane & 0) == 0) {
                sums_memory[query * sums_row] = most[i][s] * M_LN2_F + log(total[i][s]);
            }
            // A query that sees no key has no weights.
            total[i][s] = total[i][s] == 0 ? 0 : 1 / total[i][s];
        }
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int element = 0; element < 8; ++element) {
                const index_t query = first + own_first + i * 8 + lane;
                const index_t feature = part * 32 + j * 8 + element;
                if (query < queries && feature < features) {
                    vstore_half(found[i][j][element] * total[i][0], 0, y_memory + query * y_row + feature);
                }
            }
}
