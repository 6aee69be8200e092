typedef int index_t;

#define DIGITS 16
#define digit_of(key, shift) ((int)((key) >> (shift)) & (DIGITS - 1))

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
    for (index_t e = from; e < to; ++e)
        ++counts[digit_of(keys_memory[e], shift)];
    for (int d = 0; d < DIGITS; ++d)
        counts_memory[(line * DIGITS + d) * pieces + piece] = counts[d];
}
