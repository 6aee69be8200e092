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
#pragma push_macro("get_local_size")
#pragma push_macro("get_global_id")
#pragma push_macro("get_group_id")
#pragma push_macro("get_local_id")
#pragma push_macro("get_global_size")
#pragma push_macro("get_num_groups")
#define index_t index_t_0
#define get_local_size(d) walk_group_size(d)
#define get_global_id(d) ((size_t)walk_at_##d)
#define get_group_id(d) ((size_t)(walk_at_##d / walk_local(d)))
#define get_local_id(d) ((size_t)(walk_at_##d % walk_local(d)))
#define get_global_size(d) ((size_t)walk_row[1 + (d)])
#define get_num_groups(d) (get_global_size(d) / walk_local(d))
// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, runs of `run` elements a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;

static inline __attribute__((always_inline)) void walk_unit_0(
    __global float *y0_memory,
    __global const float *x0_memory,
    __global const float *x1_memory,
    const float w0,
    const int n,
    const int rows,
    const int run,
    const int y0_start,
    const int x0_start,
    const int x1_start,
    __global const int *walk_row,
    __local void *walk_shared,
    const uint walk_at_0,
    const uint walk_at_1,
    const uint walk_at_2,
    const uint walk_item)
{
    index_t i = (index_t)get_global_id(0) * run;
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;
    const index_t y0_row = y0_start;
    const index_t x0_row = x0_start;
    const index_t x1_row = x1_start;
    typedef float typeof_w0;

    const index_t stop = min(i + run, n);
    for (; i + 16 <= stop; i += 16) {
        const float16 x0 = vload16(0, x0_memory + x0_row + i);
        typedef float16 typeof_x0;
        const float16 x1 = vload16(0, x1_memory + x1_row + i);
        typedef float16 typeof_x1;
        typedef float16 typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 * w0 + x1;
#line 139 "kernel"
        }
        vstore16(y0, 0, y0_memory + y0_row + i);

    }
    // The last elements of a row do not fill a vector.
    for (; i < stop; ++i) {
        const float x0 = (float)x0_memory[x0_row + i];
        typedef float typeof_x0;
        const float x1 = (float)x1_memory[x1_row + i];
        typedef float typeof_x1;
        typedef float typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 * w0 + x1;
#line 155 "kernel"
        }
        y0_memory[y0_row + i] = y0;

    }
}

static __attribute__((noinline)) void walk_body_0(
    __global const int *walk_row,
    __global const int *walk_words,
    __global char *__private *walk_memories,
    __local void *walk_shared,
    uint walk_at,
    const uint walk_last,
    const uint walk_item)
{
    const uint walk_x = walk_row[1], walk_y = walk_row[2];
    __global float *y0_memory = (__global float *)walk_memory(walk_words + 0);
    __global const float *x0_memory = (__global const float *)walk_memory(walk_words + 3);
    __global const float *x1_memory = (__global const float *)walk_memory(walk_words + 6);
    const float w0 = as_float(walk_words[9]);
    const int n = walk_words[10];
    const int rows = walk_words[11];
    const int run = walk_words[12];
    const int y0_start = walk_words[13];
    const int x0_start = walk_words[14];
    const int x1_start = walk_words[15];
    while (walk_at < walk_last) {
        const uint walk_from = walk_at % walk_x, walk_to = min(walk_x, walk_from + walk_last - walk_at);
        const uint walk_1 = walk_at / walk_x % walk_y, walk_2 = walk_at / walk_x / walk_y;
        for (uint walk_0 = walk_from; walk_0 < walk_to; ++walk_0)
            walk_unit_0(y0_memory, x0_memory, x1_memory, w0, n, rows, run, y0_start, x0_start, x1_start, walk_row, walk_shared, walk_0, walk_1, walk_2, walk_item);
        walk_at += walk_to - walk_from;
    }
}
#pragma pop_macro("index_t")
#pragma pop_macro("get_local_size")
#pragma pop_macro("get_global_id")
#pragma pop_macro("get_group_id")
#pragma pop_macro("get_local_id")
#pragma pop_macro("get_global_size")
#pragma pop_macro("get_num_groups")

