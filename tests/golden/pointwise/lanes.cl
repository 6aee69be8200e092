// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, runs of `run` elements a work-item
//     dimension 1 of the launch: all outer loops as one, some rows each
typedef int index_t;
#define coord(d) ((d) == 0 ? (long)coord_0 : (d) == 1 ? (long)coord_1 : (d) == 2 ? (long)coord_2 : 0)
#define at_x0(c0, c1, c2) ((float)vload_half(0, x0_memory + x0_from + (index_t)(c0) * x0_d0 + (index_t)(c1) + (index_t)(c2) * x0_d2))

__kernel void pointwise(
    __global float *y0_memory,
    __global const float *x1_memory,
    __global const half *x0_memory,
    const int n,
    const int rows,
    const int n0,
    const int n1,
    const int run,
    const int pieces,
    const int together,
    const int y0_start,
    const int y0_s0,
    const int y0_s1,
    const int x1_start,
    const int x1_s0,
    const int x1_s1,
    const int coord_0_start,
    const int coord_0_s0,
    const int coord_0_s1,
    const int coord_1_start,
    const int coord_1_s0,
    const int coord_1_s1,
    const int coord_2_start,
    const int coord_2_s0,
    const int coord_2_s1,
    const int x0_from,
    const int x0_d0,
    const int x0_d2)
{
    index_t cp_i = (index_t)get_global_id(0) * run;
    const index_t row = (index_t)get_global_id(1);
    if (cp_i >= n || row >= rows)
        return;

    // Which iteration of every outer loop this row is, innermost first.
    index_t rest = row;
    const index_t begin = rest % pieces * together;
    rest /= pieces;
    const index_t i0 = rest;

    // Short rows lie a step apart: only the first one's number is divided.
    const index_t from = cp_i, end = min(begin + together, n1);
    for (index_t i1 = begin; i1 < end; ++i1) {
        cp_i = from;
        const index_t y0_row = y0_start + i0 * y0_s0 + i1 * y0_s1;
        const index_t x1_row = x1_start + i0 * x1_s0 + i1 * x1_s1;
        const index_t coord_0_row = coord_0_start + i0 * coord_0_s0 + i1 * coord_0_s1;
        const index_t coord_1_row = coord_1_start + i0 * coord_1_s0 + i1 * coord_1_s1;
        const index_t coord_2_row = coord_2_start + i0 * coord_2_s0 + i1 * coord_2_s1;
        typedef float typeof_x0;

        // Once a row: results may lie anywhere, so compilers would load these again for every vector.
        const float x1 = (float)x1_memory[x1_row];
        typedef float typeof_x1;

        const index_t stop = min(cp_i + run, n);
        #undef at_x0
        #define at_x0(c0, c1, c2) (vload_half8(0, x0_memory + x0_from + (index_t)(c0) * x0_d0 + (index_t)(c1) + (index_t)(c2) * x0_d2))
        for (; cp_i + 8 <= stop; cp_i += 8) {
            const long coord_0 = coord_0_row;
            const long coord_1 = coord_1_row + cp_i;
            const long coord_2 = coord_2_row;
            typedef float8 typeof_x0;
            typedef float8 typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
typeof_y0 sum = 0;
for (int i = 0; i < 2; ++i)
    sum += at_x0(coord(0), coord(1), 2 * coord(2) + i);
y0 = sum * x1;
#line 82 "kernel"
            }
            vstore8(y0, 0, y0_memory + y0_row + cp_i);

        }
        // The last elements of a row do not fill a vector.
        #undef at_x0
        #define at_x0(c0, c1, c2) ((float)vload_half(0, x0_memory + x0_from + (index_t)(c0) * x0_d0 + (index_t)(c1) + (index_t)(c2) * x0_d2))
        for (; cp_i < stop; ++cp_i) {
            const long coord_0 = coord_0_row;
            const long coord_1 = coord_1_row + cp_i;
            const long coord_2 = coord_2_row;
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
typeof_y0 sum = 0;
for (int i = 0; i < 2; ++i)
    sum += at_x0(coord(0), coord(1), 2 * coord(2) + i);
y0 = sum * x1;
#line 102 "kernel"
            }
            y0_memory[y0_row + cp_i] = y0;

        }
    }
}
