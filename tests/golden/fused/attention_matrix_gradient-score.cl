// Gradients of softmax(q k' * scale + mask) v by matrix units, those of  64 keys.
//
// Weights p are made again from the logarithms of sums, 32 queries at a time, and their gradients
// s = p (g v' - delta); values get p' g, keys s' q. Both go through local memory.
typedef int index_t;

#define coord(d) ((d) == -2 ? (long)coord_2 : (d) == -1 ? (long)coord_3 : (d) == 1 ? (long)coord_1 : 0)
#define size(d) ((d) == -1 ? (long)size_of_3 : 0)

static inline float in_powers(float added)
{
    return added < -2e38f && added > -INFINITY ? -3e38f : added * M_LOG2E_F;
}
// The unit is emulated: its work-items exchange fragments through local memory.
#define multiply_add(sums, a, b) multiply_exchanged(sums, a, b, exchange + item / 32 * 256, lane)
static inline void multiply_exchanged(float *sums, const uint *a, const uint *b, __local uint *exchange, int lane)
{
    __local ushort *left = (__local ushort *)exchange, *right = left + 256;
    for (int element = 0; element < 16; ++element)
        left[(lane % 16) * 16 + element] = (ushort)(a[element / 2] >> element % 2 * 16);
    for (int element = 0; element < 16; ++element)
        right[(lane % 16) * 16 + element] = (ushort)(b[element / 2] >> element % 2 * 16);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int element = 0; element < 8; ++element) {
        float sum = 0;  // a unit adds its own steps up first
        for (int k = 0; k < 16; ++k)
            sum += vload_half(0, (__local const half *)(left + (element * 2 + lane / 16) * 16 + k))
                * vload_half(0, (__local const half *)(right + (lane % 16) * 16 + k));
        sums[element] += sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#define copy_4(to, from, whether) *(to) = (whether) ? *(from) : 0
#define copy_8(to, from, whether) *(to) = (whether) ? *(from) : (uint2)(0)
#define copy_16(to, from, whether) *(to) = (whether) ? *(from) : (uint4)(0)
#define copies_end()
#define copies_wait(left)
#define of_partner(value, bit) of_exchanged(value, bit, exchange, item)
static inline float of_exchanged(float value, int bit, __local uint *exchange, int item)
{
    exchange[item] = as_uint(value);
    barrier(CLK_LOCAL_MEM_FENCE);
    const float found = as_float(exchange[item ^ bit]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return found;
}
#define power(x) native_exp2(x)
// The nearest number of 16 bits.
static inline uint as_half_bits(float value)
{
    const uint sign = as_uint(value) >> 16 & 0x8000u, bits = as_uint(value) & 0x7fffffffu;
    if (bits >= 0x47800000u)
        return sign | (bits > 0x7f800000u ? 0x7e00u : 0x7c00u);
    if (bits < 0x38800000u)
        return sign | (as_uint(as_float(bits) + 0.5f) - 0x3f000000u);
    return sign | (bits + 0xfffu + (bits >> 13 & 1) - 0x38000000u) >> 13;
}
#define pack(low, high) (as_half_bits(low) | as_half_bits(high) << 16)

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int mine_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_mines(words, tile, line, step) load_mine_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_mine_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = mine_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int mine_value_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_mine_values(words, tile, line, step) load_mine_value_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_mine_value_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = mine_value_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int theirs_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_theirss(words, tile, line, step) load_theirs_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_theirs_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = theirs_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int theirs_value_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_theirs_values(words, tile, line, step) load_theirs_value_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_theirs_value_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = theirs_value_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int across_place(int line, int at)
{
    return line * 32 + (at / 8 ^ (line >> 1 & 3)) * 8 + at % 8;
}

#define load_acrosss(words, tile, line, step) load_across_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_across_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = across_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int across_value_place(int line, int at)
{
    return line * 32 + (at / 8 ^ (line >> 1 & 3)) * 8 + at % 8;
}

#define load_across_values(words, tile, line, step) load_across_value_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_across_value_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = across_value_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int slope_place(int line, int at)
{
    return line * 32 + (at / 8 ^ (line >> 1 & 3)) * 8 + at % 8;
}

#define load_slopes(words, tile, line, step) load_slope_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_slope_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = slope_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int weight_place(int line, int at)
{
    return line * 32 + (at / 8 ^ (line >> 1 & 3)) * 8 + at % 8;
}

#define load_weights(words, tile, line, step) load_weight_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_weight_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = weight_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void attention_matrix_gradient(
    __global const half *q_heads,
    __global const half *k_heads,
    __global const half *v_heads,
    __global const half *grad_heads,
    __global const float *sums_heads,
    __global const float *delta_heads,
    __global half *dk_heads,
    __global half *dv_heads,
    __global const int *x0_heads,
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
    const int grad_start,
    const int grad_0,
    const int grad_1,
    const int grad_2,
    const int grad_3,
    const int grad_row,
    const int sums_start,
    const int sums_0,
    const int sums_1,
    const int sums_2,
    const int sums_3,
    const int sums_row,
    const int delta_start,
    const int delta_0,
    const int delta_1,
    const int delta_2,
    const int delta_3,
    const int delta_row,
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
    const int x0_start,
    const int x0_0,
    const int x0_1,
    const int x0_2,
    const int x0_3,
    const int x0_row,
    const int x0_step,
    const int coord_1_step,
    const int coord_1_size,
    const int size_of_3,
    const float w0,
    __global const float *rows_memory)
{
    __local uint4 memory[2560];
    __local uint exchange[1024];
    // Of each query of a block, or of the group, its largest score, delta, and a part of its sum.
    __local float known[96];
    __local ushort *mine_tile = (__local ushort *)memory, *mine_value_tile = mine_tile + 4096;
    __local ushort *theirs_tile = mine_value_tile + 4096, *theirs_value_tile = theirs_tile + 2048;
    __local ushort *across_tile = theirs_value_tile + 2048, *across_value_tile = across_tile + 2048;
    __local ushort *after = across_value_tile + 2048;
    __local ushort *slope_tile = after, *weight_tile = after + 2048;
    const int item = get_local_id(0), lane = item % 32, part = item / 32 % 1;
    const int own_first = item / 32 * 16;
    // Of causal attention the last queries and the first keys take longest.
    const index_t first = (index_t)(get_group_id(0)) * 64;
    index_t head = get_group_id(1);
    const index_t c3 = head % size_3;
    head /= size_3;
    const index_t c2 = head % size_2;
    head /= size_2;
    const index_t c1 = head % size_1, c0 = head / size_1;
    const long coord_1 = (get_group_id(1)) / coord_1_step % coord_1_size;
    __global const half *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
    __global const half *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
    __global const half *v_memory = v_heads + v_start + c0 * v_0 + c1 * v_1 + c2 * v_2 + c3 * v_3;
    __global const half *grad_memory = grad_heads + grad_start + c0 * grad_0 + c1 * grad_1 + c2 * grad_2 + c3 * grad_3;
    __global const float *sums_memory = sums_heads + sums_start + c0 * sums_0 + c1 * sums_1 + c2 * sums_2 + c3 * sums_3;
    __global const float *delta_memory = delta_heads + delta_start + c0 * delta_0 + c1 * delta_1 + c2 * delta_2 + c3 * delta_3;
    __global half *dk_memory = dk_heads + dk_start + c0 * dk_0 + c1 * dk_1 + c2 * dk_2 + c3 * dk_3;
    __global half *dv_memory = dv_heads + dv_start + c0 * dv_0 + c1 * dv_1 + c2 * dv_2 + c3 * dv_3;
    __global const int *x0_memory = x0_heads + x0_start + c0 * x0_0 + c1 * x0_1 + c2 * x0_2 + c3 * x0_3;

    const index_t begin = 0, end = queries;
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int number = item + n * 128;
        const int line = number / 8, element = number % 8 * 8;
        const int inside = first + line < keys && element < size;
        __global const ushort *place = (__global const ushort *)k_memory + (inside ? (first + line) * k_row + element : 0);
        copy_16((__local uint4 *)(mine_tile + mine_place(line, element)), (__global const uint4 *)place, inside);
    }
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int number = item + n * 128;
        const int line = number / 8, element = number % 8 * 8;
        const int inside = first + line < keys && element < features;
        __global const ushort *place = (__global const ushort *)v_memory + (inside ? (first + line) * v_row + element : 0);
        copy_16((__local uint4 *)(mine_value_tile + mine_value_place(line, element)), (__global const uint4 *)place, inside);
    }
    float found[1][4][8], found_value[1][4][8];
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
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int element = 0; element < 8; ++element)
                found_value[i][j][element] = 0;

    for (index_t at = begin; at < end; at += 32) {
        // Nothing is added: places in local memory are found anew for each block, not kept.
        const int item = get_local_id(0) + (int)(at >> (8 * sizeof(index_t) - 2)), lane = item % 32, part = item / 32 % 1;
        const int own_first = item / 32 * 16;
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 128;
            const int line = number / 8, element = number % 8 * 8;
            const int inside = at + line < queries && element < size;
            __global const ushort *place = (__global const ushort *)q_memory + (inside ? (at + line) * q_row + element : 0);
            copy_16((__local uint4 *)(theirs_tile + theirs_place(line, element)), (__global const uint4 *)place, inside);
        }
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 128;
            const int line = number / 8, element = number % 8 * 8;
            const int inside = at + line < queries && element < features;
            __global const ushort *place = (__global const ushort *)grad_memory + (inside ? (at + line) * grad_row + element : 0);
            copy_16((__local uint4 *)(theirs_value_tile + theirs_value_place(line, element)), (__global const uint4 *)place, inside);
        }
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 128;
            const int line = number / 8, element = number % 8 * 8;
            const int inside = at + line < queries && element < size;
            __global const ushort *place = (__global const ushort *)q_memory + (inside ? (at + line) * q_row + element : 0);
            const ushort8 words = inside ? *(__global const ushort8 *)place : (ushort8)(0);
            across_tile[across_place(element + 0, line)] = words.s0;
            across_tile[across_place(element + 1, line)] = words.s1;
            across_tile[across_place(element + 2, line)] = words.s2;
            across_tile[across_place(element + 3, line)] = words.s3;
            across_tile[across_place(element + 4, line)] = words.s4;
            across_tile[across_place(element + 5, line)] = words.s5;
            across_tile[across_place(element + 6, line)] = words.s6;
            across_tile[across_place(element + 7, line)] = words.s7;
        }
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 128;
            const int line = number / 8, element = number % 8 * 8;
            const int inside = at + line < queries && element < features;
            __global const ushort *place = (__global const ushort *)grad_memory + (inside ? (at + line) * grad_row + element : 0);
            const ushort8 words = inside ? *(__global const ushort8 *)place : (ushort8)(0);
            across_value_tile[across_value_place(element + 0, line)] = words.s0;
            across_value_tile[across_value_place(element + 1, line)] = words.s1;
            across_value_tile[across_value_place(element + 2, line)] = words.s2;
            across_value_tile[across_value_place(element + 3, line)] = words.s3;
            across_value_tile[across_value_place(element + 4, line)] = words.s4;
            across_value_tile[across_value_place(element + 5, line)] = words.s5;
            across_value_tile[across_value_place(element + 6, line)] = words.s6;
            across_value_tile[across_value_place(element + 7, line)] = words.s7;
        }
        for (int row = item; row < 32; row += 128) {
            const index_t query = min(at + row, queries - 1);
            const float2 numbers = vload2((index_t)get_group_id(1) * queries + query, rows_memory);
            known[3 * row] = numbers.y == 0 ? INFINITY : numbers.x;
            known[3 * row + 2] = 1 / numbers.y;
            known[3 * row + 1] = (float)delta_memory[query * delta_row];
        }
        copies_end();
        copies_wait(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        float products[1][2][8], slopes[1][2][8];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element)
                    products[i][j][element] = slopes[i][j][element] = 0;
        #pragma unroll 1
        for (int k = 0; k < 64; k += 16) {
            uint own[8];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_mines(own + i * 8, mine_tile, own_first + i * 16, k);
            #pragma unroll
            for (int j = 0; j < 2; j += 1) {
                uint words[8];
                load_theirss(words, theirs_tile, part * 32 + j * 16, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 1; ++n)
                        multiply_add(products[i][j + n], words + n * 8, own + i * 8);
            }
        }
        #pragma unroll 1
        for (int k = 0; k < 64; k += 16) {
            uint own[8];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_mine_values(own + i * 8, mine_value_tile, own_first + i * 16, k);
            #pragma unroll
            for (int j = 0; j < 2; j += 1) {
                uint words[8];
                load_theirs_values(words, theirs_value_tile, part * 32 + j * 16, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 1; ++n)
                        multiply_add(slopes[i][j + n], words + n * 8, own + i * 8);
            }
        }
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element) {
                    const index_t query = at + part * 32 + j * 16 + element * 2 + lane / 16, key = first + own_first + i * 16 + lane % 16;
                    const int row = part * 32 + j * 16 + element * 2 + lane / 16;
                    int seen = query < queries && key < keys;
                    const float before = products[i][j][element] * scale;
                    products[i][j][element] = before;
                    {
                        const index_t score_query = min(query, queries - 1), score_key = min(key, keys - 1);
                        const long coord_2 = score_query;
                        const long coord_3 = score_key;
                        typedef int typeof_x0;
                        const typeof_x0 x0 = (int)x0_memory[score_query * x0_row + score_key * x0_step];
                        typedef float typeof_w0;
                        typedef float typeof_y0;
                        typedef float typeof_x1;
                        typedef float typeof_x2;

                        typeof_y0 y0 = products[i][j][element];
                        {
#line 1 "snippet:score"
if ((coord(1) + coord(-1)) % 2) y0 = x0 ? w0 * y0 / size(-1) : coord(-2);
#line 471 "kernel"
                        }
                        products[i][j][element] = y0;
                    }
                    const float weight = seen ? power(in_powers(products[i][j][element]) - known[3 * row]) * known[3 * row + 2] : 0;
                    slopes[i][j][element] = seen ? weight * (slopes[i][j][element] - known[3 * row + 1]) : 0;
                    products[i][j][element] = weight;
                    if (seen)
                        {
                            const index_t score_query = query, score_key = key;
                            const long coord_2 = score_query;
                            const long coord_3 = score_key;
                            typedef int typeof_x0;
                            const typeof_x0 x0 = (int)x0_memory[score_query * x0_row + score_key * x0_step];
                            typedef float typeof_w0;
                            typedef float typeof_y0;
                            typedef float typeof_x1;
                            typedef float typeof_x2;

                            const typeof_y0 x1 = before, x2 = slopes[i][j][element];
                            typeof_y0 y0;
                            {
#line 1 "snippet:score_slope"
y0 = (coord(1) + coord(-1)) % 2 ? x0 ? x2 * w0 / size(-1) : 0 : x2;
#line 495 "kernel"
                            }
                            slopes[i][j][element] = y0;
                        }
                }
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                #pragma unroll
                for (int element = 0; element < 8; ++element) {
                    slope_tile[slope_place(own_first + i * 16 + lane % 16, part * 32 + j * 16 + element * 2 + lane / 16)] = (ushort)pack(slopes[i][j][element], 0);
                    weight_tile[weight_place(own_first + i * 16 + lane % 16, part * 32 + j * 16 + element * 2 + lane / 16)] = (ushort)pack(products[i][j][element], 0);
                }
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll 1
        for (int k = 0; k < 32; k += 16) {
            uint own[8];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_slopes(own + i * 8, slope_tile, own_first + i * 16, k);
            #pragma unroll
            for (int j = 0; j < 4; j += 1) {
                uint words[8];
                load_acrosss(words, across_tile, part * 64 + j * 16, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 1; ++n)
                        multiply_add(found[i][j + n], words + n * 8, own + i * 8);
            }
        }
        #pragma unroll 1
        for (int k = 0; k < 32; k += 16) {
            uint own[8];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_weights(own + i * 8, weight_tile, own_first + i * 16, k);
            #pragma unroll
            for (int j = 0; j < 4; j += 1) {
                uint words[8];
                load_across_values(words, across_value_tile, part * 64 + j * 16, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 1; ++n)
                        multiply_add(found_value[i][j + n], words + n * 8, own + i * 8);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int element = 0; element < 8; ++element) {
                const index_t row = first + own_first + i * 16 + lane % 16;
                const index_t element_at = part * 64 + j * 16 + element * 2 + lane / 16;
                if (row < keys && element_at < size) {
                    vstore_half(found[i][j][element] * scale, 0, dk_memory + row * dk_row + element_at);
                }
            }
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int element = 0; element < 8; ++element) {
                const index_t row = first + own_first + i * 16 + lane % 16;
                const index_t element_at = part * 64 + j * 16 + element * 2 + lane / 16;
                if (row < keys && element_at < features) {
                    vstore_half(found_value[i][j][element], 0, dv_memory + row * dv_row + element_at);
                }
            }
}
