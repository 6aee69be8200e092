// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, runs of `run` elements a work-item
//     dimension 1 of the launch: all outer loops as one, some rows each
typedef int index_t;

// A streaming store: what is written here is too large to be found in a cache later. This needs a
// compiler that knows how, and an aligned address.
static inline __attribute__((overloadable)) void stream(__global float *to, float16 value)
{
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
    if (((size_t)to & (sizeof(value) - 1)) == 0) {
        __builtin_nontemporal_store(value, (__global float16 *)to);
        return;
    }
#endif
#endif
    vstore16(value, 0, to);
}

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define prefetch_line(address) __builtin_prefetch(address)
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#endif

__kernel void pointwise(
    __global float *y0_memory,
    __global const float *x0_memory,
    __global const half *x1_memory,
    const int n,
    const int rows,
    const int n0,
    const int run,
    const int pieces,
    const int together,
    const int y0_start,
    const int y0_s0,
    const int x0_start,
    const int x0_s0,
    const int x1_start,
    const int x1_s0)
{
    index_t i = (index_t)get_global_id(0) * run;
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;

    // Which iteration of every outer loop this row is, innermost first.
    index_t rest = row;
    const index_t begin = rest % pieces * together;
    rest /= pieces;

    // Short rows lie a step apart: only the first one's number is divided.
    const index_t from = i, end = min(begin + together, n0);
    for (index_t i0 = begin; i0 < end; ++i0) {
        i = from;
        const index_t y0_row = y0_start + i0 * y0_s0;
        const index_t x0_row = x0_start + i0 * x0_s0;
        const index_t x1_row = x1_start + i0 * x1_s0;

        const index_t stop = min(i + run, n);
        // The first elements of a row fill no line of memory.
        for (; i < stop && ((size_t)(y0_memory + y0_row + i) & 63); ++i) {
            const float x0 = (float)x0_memory[x0_row - i];
            typedef float typeof_x0;
            const float x1 = (float)vload_half(0, x1_memory + x1_row - i);
            typedef float typeof_x1;
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0 + x1;
#line 79 "kernel"
            }
            y0_memory[y0_row + i] = y0;

        }
        for (; i + 16 <= stop; i += 16) {
            // Of what is read backwards, row after row, a later row forwards: caches follow that.
            prefetch_line(x0_memory + x0_row + max((index_t)1, 1025 - n) + i);
            // Of what is read backwards, row after row, a later row forwards: caches follow that.
            prefetch_line(x1_memory + x1_row + max((index_t)1, 1025 - n) + i);
            const float16 x0 = (vload16(0, x0_memory + x0_row - i - 15)).sfedcba9876543210;
            typedef float16 typeof_x0;
            const float16 x1 = (vload_half16(0, x1_memory + x1_row - i - 15)).sfedcba9876543210;
            typedef float16 typeof_x1;
            typedef float16 typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0 + x1;
#line 98 "kernel"
            }
            stream(&y0_memory[y0_row + i], y0);

        }
        // The last elements of a row do not fill a vector.
        for (; i < stop; ++i) {
            const float x0 = (float)x0_memory[x0_row - i];
            typedef float typeof_x0;
            const float x1 = (float)vload_half(0, x1_memory + x1_row - i);
            typedef float typeof_x1;
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0 + x1;
#line 114 "kernel"
            }
            y0_memory[y0_row + i] = y0;

        }
    }
}
