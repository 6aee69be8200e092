// Every element of several lists of arrays by itself. Results take the place of inputs.
//
//     work-groups  | 0 1 2 3 | 4 | 5 6 7 | ...
//     list         |    0    | 1 |   2   | ...      list k ends before work-group end<k>
typedef int index_t;

__kernel void momentum(
    __global float *x0_memory0,
    __global const float *x1_memory0,
    __global float *x2_memory0,
    const int n0,
    const int end0,
    const int x0_start0,
    const int x1_start0,
    const int x2_start0,
    __global float *x0_memory1,
    __global const float *x1_memory1,
    __global float *x2_memory1,
    const int n1,
    const int end1,
    const int x0_start1,
    const int x1_start1,
    const int x2_start1,
    __global float *x0_memory2,
    __global const float *x1_memory2,
    __global float *x2_memory2,
    const int n2,
    const int end2,
    const int x0_start2,
    const int x1_start2,
    const int x2_start2,
    const float w0,
    const int run)
{
    const index_t group = (index_t)get_group_id(0);
    index_t n = n0, first = 0;
    __global float *x0_memory = x0_memory0;
    index_t x0_start = x0_start0;
    __global const float *x1_memory = x1_memory0;
    index_t x1_start = x1_start0;
    __global float *x2_memory = x2_memory0;
    index_t x2_start = x2_start0;
    if (group >= end0) {
        n = n1, first = end0;
        x0_memory = x0_memory1, x0_start = x0_start1;
        x1_memory = x1_memory1, x1_start = x1_start1;
        x2_memory = x2_memory1, x2_start = x2_start1;
    }
    if (group >= end1) {
        n = n2, first = end1;
        x0_memory = x0_memory2, x0_start = x0_start2;
        x1_memory = x1_memory2, x1_start = x1_start2;
        x2_memory = x2_memory2, x2_start = x2_start2;
    }
    __global float *const y0_memory = x0_memory;
    const index_t y0_start = x0_start;
    __global float *const y1_memory = x2_memory;
    const index_t y1_start = x2_start;
    const index_t y0_row = y0_start;
    const index_t y1_row = y1_start;
    const index_t x0_row = x0_start;
    const index_t x1_row = x1_start;
    const index_t x2_row = x2_start;
    typedef float typeof_w0;

    index_t i = ((group - first) * (index_t)get_local_size(0) + (index_t)get_local_id(0)) * run;
    const index_t stop = min(i + run, n);
    for (; i + 16 <= stop; i += 16) {
        const float16 x0 = vload16(0, x0_memory + x0_row + i);
        typedef float16 typeof_x0;
        const float16 x1 = vload16(0, x1_memory + x1_row + i);
        typedef float16 typeof_x1;
        const float16 x2 = vload16(0, x2_memory + x2_row + i);
        typedef float16 typeof_x2;
        typedef float16 typeof_y0;
        typeof_y0 y0 = 0;
        typedef float16 typeof_y1;
        typeof_y1 y1 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 - x1 * w0; y1 = x2 + x1;
#line 83 "kernel"
        }
        vstore16(y0, 0, y0_memory + y0_row + i);
        vstore16(y1, 0, y1_memory + y1_row + i);

    }
    for (; i < stop; ++i) {
        const float x0 = (float)x0_memory[x0_row + i];
        typedef float typeof_x0;
        const float x1 = (float)x1_memory[x1_row + i];
        typedef float typeof_x1;
        const float x2 = (float)x2_memory[x2_row + i];
        typedef float typeof_x2;
        typedef float typeof_y0;
        typeof_y0 y0 = 0;
        typedef float typeof_y1;
        typeof_y1 y1 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 - x1 * w0; y1 = x2 + x1;
#line 103 "kernel"
        }
        y0_memory[y0_row + i] = y0;
        y1_memory[y1_row + i] = y1;

    }
}