// --- body 1
#pragma push_macro("index_t")
#pragma push_macro("first_of")
#pragma push_macro("first_of_grad")
#pragma push_macro("get_local_size")
#pragma push_macro("get_global_id")
#pragma push_macro("get_group_id")
#pragma push_macro("get_local_id")
#pragma push_macro("get_global_size")
#pragma push_macro("get_num_groups")
#define index_t index_t_1
#define first_of first_of_1
#define first_of_grad first_of_grad_1
#define get_local_size(d) walk_group_size(d)
#define get_group_id(d) ((size_t)walk_at_##d)
#define get_local_id(d) ((size_t)0)
#define get_num_groups(d) ((size_t)walk_row[1 + (d)])
#define get_global_id(d) (get_group_id(d) * walk_local(d) + get_local_id(d))
#define get_global_size(d) (get_num_groups(d) * walk_local(d))
// The gradient of a depthwise convolution in its weight, of images whose columns lie side by side.
//
//     grad, one row        x, copied with zeros around it         sums of all taps
//     +------------+       +---------------------+
//     | a vector   | x     | one for every tap   |  -->   in registers, vectors of columns
//     +------------+       |                     |
//                          +---------------------+
// Some rows of a plane of x are copied to local memory, which is a cache here; with a stride of 2,
// even and odd columns apart, so that what neighbouring windows read lies side by side.
typedef int index_t;

// The first `left` elements at `at` and zeros behind them; memory that is not ours is not read.
__attribute__((always_inline)) static float16 first_of(__global const float *x_memory, index_t at, index_t size, int left)
{
    if (left >= 16)
        return vload16(0, x_memory + at);
    if (left <= 0)
        return 0;
    if (at + 16 <= size)
        return select((float16)0, vload16(0, x_memory + at), (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int16)left);
    float elements[16];
    for (int e = 0; e < 16; ++e)
        elements[e] = e < left ? (float)x_memory[at + e] : 0;
    return vload16(0, elements);
}

// The first `left` elements at `at` and zeros behind them; memory that is not ours is not read.
__attribute__((always_inline)) static float16 first_of_grad(__global const float *grad_memory, index_t at, index_t size, int left)
{
    if (left >= 16)
        return vload16(0, grad_memory + at);
    if (left <= 0)
        return 0;
    if (at + 16 <= size)
        return select((float16)0, vload16(0, grad_memory + at), (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int16)left);
    float elements[16];
    for (int e = 0; e < 16; ++e)
        elements[e] = e < left ? (float)grad_memory[at + e] : 0;
    return vload16(0, elements);
}

