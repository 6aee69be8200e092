// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, runs of `run` elements a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;
static inline __attribute__((overloadable)) float2 cp_complex_both(float a)
{
    return (float2)(a, a);
}
static inline __attribute__((overloadable)) float16 cp_complex_both(float8 a)
{
    return (float16)(a, a);
}
static inline __attribute__((overloadable)) float2 cp_complex_multiply(float2 a, float2 b)
{
    return (float2)(a.lo, a.lo) * b + (float2)(a.hi, a.hi) * (float2)(-b.hi, b.lo);
}
static inline __attribute__((overloadable)) float16 cp_complex_multiply(float16 a, float16 b)
{
    return (float16)(a.lo, a.lo) * b + (float16)(a.hi, a.hi) * (float16)(-b.hi, b.lo);
}
static inline __attribute__((overloadable)) float2 cp_complex_conj(float2 a)
{
    return (float2)(a.lo, -a.hi);
}
static inline __attribute__((overloadable)) float16 cp_complex_conj(float16 a)
{
    return (float16)(a.lo, -a.hi);
}
static inline float16 cp_apart(float16 a)
{
    return (float16)(a.even, a.odd);
}
static inline float16 cp_side_by_side(float16 a)
{
    float16 b;
    b.even = a.lo;
    b.odd = a.hi;
    return b;
}

__kernel void pointwise(
    __global float2 *y0_memory,
    __global const float2 *x0_memory,
    __global const float2 *x1_memory,
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
    for (; i + 8 <= stop; i += 8) {
        typedef float16 cp_pair;
        typedef float8 cp_part;
        const float16 x0 = cp_apart(vload16(0, (__global const float *)(x0_memory + x0_row + i)));
        typedef float16 typeof_x0;
        const float16 x1 = cp_apart(vload16(0, (__global const float *)(x1_memory + x1_row + i)));
        typedef float16 typeof_x1;
        typedef float16 typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = cp_complex_multiply(x0, cp_complex_conj(x1)) / cp_complex_both((cp_part)w0);
#line 77 "kernel"
        }
        vstore16(cp_side_by_side(y0), 0, (__global float *)(y0_memory + y0_row + i));

    }
    // The last elements of a row do not fill a vector.
    for (; i < stop; ++i) {
        typedef float2 cp_pair;
        typedef float cp_part;
        const float2 x0 = (float2)x0_memory[x0_row + i];
        typedef float2 typeof_x0;
        const float2 x1 = (float2)x1_memory[x1_row + i];
        typedef float2 typeof_x1;
        typedef float2 typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = cp_complex_multiply(x0, cp_complex_conj(x1)) / cp_complex_both((cp_part)w0);
#line 95 "kernel"
        }
        y0_memory[y0_row + i] = (float2)y0;

    }
}
