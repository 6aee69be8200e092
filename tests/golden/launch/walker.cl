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
#pragma push_macro("cp_max")
#pragma push_macro("take_first")
#pragma push_macro("take_partial")
#pragma push_macro("max")
#pragma push_macro("lowest_reduce_y0")
#pragma push_macro("highest_reduce_y0")
#pragma push_macro("lowest_reduce_y1")
#pragma push_macro("highest_reduce_y1")
#pragma push_macro("get_local_size")
#pragma push_macro("get_global_id")
#pragma push_macro("get_group_id")
#pragma push_macro("get_local_id")
#pragma push_macro("get_global_size")
#pragma push_macro("get_num_groups")
#define index_t index_t_1
#define cp_max cp_max_1
#define take_first take_first_1
#define take_partial take_partial_1
#define get_local_size(d) walk_group_size(d)
#define get_group_id(d) ((size_t)walk_at_##d)
#define get_local_id(d) ((size_t)0)
#define get_num_groups(d) ((size_t)walk_row[1 + (d)])
#define get_global_id(d) (get_group_id(d) * walk_local(d) + get_local_id(d))
#define get_global_size(d) (get_num_groups(d) * walk_local(d))
// Reduces groups and maps them, whose elements lie in runs.
//
//     a group    |----- run 0, n elements -----|   ...   |----- run 1 -----|   ...     runs anywhere
//     reduce     v v v v v v ... v                                                   the last one reaches back
//     each       v v v v v v ... v t t                                               once more, from a near cache
//     begun      v v v v v v ... v     results of the last walk, which `near_finish` takes instead of elements
//
// A work-item takes some groups, one after the other.
typedef int index_t;
static inline __attribute__((overloadable)) int cp_max(int a, int b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) uint cp_max(uint a, uint b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) long cp_max(long a, long b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) ulong cp_max(ulong a, ulong b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float cp_max(float a, float b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float16 cp_max(float16 a, float16 b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float8 cp_max(float8 a, float8 b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float4 cp_max(float4 a, float4 b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float2 cp_max(float2 a, float2 b)
{
    return max(a, b);
}
#undef max
#define max(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_max((cp_type)cp_in_a, (cp_type)cp_in_b); })

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY
#define lowest_reduce_y1 -INFINITY
#define highest_reduce_y1 INFINITY

static inline __attribute__((overloadable)) void take_first(
float16 *to_reduce_y0, float16 *to_reduce_y1, const float16 other_y0, const float16 other_y1, const float w0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float16 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_first_combine"
reduce_y0 = max(reduce_y0, other_y0);
#line 291 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_first(
float8 *to_reduce_y0, float8 *to_reduce_y1, const float8 other_y0, const float8 other_y1, const float w0)
{
    typedef float8 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float8 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_first_combine"
reduce_y0 = max(reduce_y0, other_y0);
#line 307 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_first(
float4 *to_reduce_y0, float4 *to_reduce_y1, const float4 other_y0, const float4 other_y1, const float w0)
{
    typedef float4 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float4 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_first_combine"
reduce_y0 = max(reduce_y0, other_y0);
#line 323 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_first(
float2 *to_reduce_y0, float2 *to_reduce_y1, const float2 other_y0, const float2 other_y1, const float w0)
{
    typedef float2 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float2 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_first_combine"
reduce_y0 = max(reduce_y0, other_y0);
#line 339 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_first(
float *to_reduce_y0, float *to_reduce_y1, const float other_y0, const float other_y1, const float w0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_first_combine"
reduce_y0 = max(reduce_y0, other_y0);
#line 355 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_partial(
float16 *to_reduce_y0, float16 *to_reduce_y1, const float16 other_y0, const float16 other_y1, const float w0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float16 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_step_combine"
reduce_y1 += other_y1;
#line 371 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_partial(
float8 *to_reduce_y0, float8 *to_reduce_y1, const float8 other_y0, const float8 other_y1, const float w0)
{
    typedef float8 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float8 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_step_combine"
reduce_y1 += other_y1;
#line 387 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_partial(
float4 *to_reduce_y0, float4 *to_reduce_y1, const float4 other_y0, const float4 other_y1, const float w0)
{
    typedef float4 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float4 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_step_combine"
reduce_y1 += other_y1;
#line 403 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_partial(
float2 *to_reduce_y0, float2 *to_reduce_y1, const float2 other_y0, const float2 other_y1, const float w0)
{
    typedef float2 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float2 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_step_combine"
reduce_y1 += other_y1;
#line 419 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, float *to_reduce_y1, const float other_y0, const float other_y1, const float w0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    {
#line 1 "snippet:near_step_combine"
reduce_y1 += other_y1;
#line 435 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
}

typedef struct {
    float begun_y0[4096];
} walk_arrays_1;
static inline __attribute__((always_inline)) void walk_unit_1(
    __global float *y0_memory,
    __global float *group_y1_memory,
    __global const float *x0_memory,
    const float w0,
    const int groups,
    const int inner_groups,
    const int rows,
    const int n,
    const int y0_start,
    const int y0_outer,
    const int y0_group,
    const int y0_row,
    const int group_y1_start,
    const int group_y1_outer,
    const int group_y1_group,
    const int x0_start,
    const int x0_outer,
    const int x0_group,
    const int x0_row,
    const int groups_an_item,
    const int rows_a_chain,
    __global const int *walk_row,
    __local void *walk_shared,
    const uint walk_at_0,
    const uint walk_at_1,
    const uint walk_at_2,
    const uint walk_item)
{
    __local float *const begun_y0 = ((__local walk_arrays_1 *)walk_shared)->begun_y0;
    typedef float typeof_w0;

    const index_t first = (index_t)get_group_id(0) * groups_an_item;
    const index_t last = min(first + groups_an_item, groups);
    for (index_t number = first; number < last; ++number) {
        const index_t outer = number / inner_groups, group = number % inner_groups;
        const index_t y0_begin = y0_start + outer * y0_outer + group * y0_group;
        const index_t x0_begin = x0_start + outer * x0_outer + group * x0_group;
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        typedef float typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = -INFINITY; reduce_y1 = 0;
#line 489 "kernel"
        }

        for (index_t chain = 0; chain < rows; chain += rows_a_chain) {
            float16 tile_reduce_y0[4];
            float16 tile_reduce_y1[4];
            {
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                typedef float16 typeof_reduce_y1;
                typeof_reduce_y1 reduce_y1 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = -INFINITY; reduce_y1 = 0;
#line 503 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                    tile_reduce_y1[u] = reduce_y1;
                }
            }

            for (index_t row = chain; row < min(chain + rows_a_chain, rows); ++row) {
                const index_t x0_at = x0_begin + row * x0_row;

                index_t e = 0;
                for (; e + 64 <= n; e += 64) {
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        const index_t at = e + u * 16;
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                        typedef float16 typeof_reduce_y1;
                        typeof_reduce_y1 reduce_y1 = tile_reduce_y1[u];
                        typedef float16 typeof_x0;
                        const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
                        {
#line 1 "snippet:near_first"
reduce_y0 = max(reduce_y0, x0);
#line 530 "kernel"
                        }

                        tile_reduce_y0[u] = reduce_y0;
                        tile_reduce_y1[u] = reduce_y1;

                    }
                }
                for (; e + 16 <= n; e += 16) {
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                    typedef float16 typeof_reduce_y1;
                    typeof_reduce_y1 reduce_y1 = tile_reduce_y1[0];
                    typedef float16 typeof_x0;
                    const typeof_x0 x0 = vload16(0, x0_memory + x0_at + e);
                    {
#line 1 "snippet:near_first"
reduce_y0 = max(reduce_y0, x0);
#line 548 "kernel"
                    }

                    tile_reduce_y0[0] = reduce_y0;
                    tile_reduce_y1[0] = reduce_y1;

                }
                if (e < n) {
                    // What the last vector has taken before stays as it is.
                    const int16 fresh = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) >= (int16)(16 - (n - e));
                    const float16 old_reduce_y0 = tile_reduce_y0[0];
                    const float16 old_reduce_y1 = tile_reduce_y1[0];
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                    typedef float16 typeof_reduce_y1;
                    typeof_reduce_y1 reduce_y1 = tile_reduce_y1[0];
                    typedef float16 typeof_x0;
                    const typeof_x0 x0 = vload16(0, x0_memory + x0_at + (n - 16));
                    {
#line 1 "snippet:near_first"
reduce_y0 = max(reduce_y0, x0);
#line 569 "kernel"
                    }

                    tile_reduce_y0[0] = reduce_y0;
                    tile_reduce_y1[0] = reduce_y1;

                    tile_reduce_y0[0] = fresh ? tile_reduce_y0[0] : old_reduce_y0;
                    tile_reduce_y1[0] = fresh ? tile_reduce_y1[0] : old_reduce_y1;
                }
            }
            #pragma unroll
            for (int u = 1; u < 4; ++u)
                take_first(&tile_reduce_y0[0], &tile_reduce_y1[0], tile_reduce_y0[u], tile_reduce_y1[u], w0);
            {
                const float16 vector_reduce_y0 = tile_reduce_y0[0];
                const float16 vector_reduce_y1 = tile_reduce_y1[0];
                // Halves onto halves, down to a single value.
                float8 half8_reduce_y0 = vector_reduce_y0.lo;
                float8 half8_reduce_y1 = vector_reduce_y1.lo;
                take_first(&half8_reduce_y0, &half8_reduce_y1, vector_reduce_y0.hi, vector_reduce_y1.hi, w0);
                float4 half4_reduce_y0 = half8_reduce_y0.lo;
                float4 half4_reduce_y1 = half8_reduce_y1.lo;
                take_first(&half4_reduce_y0, &half4_reduce_y1, half8_reduce_y0.hi, half8_reduce_y1.hi, w0);
                float2 half2_reduce_y0 = half4_reduce_y0.lo;
                float2 half2_reduce_y1 = half4_reduce_y1.lo;
                take_first(&half2_reduce_y0, &half2_reduce_y1, half4_reduce_y0.hi, half4_reduce_y1.hi, w0);
                float half1_reduce_y0 = half2_reduce_y0.lo;
                float half1_reduce_y1 = half2_reduce_y1.lo;
                take_first(&half1_reduce_y0, &half1_reduce_y1, half2_reduce_y0.hi, half2_reduce_y1.hi, w0);
                take_first(&reduce_y0, &reduce_y1, half1_reduce_y0, half1_reduce_y1, w0);

            }

        }
        for (index_t chain = 0; chain < rows; chain += rows_a_chain) {
            float16 tile_reduce_y0[4];
            float16 tile_reduce_y1[4];
            {
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = 0;
                typedef float16 typeof_reduce_y1;
                typeof_reduce_y1 reduce_y1 = 0;
                {
#line 1 "snippet:init"
reduce_y0 = -INFINITY; reduce_y1 = 0;
#line 614 "kernel"
                }

                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    tile_reduce_y0[u] = reduce_y0;
                    tile_reduce_y1[u] = reduce_y1;
                }
            }

            #pragma unroll
            for (int u = 0; u < 4; ++u)
                tile_reduce_y0[u] = reduce_y0;
            for (index_t row = chain; row < min(chain + rows_a_chain, rows); ++row) {
                const index_t x0_at = x0_begin + row * x0_row;

                index_t e = 0;
                for (; e + 64 <= n; e += 64) {
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        const index_t at = e + u * 16;
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                        typedef float16 typeof_reduce_y1;
                        typeof_reduce_y1 reduce_y1 = tile_reduce_y1[u];
                        typedef float16 typeof_x0;
                        const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
                        typedef float16 typeof_y0;
                        typeof_y0 y0 = 0;
                        {
#line 1 "snippet:near_begin"
y0 = exp(x0 - reduce_y0) * w0;
#line 646 "kernel"
                        }
                        {
#line 1 "snippet:near_step"
reduce_y1 += y0;
#line 651 "kernel"
                        }

                        tile_reduce_y0[u] = reduce_y0;
                        tile_reduce_y1[u] = reduce_y1;

                        vstore16(y0, 0, begun_y0 + row * n + at);

                    }
                }
                for (; e + 16 <= n; e += 16) {
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                    typedef float16 typeof_reduce_y1;
                    typeof_reduce_y1 reduce_y1 = tile_reduce_y1[0];
                    typedef float16 typeof_x0;
                    const typeof_x0 x0 = vload16(0, x0_memory + x0_at + e);
                    typedef float16 typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:near_begin"
y0 = exp(x0 - reduce_y0) * w0;
#line 673 "kernel"
                    }
                    {
#line 1 "snippet:near_step"
reduce_y1 += y0;
#line 678 "kernel"
                    }

                    tile_reduce_y0[0] = reduce_y0;
                    tile_reduce_y1[0] = reduce_y1;

                    vstore16(y0, 0, begun_y0 + row * n + e);

                }
                if (e < n) {
                    // What the last vector has taken before stays as it is.
                    const int16 fresh = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) >= (int16)(16 - (n - e));
                    const float16 old_reduce_y0 = tile_reduce_y0[0];
                    const float16 old_reduce_y1 = tile_reduce_y1[0];
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[0];
                    typedef float16 typeof_reduce_y1;
                    typeof_reduce_y1 reduce_y1 = tile_reduce_y1[0];
                    typedef float16 typeof_x0;
                    const typeof_x0 x0 = vload16(0, x0_memory + x0_at + (n - 16));
                    typedef float16 typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:near_begin"
y0 = exp(x0 - reduce_y0) * w0;
#line 703 "kernel"
                    }
                    {
#line 1 "snippet:near_step"
reduce_y1 += y0;
#line 708 "kernel"
                    }

                    tile_reduce_y0[0] = reduce_y0;
                    tile_reduce_y1[0] = reduce_y1;

                    vstore16(y0, 0, begun_y0 + row * n + (n - 16));

                    tile_reduce_y0[0] = fresh ? tile_reduce_y0[0] : old_reduce_y0;
                    tile_reduce_y1[0] = fresh ? tile_reduce_y1[0] : old_reduce_y1;
                }
            }
            #pragma unroll
            for (int u = 1; u < 4; ++u)
                take_partial(&tile_reduce_y0[0], &tile_reduce_y1[0], tile_reduce_y0[u], tile_reduce_y1[u], w0);
            {
                const float16 vector_reduce_y0 = tile_reduce_y0[0];
                const float16 vector_reduce_y1 = tile_reduce_y1[0];
                // Halves onto halves, down to a single value.
                float8 half8_reduce_y0 = vector_reduce_y0.lo;
                float8 half8_reduce_y1 = vector_reduce_y1.lo;
                take_partial(&half8_reduce_y0, &half8_reduce_y1, vector_reduce_y0.hi, vector_reduce_y1.hi, w0);
                float4 half4_reduce_y0 = half8_reduce_y0.lo;
                float4 half4_reduce_y1 = half8_reduce_y1.lo;
                take_partial(&half4_reduce_y0, &half4_reduce_y1, half8_reduce_y0.hi, half8_reduce_y1.hi, w0);
                float2 half2_reduce_y0 = half4_reduce_y0.lo;
                float2 half2_reduce_y1 = half4_reduce_y1.lo;
                take_partial(&half2_reduce_y0, &half2_reduce_y1, half4_reduce_y0.hi, half4_reduce_y1.hi, w0);
                float half1_reduce_y0 = half2_reduce_y0.lo;
                float half1_reduce_y1 = half2_reduce_y1.lo;
                take_partial(&half1_reduce_y0, &half1_reduce_y1, half2_reduce_y0.hi, half2_reduce_y1.hi, w0);
                take_partial(&reduce_y0, &reduce_y1, half1_reduce_y0, half1_reduce_y1, w0);

            }

        }
        float value_0;
        float value_1;
        {

            typedef float typeof_group_y0;
            typeof_group_y0 group_y0 = 0;
            typedef float typeof_group_y1;
            typeof_group_y1 group_y1 = 0;
            const float count = (float)rows * n;
            {
#line 1 "snippet:finalize"
group_y0 = reduce_y0;
group_y1 = reduce_y1;
#line 757 "kernel"
            }
            value_0 = group_y0;
            value_1 = group_y1;
        }
        group_y1_memory[group_y1_start + outer * group_y1_outer + group * group_y1_group] = value_1;
        for (index_t row = 0; row < rows; ++row) {
            const index_t y0_at = y0_begin + row * y0_row;

            index_t e = 0;
            for (; e + 16 <= n; e += 16) {

                typedef float16 typeof_group_y0;
                const typeof_group_y0 group_y0 = value_0;
                typedef float16 typeof_group_y1;
                const typeof_group_y1 group_y1 = value_1;
                typedef float16 typeof_y0;
                typeof_y0 y0 = vload16(0, begun_y0 + row * n + e);
                {
#line 1 "snippet:near_finish"
y0 /= group_y1;
#line 778 "kernel"
                }
                vstore16(y0, 0, y0_memory + y0_at + e);
            }
            for (; e + 4 <= n; e += 4) {

                typedef float4 typeof_group_y0;
                const typeof_group_y0 group_y0 = value_0;
                typedef float4 typeof_group_y1;
                const typeof_group_y1 group_y1 = value_1;
                typedef float4 typeof_y0;
                typeof_y0 y0 = vload4(0, begun_y0 + row * n + e);
                {
#line 1 "snippet:near_finish"
y0 /= group_y1;
#line 793 "kernel"
                }
                vstore4(y0, 0, y0_memory + y0_at + e);
            }
            for (; e + 1 <= n; e += 1) {

                typedef float typeof_group_y0;
                const typeof_group_y0 group_y0 = value_0;
                typedef float typeof_group_y1;
                const typeof_group_y1 group_y1 = value_1;
                typedef float typeof_y0;
                typeof_y0 y0 = begun_y0[row * n + e];
                {
#line 1 "snippet:near_finish"
y0 /= group_y1;
#line 808 "kernel"
                }
                y0_memory[y0_at + e] = y0;
            }
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
    __global float *y0_memory = (__global float *)walk_memory(walk_words + 0);
    __global float *group_y1_memory = (__global float *)walk_memory(walk_words + 3);
    __global const float *x0_memory = (__global const float *)walk_memory(walk_words + 6);
    const float w0 = as_float(walk_words[9]);
    const int groups = walk_words[10];
    const int inner_groups = walk_words[11];
    const int rows = walk_words[12];
    const int n = walk_words[13];
    const int y0_start = walk_words[14];
    const int y0_outer = walk_words[15];
    const int y0_group = walk_words[16];
    const int y0_row = walk_words[17];
    const int group_y1_start = walk_words[18];
    const int group_y1_outer = walk_words[19];
    const int group_y1_group = walk_words[20];
    const int x0_start = walk_words[21];
    const int x0_outer = walk_words[22];
    const int x0_group = walk_words[23];
    const int x0_row = walk_words[24];
    const int groups_an_item = walk_words[25];
    const int rows_a_chain = walk_words[26];
    while (walk_at < walk_last) {
        const uint walk_from = walk_at % walk_x, walk_to = min(walk_x, walk_from + walk_last - walk_at);
        const uint walk_1 = walk_at / walk_x % walk_y, walk_2 = walk_at / walk_x / walk_y;
        for (uint walk_0 = walk_from; walk_0 < walk_to; ++walk_0)
            walk_unit_1(y0_memory, group_y1_memory, x0_memory, w0, groups, inner_groups, rows, n, y0_start, y0_outer, y0_group, y0_row, group_y1_start, group_y1_outer, group_y1_group, x0_start, x0_outer, x0_group, x0_row, groups_an_item, rows_a_chain, walk_row, walk_shared, walk_0, walk_1, walk_2, walk_item);
        walk_at += walk_to - walk_from;
    }
}
#pragma pop_macro("index_t")
#pragma pop_macro("cp_max")
#pragma pop_macro("take_first")
#pragma pop_macro("take_partial")
#pragma pop_macro("max")
#pragma pop_macro("lowest_reduce_y0")
#pragma pop_macro("highest_reduce_y0")
#pragma pop_macro("lowest_reduce_y1")
#pragma pop_macro("highest_reduce_y1")
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
