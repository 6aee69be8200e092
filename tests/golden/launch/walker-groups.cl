// Kernels of a graph in one launch: phases in order, each of which is the work of a kernel, in tiles.
//
//   table      phase 0: body, size, tiles, what it waits for, arguments | phase 1 | ...
//   counters   tiles of phase 0 that were done, and taken of each share | phase 1 | ...
//
// A work-group takes the next tile of a phase, of its own share first, as what it wrote is near to it,
// runs the kernel's body on it and counts it as done.
// Before a phase it waits for tiles of others that groups which run have taken: never for a group
// that has not begun. Counters go on from launch to launch; `epoch` is the number of this one.
#if __OPENCL_C_VERSION__ == 200 || (defined(__opencl_c_atomic_order_acq_rel) && defined(__opencl_c_atomic_scope_device))
typedef atomic_uint walk_counter;
static inline uint walk_taken(__global walk_counter *at)
{
    return atomic_load_explicit(at, memory_order_relaxed, memory_scope_device);
}
static inline bool walk_take(__global walk_counter *at, uint *old)
{
    return atomic_compare_exchange_strong_explicit(
        at, old, *old + 1, memory_order_relaxed, memory_order_relaxed, memory_scope_device);
}
static inline void walk_done(__global walk_counter *at, uint tiles)
{
    atomic_fetch_add_explicit(at, tiles, memory_order_release, memory_scope_device);
}
static inline uint walk_seen(__global walk_counter *at)
{
    return atomic_load_explicit(at, memory_order_acquire, memory_scope_device);
}
#else
typedef volatile uint walk_counter;
static inline uint walk_taken(__global walk_counter *at)
{
    return atomic_add(at, 0u);
}
static inline bool walk_take(__global walk_counter *at, uint *old)
{
    const uint wanted = *old;
    *old = atomic_cmpxchg(at, wanted, wanted + 1);
    return *old == wanted;
}
static inline void walk_done(__global walk_counter *at, uint tiles)
{
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    atomic_add(at, tiles);
}
static inline uint walk_seen(__global walk_counter *at)
{
    const uint found = atomic_add(at, 0u);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    return found;
}
#endif
// Returns the next tile of a phase, of which shares begin with a work-group's own; `tiles` where all are taken.
static inline uint walk_next(__global walk_counter *counters, uint epoch, uint tiles, uint shares, uint own)
{
    for (uint s = 0; s < shares; ++s) {
        const uint share = own + s < shares ? own + s : own + s - shares;
        const uint first = share * tiles / shares, count = (share + 1) * tiles / shares - first;
        __global walk_counter *at = counters + 16 * (1 + share);
        for (uint old = walk_taken(at); old - epoch * count < count;) {
            const uint tile = first + old - epoch * count;
            if (walk_take(at, &old))
                return tile;
        }
    }
    return tiles;
}
// Waits until phases have ended: pairs of their number and how many tiles they have.
static inline void walk_wait(__global const int *waits, int count, __global walk_counter *counters, uint between, uint launches)
{
    for (int w = 0; w < count; ++w)
        while ((int)(walk_seen(counters + waits[2 * w] * between) - launches * (uint)waits[2 * w + 1]) < 0)
            ;
}
#define walk_local(d) ((uint)walk_row[10 + (d)])
#define walk_memory(words) (walk_memories[(words)[0]] + as_long((int2)((words)[1], (words)[2])))
#define walk_group_size(d) ((size_t)walk_local(d))

// --- body 0
#pragma push_macro("index_t")
#pragma push_macro("one_of")
#pragma push_macro("count_of")
#pragma push_macro("DIGITS")
#pragma push_macro("digit_of")
#pragma push_macro("get_local_size")
#pragma push_macro("get_global_id")
#pragma push_macro("get_group_id")
#pragma push_macro("get_local_id")
#pragma push_macro("get_global_size")
#pragma push_macro("get_num_groups")
#define index_t index_t_0
#define one_of one_of_0
#define count_of count_of_0
#define get_local_size(d) walk_group_size(d)
#define get_group_id(d) ((size_t)walk_at_##d)
#define walk_item_0 (walk_item % walk_local(0))
#define walk_item_1 (walk_item / walk_local(0) % walk_local(1))
#define walk_item_2 (walk_item / walk_local(0) / walk_local(1))
#define get_local_id(d) ((size_t)walk_item_##d)
#define get_num_groups(d) ((size_t)walk_row[1 + (d)])
#define get_global_id(d) (get_group_id(d) * walk_local(d) + get_local_id(d))
#define get_global_size(d) (get_num_groups(d) * walk_local(d))
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

