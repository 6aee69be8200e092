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

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void pointwise(
    __global float *y0_memory,
    __global const uchar *x0_memory,
    __global const float *x1_memory,
    const float w0,
    const int n,
    const int rows,
    const int run,
    const int y0_start,
    const int x0_start,
    const int x1_start)
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
    // The first elements of a row fill no line of memory.
    for (; i < stop && ((size_t)(y0_memory + y0_row + i) & 63); ++i) {
        const bool x0 = x0_memory[x0_row + i] != 0;
        typedef bool typeof_x0;
        const float x1 = (float)x1_memory[x1_row + i];
        typedef float typeof_x1;
        typedef float typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 ? x1 : w0;
#line 57 "kernel"
        }
        y0_memory[y0_row + i] = y0;

    }
    for (; i + 64 <= stop; i += 64) {
        float y0_chunk[64] __attribute__((aligned(64)));
        for (index_t c = 0; c < 64; ++c) {
            const index_t e = i + c;
            const bool x0 = x0_memory[x0_row + e] != 0;
            typedef bool typeof_x0;
            const float x1 = (float)x1_memory[x1_row + e];
            typedef float typeof_x1;
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0 ? x1 : w0;
#line 75 "kernel"
            }
            y0_chunk[c] = y0;

        }
        #pragma unroll
        for (index_t c = 0; c < 64; c += 16) {
            stream(&y0_memory[y0_row + i + c], vload16(0, y0_chunk + c));
        }
    }
    // The last elements of a row do not fill a vector.
    for (; i < stop; ++i) {
        const bool x0 = x0_memory[x0_row + i] != 0;
        typedef bool typeof_x0;
        const float x1 = (float)x1_memory[x1_row + i];
        typedef float typeof_x1;
        typedef float typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 ? x1 : w0;
#line 96 "kernel"
        }
        y0_memory[y0_row + i] = y0;

    }
}
