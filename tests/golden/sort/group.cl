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

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void sort_group_count(
    __global const uint *keys_memory,
    __global int *counts_memory,
    const int lines,
    const int n,
    const int chunk,
    const int pieces,
    const int shift)
{
    __local ulong4 counts[256];
    const index_t number = (index_t)get_group_id(0);
    const index_t line = number / pieces;
    const index_t piece = number - line * pieces;
    const index_t from = line * n + piece * chunk;
    const int have = (int)min(chunk, n - piece * chunk);
    const int item = (int)get_local_id(0);

    ulong4 own = 0;
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        const int e = k * 256 + item;
        if (e < have)
            own += one_of(digit_of(keys_memory[from + e], shift));
    }
    counts[item] = own;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int reach = 128; reach > 0; reach /= 2) {
        if (item < reach)
            counts[item] += counts[item + reach];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int d = item; d < DIGITS; d += 256)
        counts_memory[(line * DIGITS + d) * pieces + piece] = count_of(counts[0], d);
}