typedef struct {
    ulong4 counts[256];
} walk_arrays_0;
static inline __attribute__((always_inline)) void walk_unit_0(
    __global const uint *keys_memory,
    __global int *counts_memory,
    const int lines,
    const int n,
    const int chunk,
    const int pieces,
    const int shift,
    __global const int *walk_row,
    __local void *walk_shared,
    const uint walk_at_0,
    const uint walk_at_1,
    const uint walk_at_2,
    const uint walk_item)
{
    __local ulong4 *const counts = ((__local walk_arrays_0 *)walk_shared)->counts;
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

static void walk_body_0(
    __global const int *walk_row,
    __global const int *walk_words,
    __global char *__local *walk_memories,
    __local void *walk_shared,
    uint walk_at,
    const uint walk_last,
    const uint walk_item)
{
    const uint walk_x = walk_row[1], walk_y = walk_row[2];
    __global const uint *keys_memory = (__global const uint *)walk_memory(walk_words + 0);
    __global int *counts_memory = (__global int *)walk_memory(walk_words + 3);
    const int lines = walk_words[6];
    const int n = walk_words[7];
    const int chunk = walk_words[8];
    const int pieces = walk_words[9];
    const int shift = walk_words[10];
    // A unit for each work-item, or one after another for all of them.
    for (uint walk_unit = walk_at; walk_unit < walk_last; walk_unit += 1) {
        walk_unit_0(keys_memory, counts_memory, lines, n, chunk, pieces, shift, walk_row, walk_shared,
            walk_unit % walk_x, walk_unit / walk_x % walk_y, walk_unit / walk_x / walk_y, walk_item);
        barrier(CLK_LOCAL_MEM_FENCE);  // the next one writes what this one has read
    }
}
#pragma pop_macro("index_t")
#pragma pop_macro("one_of")
#pragma pop_macro("count_of")
#pragma pop_macro("DIGITS")
#pragma pop_macro("digit_of")
#pragma pop_macro("get_local_size")
#pragma pop_macro("get_global_id")
#pragma pop_macro("get_group_id")
#pragma pop_macro("get_local_id")
#pragma pop_macro("get_global_size")
#pragma pop_macro("get_num_groups")

// --- body 1
#pragma push_macro("index_t")
#pragma push_macro("DIGITS")
#pragma push_macro("digit_of")
#pragma push_macro("get_local_size")
#pragma push_macro("get_global_id")
#pragma push_macro("get_group_id")
#pragma push_macro("get_local_id")
#pragma push_macro("get_global_size")
#pragma push_macro("get_num_groups")
#define index_t index_t_1
#define get_local_size(d) walk_group_size(d)
#define get_global_id(d) ((size_t)walk_at_##d)
#define get_group_id(d) ((size_t)(walk_at_##d / walk_local(d)))
#define get_local_id(d) ((size_t)(walk_at_##d % walk_local(d)))
#define get_global_size(d) ((size_t)walk_row[1 + (d)])
#define get_num_groups(d) (get_global_size(d) / walk_local(d))
typedef int index_t;

#define DIGITS 256
#define digit_of(key, shift) ((int)((key) >> (shift)) & (DIGITS - 1))

static inline __attribute__((always_inline)) void walk_unit_1(
    __global const uint *keys_memory,
    __global int *order_memory,
    const int lines,
    const int n,
    const int chunk,
    const int pieces,
    const int shift,
    __global const int *walk_row,
    __local void *walk_shared,
    const uint walk_at_0,
    const uint walk_at_1,
    const uint walk_at_2,
    const uint walk_item)
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

static void walk_body_1(
    __global const int *walk_row,
    __global const int *walk_words,
    __global char *__local *walk_memories,
    __local void *walk_shared,
    uint walk_at,
    const uint walk_last,
    const uint walk_item)
{
    const uint walk_x = walk_row[1], walk_y = walk_row[2];
    __global const uint *keys_memory = (__global const uint *)walk_memory(walk_words + 0);
    __global int *order_memory = (__global int *)walk_memory(walk_words + 3);
    const int lines = walk_words[6];
    const int n = walk_words[7];
    const int chunk = walk_words[8];
    const int pieces = walk_words[9];
    const int shift = walk_words[10];
    // A unit for each work-item, or one after another for all of them.
    for (uint walk_unit = walk_at + walk_item; walk_unit < walk_last; walk_unit += 256) {
        walk_unit_1(keys_memory, order_memory, lines, n, chunk, pieces, shift, walk_row, walk_shared,
            walk_unit % walk_x, walk_unit / walk_x % walk_y, walk_unit / walk_x / walk_y, walk_item);
    }
}
#pragma pop_macro("index_t")
#pragma pop_macro("DIGITS")
#pragma pop_macro("digit_of")
#pragma pop_macro("get_local_size")
#pragma pop_macro("get_global_id")
#pragma pop_macro("get_group_id")
#pragma pop_macro("get_local_id")
#pragma pop_macro("get_global_size")
#pragma pop_macro("get_num_groups")

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void phases(
    __global const int *walk_table,
    __global walk_counter *walk_counters,
    const uint walk_epoch,
    const int walk_phases,
    const int walk_shares,
    __global char *walk_memory_0,
    __global char *walk_memory_1,
    __global char *walk_memory_2,
    __global char *walk_memory_3)
{
    __local union {
        ulong8 aligned;
        walk_arrays_0 body_0;
    } shared;
    __global char *__local memories[4];
    __local uint taken;
    const uint item = get_local_id(0);
    if (item == 0) {
        memories[0] = walk_memory_0;
        memories[1] = walk_memory_1;
        memories[2] = walk_memory_2;
        memories[3] = walk_memory_3;
    }
    const uint shares = walk_shares, between = 16 * (1 + shares);
    const uint own = get_group_id(0) * shares / get_num_groups(0);
    for (int p = 0; p < walk_phases; ++p) {
        __global const int *row = walk_table + p * 16;
        __global walk_counter *counters = walk_counters + p * between;
        const uint units = (uint)row[1] * row[2] * row[3], at_once = row[4], tiles = row[5];
        uint done = 0;
        if (item == 0)
            walk_wait(walk_table + row[6], row[7], walk_counters, between, walk_epoch + 1);
        for (;;) {
            if (item == 0)
                taken = walk_next(counters, walk_epoch, tiles, shares, own);
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            const uint tile = taken;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (tile >= tiles)
                break;
            ++done;
            const uint first = tile * at_once, last = min(first + at_once, units);
            switch (row[0]) {
                case 0:
                    walk_body_0(row, walk_table + row[8], memories, &shared, first, last, item);
                    break;
                case 1:
                    walk_body_1(row, walk_table + row[8], memories, &shared, first, last, item);
                    break;
            }
        }
        barrier(CLK_GLOBAL_MEM_FENCE);
        if (item == 0 && done > 0)
            walk_done(counters, done);
    }
}
