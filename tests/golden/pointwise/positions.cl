// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, an element a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;
#define coord(d) ((d) == 0 ? (long)coord_0 : 0)
#define size(d) ((d) == -1 ? (long)size_2 : 0)

__kernel void pointwise(
    __global long *y0_memory,
    __global const char *x0_memory,
    const uchar arg_w0,
    const int n,
    const int rows,
    const int n0,
    const int y0_start,
    const int y0_s0,
    const int x0_start,
    const int x0_s0,
    const int index_start,
    const int index_s0,
    const int coord_0_start,
    const int coord_0_s0,
    const int size_2)
{
    index_t i = (index_t)get_global_id(0);
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;

    // Which iteration of every outer loop this row is, innermost first.
    index_t rest = row;
    const index_t i0 = rest;
    const index_t y0_row = y0_start + i0 * y0_s0;
    const index_t x0_row = x0_start + i0 * x0_s0;
    const index_t index_row = index_start + i0 * index_s0;
    const index_t coord_0_row = coord_0_start + i0 * coord_0_s0;
    const bool w0 = arg_w0 != 0;
    typedef bool typeof_w0;

    const long index = index_row + i;
    const long coord_0 = coord_0_row;
    const long x0 = (long)x0_memory[x0_row + i];
    typedef long typeof_x0;
    typedef long typeof_y0;
    typeof_y0 y0 = 0;
    {
#line 1 "snippet:expr"
y0 = x0 + index + coord(0) * size(-1) + w0;
#line 51 "kernel"
    }
    y0_memory[y0_row + i] = y0;

}
