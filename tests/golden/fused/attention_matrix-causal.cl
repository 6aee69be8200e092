// softmax(q k' * scale + mask) v by matrix units, of  64 queries.
//
//            keys:  64       elements:  64
// queries  [ q k' -> p ]   [ sums += p v ]     4 sub-groups of 32 have 16 queries each, 1 share them.
//
// Keys and values are in local memory, where the next block's are copied to as soon as they were
// multiplied. Weights stay in registers. Where a larger product than all before is found, what was
// summed up is scaled.
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
static inline int query_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_querys(words, tile, line, step) load_query_words(words, memory, tile, line, step, lane)
static inline void load_query_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along rows, then two along k.
    const int below = lane / 8 % 2, behind = lane / 16;
    const int at = query_place(line + below * 8 + lane % 8, step + behind * 8);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int key_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_keys(words, tile, line, step) load_key_words(words, memory, tile, line, step, lane)
static inline void load_key_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along k, then two along columns, of two units.
    const int below = lane / 16, behind = lane / 8 % 2;
    const int at = key_place(line + below * 8 + lane % 8, step + behind * 8);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold lanes of a step of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int value_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_values(words, tile, line, step) load_value_words(words, memory, tile, line, step, lane)
static inline void load_value_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along k, then two along columns, of two units.
    const int below = lane / 16, behind = lane / 8 % 2;
    const int at = value_place(step + behind * 8 + lane % 8, line + below * 8);
    load_transposed(words, (__local uint4 *)(tile + at));
}

