typedef int index_t;

#define DIGITS 256
#define digit_of(key, shift) ((int)((key) >> (shift)) & (DIGITS - 1))

__kernel void sort_rank(
    __global const uint *keys_memory,
    __global int *order_memory,
    const int lines,
    const int n,
    const int chunk,
    const int pieces,
    const int shift)
{
    const index_t item = (index_t)get_global_id(0);
    if (item >= lines * n)
        return;
    const index_t start = item / n * n;
    const uint own = keys_memory[item];
    int place = 0;
    for (index_t e = start; e < item; ++e)
        place += keys_memory[e] <= own;
    for (index_t e = item + 1; e < start + n; ++e)
        place += keys_memory[e] < own;
    order_memory[start + place] = (int)(item - start);
}
