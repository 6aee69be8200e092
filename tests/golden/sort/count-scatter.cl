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

__kernel void sort_scatter(
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
    const index_t item = (index_t)get_global_id(0);
    if (item >= lines * pieces)
        return;
    const index_t line = item / pieces;
    const index_t piece = item - line * pieces;
    const index_t from = line * n + piece * chunk;
    const index_t to = line * n + min(n, (piece + 1) * chunk);

    if (alike(keys_memory + from, to - from, shift)) {
        const index_t start = line * n
            + counts_memory[(line * DIGITS + digit_of(keys_memory[from], shift)) * pieces + piece];
        for (index_t e = 0; e < to - from; ++e) {
            sorted_keys_memory[start + e] = keys_memory[from + e];
            sorted_order_memory[start + e] = (int)(from - line * n + e);
        }
        return;
    }
    int places[DIGITS];
    for (int d = 0; d < DIGITS; ++d)
        places[d] = counts_memory[(line * DIGITS + d) * pieces + piece];
    for (index_t e = from; e < to; ++e) {
        const uint key = keys_memory[e];
        const index_t place = line * n + places[digit_of(key, shift)]++;
        sorted_keys_memory[place] = key;
        sorted_order_memory[place] = (int)(e - line * n);
    }
}
