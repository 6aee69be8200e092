typedef int index_t;

#define DIGITS 256
#define digit_of(key, shift) ((int)((key) >> (shift)) & (DIGITS - 1))

__kernel void sort_lines(
    __global uint *keys_memory,
    __global int *order_memory,
    __global uint *other_keys_memory,
    __global int *other_order_memory,
    const int lines,
    const int n,
    const int chunk,
    const int pieces,
    const int shift)
{
    const index_t line = (index_t)get_global_id(0);
    if (line >= lines)
        return;
    __global uint *keys = keys_memory + line * n;
    __global uint *other_keys = other_keys_memory + line * n;
    __global int *order = order_memory + line * n;
    __global int *other_order = other_order_memory + line * n;
    int places[4][DIGITS];
    for (int p = 0; p < 4; ++p)
        for (int d = 0; d < DIGITS; ++d)
            places[p][d] = 0;
    for (index_t e = 0; e < n; ++e) {
        const uint key = keys[e];
        for (int p = 0; p < 4; ++p)
            ++places[p][digit_of(key, 8 * p)];
        order[e] = (int)e;
    }
    for (int p = 0; p < 4; ++p) {
        if (places[p][digit_of(keys[0], 8 * p)] == n)
            continue;
        int before = 0;
        for (int d = 0; d < DIGITS; ++d) {
            const int count = places[p][d];
            places[p][d] = before;
            before += count;
        }
        for (index_t e = 0; e < n; ++e) {
            const uint key = keys[e];
            const int place = places[p][digit_of(key, 8 * p)]++;
            other_keys[place] = key;
            other_order[place] = order[e];
        }
        __global uint *const old_keys = keys;
        __global int *const old_order = order;
        keys = other_keys, other_keys = old_keys;
        order = other_order, other_order = old_order;
    }
    if (order != order_memory + line * n)
        for (index_t e = 0; e < n; ++e)
            order_memory[line * n + e] = order[e];
}
