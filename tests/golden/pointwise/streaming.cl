// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, runs of `run` elements a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
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
    const int n,
    const int rows,
    const int run,
    const int y0_start,
    const int x0_start)
{
    index_t i = (index_t)get_global_id(0) * run;
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;
    const index_t y0_row = y0_start;
    const index_t x0_row = x0_start;

    const index_t stop = min(i + run, n);
    for (; i + 16 <= stop; i += 16) {
        prefetch_line(x0_memory + x0_row + i + 1024);
        const float16 x0 = vload16(0, x0_memory + x0_row + i);
        typedef float16 typeof_x0;
        typedef float16 typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 + 1;
#line 58 "kernel"
        }
        stream(&y0_memory[y0_row + i], y0);

    }
    // The last elements of a row do not fill a vector.
    for (; i < stop; ++i) {
        const float x0 = (float)x0_memory[x0_row + i];
        typedef float typeof_x0;
        typedef float typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 + 1;
#line 72 "kernel"
        }
        y0_memory[y0_row + i] = y0;

    }
}