typedef struct {
    float source[8192];
} walk_arrays_1;
static inline __attribute__((always_inline)) void walk_unit_1(
    __global const float *x_memory,
    __global const float *grad_memory,
    __global float *partial,
    const int x_start,
    const int x_image,
    const int x_channel,
    const int x_row,
    const int x_column,
    const int grad_start,
    const int grad_image,
    const int grad_channel,
    const int grad_row,
    const int grad_column,
    const int images,
    const int channels,
    const int x_rows,
    const int x_columns,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int multiplier,
    const int planes,
    const int planes_a_item,
    const int bands,
    const int rows_a_split,
    const int rows_a_band,
    const int x_size,
    const int grad_size,
    const int pitch,
    const int source_used,
    const int even_at,
    const int odd_at,
    __global const int *walk_row,
    __local void *walk_shared,
    const uint walk_at_0,
    const uint walk_at_1,
    const uint walk_at_2,
    const uint walk_item)
{
    __local float *const source = ((__local walk_arrays_1 *)walk_shared)->source;
    const index_t plane_first = (index_t)get_group_id(0) * planes_a_item;
    const index_t plane_last = min(plane_first + planes_a_item, planes);
    const index_t row_first = (index_t)get_group_id(1) * rows_a_split;
    const index_t row_last = min(row_first + rows_a_split, y_rows);
    for (int e = 0; e < source_used; e += 16)
        vstore16((float16)0, 0, source + e);
    for (index_t plane = plane_first; plane < plane_last; ++plane) {
        const index_t image = plane / channels;
        const index_t channel = plane - image * channels;
        const index_t x_plane = x_start + image * x_image + channel / multiplier * x_channel;
        const index_t grad_plane = grad_start + image * grad_image + channel * grad_channel;
        float16 sum[3][3];
        #pragma unroll
        for (int kh = 0; kh < 3; ++kh)
            #pragma unroll
            for (int kw = 0; kw < 3; ++kw)
                sum[kh][kw] = 0;
        for (index_t first = row_first; first < row_last; first += rows_a_band) {
            const int rows_here = min(rows_a_band, row_last - first);
            const int source_rows = (rows_here - 1) * 1 + 3;
            const int x_first = first * 1 - rows_before;
            for (int s = 0; s < source_rows; ++s) {
                __local float *to = source + s * 1 * pitch;
                const int from_row = x_first + s;
                if ((uint)from_row >= (uint)x_rows) {
                    for (int e = 0; e < 1 * pitch; e += 16)
                        vstore16((float16)0, 0, to + e);
                    continue;
                }
                const index_t at = x_plane + from_row * x_row;
                for (int c = 0; c < x_columns; c += 16)
                    vstore16(first_of(x_memory, at + c, x_size, x_columns - c), 0, to + even_at + c);
            }

            for (index_t row = first; row < first + rows_here; ++row) {
                const index_t grad_line = grad_plane + row * grad_row;
                int c = 0;
                for (; c + 16 <= y_columns; c += 16) {
                    const index_t grad_at = grad_line + c;
                    const float16 factor = vload16(0, grad_memory + grad_at);
                    #pragma unroll
                    for (int kh = 0; kh < 3; ++kh)
                        #pragma unroll
                        for (int kw = 0; kw < 3; ++kw) {
                            const float16 value = vload16(0, source + (((row - first) * 1 + kh) * 1 + kw % 1) * pitch + kw / 1 + c);
                            sum[kh][kw] += factor * value;
                        }

                }
                if (c < y_columns) {
                    const int16 there = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int)(y_columns - c);
                    const float16 factor = first_of_grad(grad_memory, grad_line + c, grad_size, y_columns - c);
                    #pragma unroll
                    for (int kh = 0; kh < 3; ++kh)
                        #pragma unroll
                        for (int kw = 0; kw < 3; ++kw) {
                            const float16 value = vload16(0, source + (((row - first) * 1 + kh) * 1 + kw % 1) * pitch + kw / 1 + c);
                            sum[kh][kw] += factor * select((float16)0, value, there);
                        }

                }
            }
        }
        const index_t split = image * bands + (index_t)get_group_id(1);
        #pragma unroll
        for (int kh = 0; kh < 3; ++kh)
            #pragma unroll
            for (int kw = 0; kw < 3; ++kw) {
                const float8 sum_8 = sum[kh][kw].lo + sum[kh][kw].hi;
                const float4 sum_4 = sum_8.lo + sum_8.hi;
                const float2 sum_2 = sum_4.lo + sum_4.hi;
                const float sum_1 = sum_2.lo + sum_2.hi;
                partial[(split * 9 + kh * 3 + kw) * channels + channel] = sum_1;
            }
    }
}

