typedef int index_t;

#define DIGITS 256
#define digit_of(key, shift) ((int)((key) >> (shift)) & (DIGITS - 1))

static uint greatest(const __global uint *keys, int count)
{
    uint found = 0;
    for (int i = 0; i < count; ++i)
        found = max(found, keys[i]);
    return found;
}

/* Keeps the k least of `count` keys, of equal ones the first, in the order in which they lie; their greatest
   is found digit by digit from the top. */
static int least(__global uint *keys, __global int *places, int count, int k, uint *worst)
{
    if (count <= k)
        return count;
    uint bound = 0;
    int left = k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        int counts[DIGITS];
        for (int d = 0; d < DIGITS; ++d)
            counts[d] = 0;
        for (int i = 0; i < count; ++i)
            if ((keys[i] ^ bound) >> shift >> 8 == 0)
                ++counts[digit_of(keys[i], shift)];
        int digit = 0;
        while (left > counts[digit])
            left -= counts[digit++];
        bound |= (uint)digit << shift;
    }
    int to = 0;
    for (int i = 0; i < count; ++i) {
        const bool equal = keys[i] == bound;
        if (keys[i] < bound || (equal && left > 0)) {
            left -= equal;
            keys[to] = keys[i];
            places[to] = places[i];
            ++to;
        }
    }
    *worst = bound;
    return to;
}

__kernel void sort_select(
    __global const uint *keys_memory,
    __global uint *least_keys_memory,
    __global int *least_places_memory,
    __global uint *kept_keys_memory,
    __global int *kept_places_memory,
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
    __global uint *kept = kept_keys_memory + item * room;
    __global int *places = kept_places_memory + item * room;
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
            kept[count] = key;
            places[count] = place;
            ++count;
            if (count == room)
                count = least(kept, places, count, k, &worst);
            else if (count == k)
                worst = greatest(kept, k);
        }
    }
    least(kept, places, count, k, &worst);
    for (int i = 0; i < k; ++i) {
        least_keys_memory[item * k + i] = kept[i];
        least_places_memory[item * k + i] = places[i];
    }
}