__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void attention_matrix(
    __global const half *q_heads,
    __global const half *k_heads,
    __global const half *v_heads,
    __global half *y_heads,
    __global float *sums_heads,
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
    const int sums_row)
{
    __local uint4 memory[1024];
    __local ushort *key_tile = (__local ushort *)memory, *value_tile = key_tile + 4096;
    __local ushort *query_tile = key_tile;
    const int item = get_local_id(0), lane = item % 32, part = item / 32 % 1;
    const int own_first = item / 32 * 16;
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

    const index_t end = min(keys, first + 64);

    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int number = item + n * 128;
        const int line = number / 8, element = number % 8 * 8;
        const int inside = first + line < queries && element < size;
        __global const ushort *place = (__global const ushort *)q_memory + (inside ? (first + line) * q_row + element : 0);
        copy_16((__local uint4 *)(query_tile + query_place(line, element)), (__global const uint4 *)place, inside);
    }
    copies_end();
    copies_wait(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint held[16];
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int k = 0; k < 4; ++k)
            load_querys(held + i * 16 + k * 4, query_tile, own_first + i * 16, k * 16);
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int number = item + n * 128;
        const int line = number / 8, element = number % 8 * 8;
        const int inside = (index_t)0 + line < keys && element < size;
        __global const ushort *place = (__global const ushort *)k_memory + (inside ? ((index_t)0 + line) * k_row + element : 0);
        copy_16((__local uint4 *)(key_tile + key_place(line, element)), (__global const uint4 *)place, inside);
    }
    copies_end();
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int number = item + n * 128;
        const int line = number / 8, element = number % 8 * 8;
        const int inside = (index_t)0 + line < keys && element < features;
        __global const ushort *place = (__global const ushort *)v_memory + (inside ? ((index_t)0 + line) * v_row + element : 0);
        copy_16((__local uint4 *)(value_tile + value_place(line, element)), (__global const uint4 *)place, inside);
    }
    copies_end();
    float found[1][8][4], most[1][2], total[1][2];
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
        for (int s = 0; s < 2; ++s) {
            most[i][s] = -INFINITY;
            total[i][s] = 0;
        }
    // Powers of 2 are the unit's own.
    const float factor = scale * M_LOG2E_F;

    for (index_t at = 0; at < end; at += 64) {
        const index_t next = at + 64;
        // Nothing is added: places in local memory are found anew for each block, not kept.
        const int item = get_local_id(0) + (int)(at >> (8 * sizeof(index_t) - 2)), lane = item % 32, part = item / 32 % 1;
        const int own_first = item / 32 * 16;
        copies_wait(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        float products[1][8][4];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 8; ++j)
                #pragma unroll
                for (int element = 0; element < 4; ++element)
                    products[i][j][element] = 0;
        #pragma unroll
        for (int k = 0; k < 64; k += 16) {
            const uint *own = held + k / 16 * 4;
            #pragma unroll
            for (int j = 0; j < 8; j += 2) {
                uint words[4];
                load_keys(words, key_tile, part * 64 + j * 8, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 2; ++n)
                        multiply_add(products[i][j + n], own + i * 16, words + n * 2);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int number = item + n * 128;
                const int line = number / 8, element = number % 8 * 8;
                const int inside = next + line < keys && element < size;
                __global const ushort *place = (__global const ushort *)k_memory + (inside ? (next + line) * k_row + element : 0);
                copy_16((__local uint4 *)(key_tile + key_place(line, element)), (__global const uint4 *)place, inside);
            }
        }
        copies_end();
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 8; ++j)
                #pragma unroll
                for (int element = 0; element < 4; ++element)
                    products[i][j][element] *= factor;
        if (next > min(keys, first + 1)) {
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                #pragma unroll
                for (int j = 0; j < 8; ++j)
                    #pragma unroll
                    for (int element = 0; element < 4; ++element) {
                        const index_t key = at + part * 64 + j * 8 + lane % 4 * 2 + element % 2;
                        const int seen = key < keys && key <= first + own_first + i * 16 + lane / 4 + element / 2 * 8;
                        products[i][j][element] = seen ? products[i][j][element] : -INFINITY;
                    }
        }
        float top[1][2];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int s = 0; s < 2; ++s)
                top[i][s] = most[i][s];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 8; ++j)
                #pragma unroll
                for (int element = 0; element < 4; ++element)
                    top[i][element / 2] = fmax(top[i][element / 2], products[i][j][element]);
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int s = 0; s < 2; ++s)
                top[i][s] = fmax(top[i][s], of_partner(top[i][s], 1));
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int s = 0; s < 2; ++s)
                top[i][s] = fmax(top[i][s], of_partner(top[i][s], 2));

        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int s = 0; s < 2; ++s) {
                const float shrunk = power(most[i][s] - (top[i][s] == -INFINITY ? 0 : top[i][s]));
                most[i][s] = top[i][s];
                total[i][s] *= shrunk;
                top[i][s] = shrunk;
            }
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 8; ++j)
                #pragma unroll
                for (int element = 0; element < 4; ++element)
                    found[i][j][element] *= top[i][element / 2];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int j = 0; j < 8; ++j)
                #pragma unroll
                for (int element = 0; element < 4; ++element) {
                    const float largest = most[i][element / 2];
                    products[i][j][element] = power(products[i][j][element] - (largest == -INFINITY ? 0 : largest));
                    total[i][element / 2] += products[i][j][element];
                }
        uint weights[16];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
            #pragma unroll
            for (int n = 0; n < 16; ++n)
                weights[i * 16 + n] = pack(products[i][n / 2][n % 2 * 2], products[i][n / 2][n % 2 * 2 + 1]);
        copies_wait(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int k = 0; k < 64; k += 16) {
            const uint *own = weights + k / 16 * 4;
            #pragma unroll
            for (int j = 0; j < 8; j += 2) {
                uint words[4];
                load_values(words, value_tile, part * 64 + j * 8, k);
                #pragma unroll
                for (int i = 0; i < 1; ++i)
                    #pragma unroll
                    for (int n = 0; n < 2; ++n)
                        multiply_add(found[i][j + n], own + i * 16, words + n * 2);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int number = item + n * 128;
                const int line = number / 8, element = number % 8 * 8;
                const int inside = next + line < keys && element < features;
                __global const ushort *place = (__global const ushort *)v_memory + (inside ? (next + line) * v_row + element : 0);
                copy_16((__local uint4 *)(value_tile + value_place(line, element)), (__global const uint4 *)place, inside);
            }
        }
        copies_end();
    }
    copies_wait(0);
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int s = 0; s < 2; ++s)
            total[i][s] += of_partner(total[i][s], 1);
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int s = 0; s < 2; ++s)
            total[i][s] += of_partner(total[i][s], 2);

    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int s = 0; s < 2; ++s) {
            const int element = s * 2;
            const index_t query = first + own_first + i * 16 + lane / 4 + element / 2 * 8;
            if (part == 0 && query < queries && (lane & 3) == 0) {
                sums_memory[query * sums_row] = most[i][s] * M_LN2_F + log(total[i][s]);
            }
            // A query that sees no key has no weights.
            total[i][s] = total[i][s] == 0 ? 0 : 1 / total[i][s];
        }
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element) {
                const index_t query = first + own_first + i * 16 + lane / 4 + element / 2 * 8;
                const index_t feature = part * 64 + j * 8 + lane % 4 * 2 + element % 2;
                if (query < queries && feature < features) {
                    vstore_half(found[i][j][element] * total[i][element / 2], 0, y_memory + query * y_row + feature);
                }
            }
}
