typedef int index_t;

#define DIGITS 256
#define digit_of(key, shift) ((int)((key) >> (shift)) & (DIGITS - 1))

static inline bool alike(__global const uint *keys, const index_t n, const int shift)
{
    const int first = digit_of(keys[0], shift);
    index_t e = 0;
    for (; e + 256 <= n; e += 256) {
        int differ = 0;
        for (int k = 0; k < 256; ++k)
            differ |= digit_of(keys[e + k], shift) ^ first;
        if (differ)
            return false;
    }
    for (; e < n; ++e)
        if (digit_of(keys[e], shift) != first)
            return false;
    return true;
}

__kernel void sort_count(
    __global const uint *keys_memory,
    __global int *counts_memory,
    const int lines,
    const int n,
    const int chunk,
    const int pieces,
    const int shift)
{
    const index_t item = (index_t)get_global_id(0);
    if (item >= lines * pieces)
        return;
    const index_t line = item / pieces;
    const index_t piece = item - line * pieces;
    const index_t from = line * n + piece * chunk;
    const index_t to = line * n + min(n, (piece + 1) * chunk);

    int counts[DIGITS];
    for (int d = 0; d < DIGITS; ++d)
        counts[d] = 0;
    if (alike(keys_memory + from, to - from, shift))
        counts[digit_of(keys_memory[from], shift)] = to - from;
    else
        for (index_t e = from; e < to; ++e)
            ++counts[digit_of(keys_memory[e], shift)];
    for (int d = 0; d < DIGITS; ++d)
        counts_memory[(line * DIGITS + d) * pieces + piece] = counts[d];
}
