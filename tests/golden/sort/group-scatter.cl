// A work-group a chunk: orders it by a digit in local memory, and moves what has one digit together.
//
//     in local memory    3 1 3 0 | 1 1 0 3 | ...    256 work-items, 8 neighbours each
//     ordered            0 0 1 1 1 3 3 3 ...        by counts of all work-items before
//     moved              0 0 ->  1 1 1 ->  3 3 3 -> runs, to the places of the chunk's digits
typedef int index_t;

#define DIGITS 16
#define digit_of(key, shift) ((int)((key) >> (shift)) & (DIGITS - 1))

// Counts of digit d are 16 bits of a vector: the (d % 4)th ones of its (d / 4)th element. That is
// room for those of a chunk.
static inline ulong4 one_of(const int digit)
{
    const ulong one = (ulong)1 << (16 * (digit & 3));
    return (ulong4)(digit < 4 ? one : 0, digit >> 2 == 1 ? one : 0, digit >> 2 == 2 ? one : 0, digit >= 12 ? one : 0);
}
static inline int count_of(const ulong4 counts, const int digit)
{
    const ulong low = digit & 4 ? counts.y : counts.x, high = digit & 4 ? counts.w : counts.z;
    return (int)((digit & 8 ? high : low) >> (16 * (digit & 3))) & 0xffff;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void sort_group_scatter(
    __global const uint *keys_memory,
    __global const int *counts_memory,
    __global uint *sorted_keys_memory,
    __global int *sorted_order_memory,
    const int lines,
    const int n,
    const int chunk,
    const int pieces,
    const int shift)
{
    __local uint keys[2048];
    __local int order[2048];
    __local ulong4 counts[256];
    __local int places[DIGITS], firsts[DIGITS];
    const index_t number = (index_t)get_group_id(0);
    const index_t line = number / pieces;
    const index_t piece = number - line * pieces;
    const index_t from = line * n + piece * chunk;
    const int have = (int)min(chunk, n - piece * chunk);
    const int item = (int)get_local_id(0);

    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        const int e = k * 256 + item;
        // What is past the end comes last in its order, and is moved nowhere.
        keys[e] = e < have ? keys_memory[from + e] : ~(uint)0;
        order[e] = e < have ? (int)(piece * chunk) + e : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint key[8];
    int value[8], before[8];
    ulong4 own = 0;
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        key[k] = keys[item * 8 + k];
        value[k] = order[item * 8 + k];
        const int digit = digit_of(key[k], shift);
        before[k] = count_of(own, digit);
        own += one_of(digit);
    }
    ulong4 all = own;
    counts[item] = all;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int reach = 1; reach < 256; reach *= 2) {
        if (item >= reach)
            all += counts[item - reach];
        barrier(CLK_LOCAL_MEM_FENCE);
        counts[item] = all;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int d = item; d < DIGITS; d += 256) {
        int first = 0;
        for (int less = 0; less < d; ++less)
            first += count_of(counts[255], less);
        firsts[d] = first;
        places[d] = counts_memory[(line * DIGITS + d) * pieces + piece] - first;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    all -= own;
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        const int digit = digit_of(key[k], shift);
        const int place = firsts[digit] + count_of(all, digit) + before[k];
        keys[place] = key[k];
        order[place] = value[k];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        const int e = k * 256 + item;
        if (e < have) {
            const uint moved = keys[e];
            const index_t place = line * n + places[digit_of(moved, shift)] + e;
            sorted_keys_memory[place] = moved;
            sorted_order_memory[place] = order[e];
        }
    }
}
