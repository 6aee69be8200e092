// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, an element a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef int index_t;
static inline __attribute__((overloadable)) char cp_convert_char(float a)
{
    const int whole = (int)(fabs(a) < 0x1p31f ? a : (float)-0x1p31f);
    return (char)(whole);
}
static inline __attribute__((overloadable)) char cp_convert_char(double a)
{
    const int whole = (int)(fabs(a) < 0x1p31f ? a : (double)-0x1p31f);
    return (char)(whole);
}
static inline __attribute__((overloadable)) char cp_convert_char_sat(float a)
{
    return convert_char_sat(a == a ? a : (float)0);
}
static inline __attribute__((overloadable)) char cp_convert_char_sat(double a)
{
    return convert_char_sat(a == a ? a : (double)0);
}
static inline __attribute__((overloadable)) int cp_convert_int(float a)
{
    const int whole = (int)(fabs(a) < 0x1p31f ? a : (float)-0x1p31f);
    return whole;
}
static inline __attribute__((overloadable)) int cp_convert_int(double a)
{
    const int whole = (int)(fabs(a) < 0x1p31f ? a : (double)-0x1p31f);
    return whole;
}
static inline __attribute__((overloadable)) uint4 cp_convert_uint4_rte(float4 a)
{
    a = rint(a);
    a = trunc(fabs(a) < 0x1p63f ? a : (float4)0);
    a -= rint(a * 0x1p-32f) * 0x1p32f;
    const int4 whole = convert_int4(fabs(a) < 0x1p31f ? a : (float4)-0x1p31f);
    return convert_uint4(whole);
}
static inline __attribute__((overloadable)) uint4 cp_convert_uint4_rte(double4 a)
{
    a = rint(a);
    a = trunc(fabs(a) < 0x1p63f ? a : (double4)0);
    a -= rint(a * 0x1p-32f) * 0x1p32f;
    const int4 whole = convert_int4(fabs(a) < 0x1p31f ? a : (double4)-0x1p31f);
    return convert_uint4(whole);
}
static inline __attribute__((overloadable)) ulong cp_convert_ulong(float a)
{
    const ulong above = (ulong)(a >= 0x1p63f) << 63;
    a -= a >= 0x1p63f ? (float)0x1p63f : (float)0;
    const long whole = (long)(fabs(a) < 0x1p63f ? a : (float)-0x1p63f);
    return as_ulong(whole) ^ above;
}
static inline __attribute__((overloadable)) ulong cp_convert_ulong(double a)
{
    const ulong above = (ulong)(a >= 0x1p63f) << 63;
    a -= a >= 0x1p63f ? (double)0x1p63f : (double)0;
    const long whole = (long)(fabs(a) < 0x1p63f ? a : (double)-0x1p63f);
    return as_ulong(whole) ^ above;
}

__kernel void pointwise(
    __global char *y0_memory,
    __global const float *x0_memory,
    __global const double *x1_memory,
    const double w0,
    const int n,
    const int rows,
    const int y0_start,
    const int x0_start,
    const int x1_start)
{
    index_t i = (index_t)get_global_id(0);
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;
    const index_t y0_row = y0_start;
    const index_t x0_row = x0_start;
    const index_t x1_row = x1_start;
    typedef double typeof_w0;

    const double x0 = (double)x0_memory[x0_row + i];
    typedef double typeof_x0;
    const double x1 = (double)x1_memory[x1_row + i];
    typedef double typeof_x1;
    typedef char typeof_y0;
    typeof_y0 y0 = 0;
    {
#line 1 "snippet:expr"
int4 v = (int4)(cp_convert_int(x0), cp_convert_int(x1), 1, cp_convert_int(w0));
uint t = cp_convert_uint4_rte((double4)x1).x;
y0 = (ulong)cp_convert_ulong(x0) + cp_convert_char_sat(x1);
y0 = cp_convert_char((y0) + (v.x + t * x1));
#line 101 "kernel"
    }
    y0_memory[y0_row + i] = y0;

}
