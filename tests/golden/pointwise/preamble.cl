// Every element cp_of the results by itself.
//
//     dimension 0 cp_of the launch: the innermost loop, an element cp_a work-item
//     dimension 1 cp_of the launch: all outer loops as one, cp_a row each
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef int index_t;
static inline __attribute__((overloadable)) int cp_clamp(int cp_a, int b, int c)
{
    return clamp(cp_a, b, c);
}
static inline __attribute__((overloadable)) uint cp_clamp(uint cp_a, uint b, uint c)
{
    return clamp(cp_a, b, c);
}
static inline __attribute__((overloadable)) long cp_clamp(long cp_a, long b, long c)
{
    return clamp(cp_a, b, c);
}
static inline __attribute__((overloadable)) ulong cp_clamp(ulong cp_a, ulong b, ulong c)
{
    return clamp(cp_a, b, c);
}
static inline __attribute__((overloadable)) float cp_clamp(float cp_a, float b, float c)
{
    return clamp(cp_a, b, c);
}
static inline __attribute__((overloadable)) double cp_clamp(double cp_a, double b, double c)
{
    return clamp(cp_a, b, c);
}
#undef clamp
#define clamp(cp_a, b, c) ({ \
    __auto_type cp_in_a = (cp_a); \
    __auto_type cp_in_b = (b); \
    __auto_type cp_in_c = (c); \
    typedef __typeof__(cp_in_a + cp_in_b + cp_in_c) cp_type; \
    cp_clamp((cp_type)cp_in_a, (cp_type)cp_in_b, (cp_type)cp_in_c); })
#line 1 "snippet:preamble"
// of ones own
double twice(double a)
{
    return 2 * a;
}
#line 47 "kernel"

__kernel void both(
    __global double *y0_memory,
    __global double *y1_memory,
    __global const double *x0_memory,
    const int n,
    const int rows,
    const int y0_start,
    const int y1_start,
    const int x0_start)
{
    index_t i = (index_t)get_global_id(0);
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;
    const index_t y0_row = y0_start;
    const index_t y1_row = y1_start;
    const index_t x0_row = x0_start;

    const double x0 = (double)x0_memory[x0_row + i];
    typedef double typeof_x0;
    typedef double typeof_y0;
    typeof_y0 y0 = 0;
    typedef double typeof_y1;
    typeof_y1 y1 = 0;
    {
#line 1 "snippet:expr"
y0 = twice(x0); y1 = clamp(x0, 0, 1.5);
#line 76 "kernel"
    }
    y0_memory[y0_row + i] = y0;
    y1_memory[y1_row + i] = y1;

}
