// Gradients of softmax(q k' * scale + mask) v by matrix units, those of  64 keys.
//
// Weights p are made again from the logarithms of sums, 32 queries at a time, and their gradients
// s = p (g v' - delta); values get p' g, keys s' q. Both stay in registers.
typedef int index_t;

#define multiply_add(sums, a, b) __asm__ volatile( \
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };" \
    : "+f"((sums)[0]), "+f"((sums)[1]), "+f"((sums)[2]), "+f"((sums)[3]) \
    : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#define load_matrices(words, from) __asm__ volatile( \
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];" \
    : "=r"((words)[0]), "=r"((words)[1]), "=r"((words)[2]), "=r"((words)[3]) \
    : "r"((uint)(ulong)(from)) : "memory")
#define load_transposed(words, from) __asm__ volatile( \
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];" \
    : "=r"((words)[0]), "=r"((words)[1]), "=r"((words)[2]), "=r"((words)[3]) \
    : "r"((uint)(ulong)(from)) : "memory")
#define copies_end() __asm__ volatile("cp.async.commit_group;" ::: "memory")
#define copies_wait(left) __asm__ volatile( \
    "cp.async.wait_group %0;" :: "n"(left) : "memory")
#define copy_4(to, from, whether) __asm__ volatile( \
    "cp.async.ca.shared.global [%0], [%1], 4, %2;" \
    :: "r"((uint)(ulong)(to)), "l"((ulong)(from)), "r"((whether) ? 4 : 0) : "memory")
#define copy_8(to, from, whether) __asm__ volatile( \
    "cp.async.ca.shared.global [%0], [%1], 8, %2;" \
    :: "r"((uint)(ulong)(to)), "l"((ulong)(from)), "r"((whether) ? 8 : 0) : "memory")
#define copy_16(to, from, whether) __asm__ volatile( \
    "cp.async.cg.shared.global [%0], [%1], 16, %2;" \
    :: "r"((uint)(ulong)(to)), "l"((ulong)(from)), "r"((whether) ? 16 : 0) : "memory")
