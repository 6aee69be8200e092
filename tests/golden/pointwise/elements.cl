// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, runs of `run` elements a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;

__kernel void pointwise(
    __global float *y0_memory,
    __global const float *x0_memory,
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
#line 40 "kernel"
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
#line 56 "kernel"
        }
        y0_memory[y0_row + i] = y0;

    }
}
