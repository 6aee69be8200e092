// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, an element a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;
#define coord(d) ((d) == 1 ? (long)coord_1 : 0)
#define at_x0(c0, c1, c2) ((float)vload_half(0, x0_memory + x0_from + (index_t)(c0) * x0_d0 + (index_t)(c1) + (index_t)(c2) * x0_d2))
#define inside_x0(c0, c1, c2) ((ulong)(long)(c0) < (ulong)x0_n0 && (ulong)(long)(c1) < (ulong)x0_n1 && (ulong)(long)(c2) < (ulong)x0_n2)
#define size_x0(d) ((d) == -1 ? (long)x0_n2 : 0)
#define at_x1(c0) ((long)x1_memory[x1_from + (index_t)(c0)])

__kernel void pointwise(
    __global float *y0_memory,
    __global const long *x1_memory,
    __global const half *x0_memory,
    const int n,
    const int rows,
    const int n0,
    const int y0_start,
    const int y0_s0,
    const int x1_start,
    const int x1_s0,
    const int coord_1_start,
    const int coord_1_s0,
    const int x0_from,
    const int x0_d0,
    const int x0_d2,
    const int x0_n0,
    const int x0_n1,
    const int x0_n2,
    const int x1_from)
{
    index_t i = (index_t)get_global_id(0);
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;

    // Which iteration of every outer loop this row is, innermost first.
    index_t rest = row;
    const index_t i0 = rest;
    const index_t y0_row = y0_start + i0 * y0_s0;
    const index_t x1_row = x1_start + i0 * x1_s0;
    const index_t coord_1_row = coord_1_start + i0 * coord_1_s0;
    typedef float typeof_x0;

    const long coord_1 = coord_1_row + i;
    const long x1 = (long)x1_memory[x1_row + i];
    typedef long typeof_x1;
    typedef float typeof_y0;
    typeof_y0 y0 = 0;
    {
#line 1 "snippet:expr"
int r = x1;
y0 = inside_x0(r, coord(1), 0) ? at_x0(r, coord(1), 0) : size_x0(-1);
y0 += at_x1(0) * (typeof_x0)0;
#line 57 "kernel"
    }
    y0_memory[y0_row + i] = y0;

}