static inline float of_partner(float value, int bit)
{
    float found;
    __asm__ volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
        : "=f"(found) : "f"(value), "r"(bit));
    return found;
}
static inline uint pack(float low, float high)
{
    uint found;
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(found) : "f"(high), "f"(low));
    return found;
}
static inline float power(float x)
{
    float found;
    __asm__("ex2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
    return found;
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int mine_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_mines(words, tile, line, step) load_mine_words(words, memory, tile, line, step, lane)
static inline void load_mine_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along rows, then two along k.
    const int below = lane / 8 % 2, behind = lane / 16;
    const int at = mine_place(line + below * 8 + lane % 8, step + behind * 8);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int mine_value_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_mine_values(words, tile, line, step) load_mine_value_words(words, memory, tile, line, step, lane)
static inline void load_mine_value_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along rows, then two along k.
    const int below = lane / 8 % 2, behind = lane / 16;
    const int at = mine_value_place(line + below * 8 + lane % 8, step + behind * 8);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int theirs_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_theirss(words, tile, line, step) load_theirs_words(words, memory, tile, line, step, lane)
static inline void load_theirs_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along k, then two along columns, of two units.
    const int below = lane / 16, behind = lane / 8 % 2;
    const int at = theirs_place(line + below * 8 + lane % 8, step + behind * 8);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int theirs_value_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_theirs_values(words, tile, line, step) load_theirs_value_words(words, memory, tile, line, step, lane)
static inline void load_theirs_value_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along k, then two along columns, of two units.
    const int below = lane / 16, behind = lane / 8 % 2;
    const int at = theirs_value_place(line + below * 8 + lane % 8, step + behind * 8);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold lanes of a step of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int across_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_acrosss(words, tile, line, step) load_across_words(words, memory, tile, line, step, lane)
static inline void load_across_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along k, then two along columns, of two units.
    const int below = lane / 16, behind = lane / 8 % 2;
    const int at = across_place(step + behind * 8 + lane % 8, line + below * 8);
    load_transposed(words, (__local uint4 *)(tile + at));
}

// Lines hold lanes of a step of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int across_value_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_across_values(words, tile, line, step) load_across_value_words(words, memory, tile, line, step, lane)
static inline void load_across_value_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along k, then two along columns, of two units.
    const int below = lane / 16, behind = lane / 8 % 2;
    const int at = across_value_place(step + behind * 8 + lane % 8, line + below * 8);
    load_transposed(words, (__local uint4 *)(tile + at));
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
    const int dv_row)
{
    __local uint4 memory[1536];
    // Of each query of a block, or of the group, the logarithm of its sum as a power of 2, and delta.
    __local float known[64];
    __local ushort *mine_tile = (__local ushort *)memory, *mine_value_tile = mine_tile + 4096;
    __local ushort *theirs_tile = mine_value_tile + 4096, *theirs_value_tile = theirs_tile + 2048;
    __local ushort *across_tile = theirs_tile, *across_value_tile = theirs_value_tile;
    __local ushort *after = theirs_value_tile + 2048;
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
    __global const half *q_memory = q_heads + q_start + c0 * q_0 + c1 * q_1 + c2 * q_2 + c3 * q_3;
    __global const half *k_memory = k_heads + k_start + c0 * k_0 + c1 * k_1 + c2 * k_2 + c3 * k_3;
    __global const half *v_memory = v_heads + v_start + c0 * v_0 + c1 * v_1 + c2 * v_2 + c3 * v_3;
    __global const half *grad_memory = grad_heads + grad_start + c0 * grad_0 + c1 * grad_1 + c2 * grad_2 + c3 * grad_3;
    __global const float *sums_memory = sums_heads + sums_start + c0 * sums_0 + c1 * sums_1 + c2 * sums_2 + c3 * sums_3;
    __global const float *delta_memory = delta_heads + delta_start + c0 * delta_0 + c1 * delta_1 + c2 * delta_2 + c3 * delta_3;
    __global half *dk_memory = dk_heads + dk_start + c0 * dk_0 + c1 * dk_1 + c2 * dk_2 + c3 * dk_3;
    __global half *dv_memory = dv_heads + dv_start + c0 * dv_0 + c1 * dv_1 + c2 * dv_2 + c3 * dv_3;

    const index_t begin = first / 32 * 32, end = queries;
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
    float found[1][8][4], found_value[1][8][4];
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element)
                found[i][j][element] = 0;
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element)
                found_value[i][j][element] = 0;
    const float factor = scale * M_LOG2E_F;

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
        for (int row = item; row < 32; row += 128) {
            const index_t query = min(at + row, queries - 1);
            const float logarithm = (float)sums_memory[query * sums_row];
            known[2 * row] = logarithm == -INFINITY ? INFINITY : logarithm * M_LOG2E_F;
            known[2 * row + 1] = (float)delta_memory[query * delta_row];
        }
        copies_end();
        copies_wait(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        float products[1][4][4], slopes[1][4][4];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                #pragma unroll
                for (int element = 0; element < 4; ++element)
                    products[i][j][element] = slopes[i][j][element] = 0;
        #pragma unroll
        for (int k = 0; k < 64; k += 16) {
            uint own[4];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_mines(own + i * 4, mine_tile, own_first + i * 16, k);
            #pragma unroll
            for (int j = 0; j < 4; j += 2) {
                uint words[4];
                load_theirss(words, theirs_tile, part * 32 + j * 8, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 2; ++n)
                        multiply_add(products[i][j + n], own + i * 4, words + n * 2);
            }
        }
        #pragma unroll
        for (int k = 0; k < 64; k += 16) {
            uint own[4];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_mine_values(own + i * 4, mine_value_tile, own_first + i * 16, k);
            #pragma unroll
            for (int j = 0; j < 4; j += 2) {
                uint words[4];
                load_theirs_values(words, theirs_value_tile, part * 32 + j * 8, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 2; ++n)
                        multiply_add(slopes[i][j + n], own + i * 4, words + n * 2);
            }
        }
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                #pragma unroll
                for (int element = 0; element < 4; ++element) {
                    const index_t query = at + part * 32 + j * 8 + lane % 4 * 2 + element % 2, key = first + own_first + i * 16 + lane / 4 + element / 2 * 8;
                    const int row = part * 32 + j * 8 + lane % 4 * 2 + element % 2;
                    int seen = query < queries && key < keys && key <= query;
                    const float weight = seen ? power(products[i][j][element] * factor - known[2 * row]) : 0;
                    slopes[i][j][element] = seen ? weight * (slopes[i][j][element] - known[2 * row + 1]) : 0;
                    products[i][j][element] = weight;
                }
        uint packed[8], weights[8];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int n = 0; n < 8; ++n)
                packed[i * 8 + n] = pack(slopes[i][n / 2][n % 2 * 2], slopes[i][n / 2][n % 2 * 2 + 1]);
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int n = 0; n < 8; ++n)
                weights[i * 8 + n] = pack(products[i][n / 2][n % 2 * 2], products[i][n / 2][n % 2 * 2 + 1]);
        #pragma unroll
        for (int k = 0; k < 32; k += 16) {
            const uint *own = packed + k / 16 * 4;
            #pragma unroll
            for (int j = 0; j < 8; j += 2) {
                uint words[4];
                load_acrosss(words, across_tile, part * 64 + j * 8, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 2; ++n)
                        multiply_add(found[i][j + n], own + i * 8, words + n * 2);
            }
        }
        #pragma unroll
        for (int k = 0; k < 32; k += 16) {
            const uint *own = weights + k / 16 * 4;
            #pragma unroll
            for (int j = 0; j < 8; j += 2) {
                uint words[4];
                load_across_values(words, across_value_tile, part * 64 + j * 8, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 2; ++n)
                        multiply_add(found_value[i][j + n], own + i * 8, words + n * 2);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element) {
                const index_t row = first + own_first + i * 16 + lane / 4 + element / 2 * 8;
                const index_t element_at = part * 64 + j * 8 + lane % 4 * 2 + element % 2;
                if (row < keys && element_at < size) {
                    vstore_half(found[i][j][element] * scale, 0, dk_memory + row * dk_row + element_at);
                }
            }
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element) {
                const index_t row = first + own_first + i * 16 + lane / 4 + element / 2 * 8;
                const index_t element_at = part * 64 + j * 8 + lane % 4 * 2 + element % 2;
                if (row < keys && element_at < features) {
                    vstore_half(found_value[i][j][element], 0, dv_memory + row * dv_row + element_at);
                }
            }
}
