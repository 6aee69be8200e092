typedef int index_t;

#define DIGITS 256
#define digit_of(key, shift) ((int)((key) >> (shift)) & (DIGITS - 1))

__kernel void sort_select(
    __global const uint *keys_memory,
    __global uint *least_keys_memory,
    __global int *least_places_memory,
    const int lines,
    const int n,
    const int chunk,
    const int pieces,
    const int k,
    const int room)
{
    const index_t item = (index_t)get_global_id(0);
    if (item >= lines * pieces)
        return;
    const index_t line = item / pieces;
    const index_t piece = item - line * pieces;
    const index_t to = line * n + (index_t)((long)n * (piece + 1) / pieces);
    index_t e = line * n + (index_t)((long)n * piece / pieces);
    __global uint *kept = least_keys_memory + item * k;
    __global int *places = least_places_memory + item * k;
    uint worst = (uint)-1;
    int count = 0;
    while (e < to) {
        const bool block = e + 16 <= to;
        if (block && count >= k && !any(vload16(0, keys_memory + e) < (uint16)(worst))) {
            e += 16;
            continue;
        }
        for (const index_t end = block ? e + 16 : to; e < end; ++e) {
            const uint key = keys_memory[e];
            if (count >= k && key >= worst)
                continue;
            const int place = (int)(e - line * n);
            int at = count < k ? count++ : k - 1;
            for (; at > 0 && kept[at - 1] > key; --at) {
                kept[at] = kept[at - 1];
                places[at] = places[at - 1];
            }
            kept[at] = key;
            places[at] = place;
            worst = kept[count - 1];
        }
    }
}
