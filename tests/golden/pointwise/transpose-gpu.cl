// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, an element a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;

__kernel void pointwise(
    __global uint *y0_memory,
    __global const uint *x0_memory,
    const int n,
    const int rows,
    const int n0,
    const int n1,
    const int y0_start,
    const int y0_s0,
    const int y0_s1,
    const int x0_start,
    const int x0_step,
    const int x0_s0,
    const int x0_s1)
{
    index_t i = (index_t)get_global_id(0);
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;

    // Which iteration of every outer loop this row is, innermost first.
    index_t rest = row;
    const index_t i1 = rest % n1;
    rest /= n1;
    const index_t i0 = rest;
    const index_t y0_row = y0_start + i0 * y0_s0 + i1 * y0_s1;
    const index_t x0_row = x0_start + i0 * x0_s0 + i1 * x0_s1;

    const uint x0 = (uint)x0_memory[x0_row + i * x0_step];
    typedef uint typeof_x0;
    typedef uint typeof_y0;
    typeof_y0 y0 = 0;
    {
#line 1 "snippet:expr"
y0 = x0;
#line 43 "kernel"
    }
    y0_memory[y0_row + i] = y0;

}