static __attribute__((noinline)) void walk_body_1(
    __global const int *walk_row,
    __global const int *walk_words,
    __global char *__private *walk_memories,
    __local void *walk_shared,
    uint walk_at,
    const uint walk_last,
    const uint walk_item)
{
    const uint walk_x = walk_row[1], walk_y = walk_row[2];
    __global const float *x_memory = (__global const float *)walk_memory(walk_words + 0);
    __global const float *grad_memory = (__global const float *)walk_memory(walk_words + 3);
    __global float *partial = (__global float *)walk_memory(walk_words + 6);
    const int x_start = walk_words[9];
    const int x_image = walk_words[10];
    const int x_channel = walk_words[11];
    const int x_row = walk_words[12];
    const int x_column = walk_words[13];
    const int grad_start = walk_words[14];
    const int grad_image = walk_words[15];
    const int grad_channel = walk_words[16];
    const int grad_row = walk_words[17];
    const int grad_column = walk_words[18];
    const int images = walk_words[19];
    const int channels = walk_words[20];
    const int x_rows = walk_words[21];
    const int x_columns = walk_words[22];
    const int y_rows = walk_words[23];
    const int y_columns = walk_words[24];
    const int rows_before = walk_words[25];
    const int columns_before = walk_words[26];
    const int multiplier = walk_words[27];
    const int planes = walk_words[28];
    const int planes_a_item = walk_words[29];
    const int bands = walk_words[30];
    const int rows_a_split = walk_words[31];
    const int rows_a_band = walk_words[32];
    const int x_size = walk_words[33];
    const int grad_size = walk_words[34];
    const int pitch = walk_words[35];
    const int source_used = walk_words[36];
    const int even_at = walk_words[37];
    const int odd_at = walk_words[38];
    while (walk_at < walk_last) {
        const uint walk_from = walk_at % walk_x, walk_to = min(walk_x, walk_from + walk_last - walk_at);
        const uint walk_1 = walk_at / walk_x % walk_y, walk_2 = walk_at / walk_x / walk_y;
        for (uint walk_0 = walk_from; walk_0 < walk_to; ++walk_0)
            walk_unit_1(x_memory, grad_memory, partial, x_start, x_image, x_channel, x_row, x_column, grad_start, grad_image, grad_channel, grad_row, grad_column, images, channels, x_rows, x_columns, y_rows, y_columns, rows_before, columns_before, multiplier, planes, planes_a_item, bands, rows_a_split, rows_a_band, x_size, grad_size, pitch, source_used, even_at, odd_at, walk_row, walk_shared, walk_0, walk_1, walk_2, walk_item);
        walk_at += walk_to - walk_from;
    }
}
#pragma pop_macro("index_t")
#pragma pop_macro("first_of")
#pragma pop_macro("first_of_grad")
#pragma pop_macro("get_local_size")
#pragma pop_macro("get_global_id")
#pragma pop_macro("get_group_id")
#pragma pop_macro("get_local_id")
#pragma pop_macro("get_global_size")
#pragma pop_macro("get_num_groups")

__kernel __attribute__((intel_vec_len_hint(1))) __attribute__((reqd_work_group_size(1, 1, 1))) void phases(
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
        walk_arrays_1 body_1;
    } shared;
    __global char *memories[4] = { walk_memory_0, walk_memory_1, walk_memory_2, walk_memory_3, };
    const uint item = 0;
    const uint shares = walk_shares, between = 16 * (1 + shares);
    const uint own = get_group_id(0) * shares / get_num_groups(0);
    for (int p = 0; p < walk_phases; ++p) {
        __global const int *row = walk_table + p * 16;
        __global walk_counter *counters = walk_counters + p * between;
        const uint units = (uint)row[1] * row[2] * row[3], at_once = row[4], tiles = row[5];
        uint done = 0;
            walk_wait(walk_table + row[6], row[7], walk_counters, between, walk_epoch + 1);
        for (;;) {
            const uint tile = walk_next(counters, walk_epoch, tiles, shares, own);
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
        if (done > 0)
            walk_done(counters, done);
    }
}
