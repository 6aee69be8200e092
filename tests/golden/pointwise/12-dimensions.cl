// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, an element a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;
#define n ((index_t)2)
#define rows ((index_t)2048)
#define n0 ((index_t)2)
#define n1 ((index_t)2)
#define n2 ((index_t)2)
#define n3 ((index_t)2)
#define n4 ((index_t)2)
#define n5 ((index_t)2)
#define n6 ((index_t)2)
#define n7 ((index_t)2)
#define n8 ((index_t)2)
#define n9 ((index_t)2)
#define n10 ((index_t)2)
#define y0_start ((index_t)0)
#define y0_s0 ((index_t)2048)
#define y0_s1 ((index_t)1024)
#define y0_s2 ((index_t)512)
#define y0_s3 ((index_t)256)
#define y0_s4 ((index_t)128)
#define y0_s5 ((index_t)64)
#define y0_s6 ((index_t)32)
#define y0_s7 ((index_t)16)
#define y0_s8 ((index_t)8)
#define y0_s9 ((index_t)4)
#define y0_s10 ((index_t)2)
#define x0_start ((index_t)0)
#define x0_s0 ((index_t)2048)
#define x0_s1 ((index_t)1024)
#define x0_s2 ((index_t)512)
#define x0_s3 ((index_t)256)
#define x0_s4 ((index_t)128)
#define x0_s5 ((index_t)64)
#define x0_s6 ((index_t)32)
#define x0_s7 ((index_t)16)
#define x0_s8 ((index_t)8)
#define x0_s9 ((index_t)4)
#define x0_s10 ((index_t)2)
#define x1_start ((index_t)0)
#define x1_step ((index_t)2048)
#define x1_s0 ((index_t)1)
#define x1_s1 ((index_t)2)
#define x1_s2 ((index_t)4)
#define x1_s3 ((index_t)8)
#define x1_s4 ((index_t)16)
#define x1_s5 ((index_t)32)
#define x1_s6 ((index_t)64)
#define x1_s7 ((index_t)128)
#define x1_s8 ((index_t)256)
#define x1_s9 ((index_t)512)
#define x1_s10 ((index_t)1024)
static inline __attribute__((overloadable)) int cp_max(int a, int b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) uint cp_max(uint a, uint b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) long cp_max(long a, long b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) ulong cp_max(ulong a, ulong b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float cp_max(float a, float b)
{
    return max(a, b);
}
#undef max
#define max(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_max((cp_type)cp_in_a, (cp_type)cp_in_b); })

__kernel void pointwise(
    __global float *y0_memory,
    __global const float *x0_memory,
    __global const float *x1_memory)
{
    index_t i = (index_t)get_global_id(0);
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;

    // Which iteration of every outer loop this row is, innermost first.
    index_t rest = row;
    const index_t i10 = rest % n10;
    rest /= n10;
    const index_t i9 = rest % n9;
    rest /= n9;
    const index_t i8 = rest % n8;
    rest /= n8;
    const index_t i7 = rest % n7;
    rest /= n7;
    const index_t i6 = rest % n6;
    rest /= n6;
    const index_t i5 = rest % n5;
    rest /= n5;
    const index_t i4 = rest % n4;
    rest /= n4;
    const index_t i3 = rest % n3;
    rest /= n3;
    const index_t i2 = rest % n2;
    rest /= n2;
    const index_t i1 = rest % n1;
    rest /= n1;
    const index_t i0 = rest;
    const index_t y0_row = y0_start + i0 * y0_s0 + i1 * y0_s1 + i2 * y0_s2 + i3 * y0_s3 + i4 * y0_s4 + i5 * y0_s5 + i6 * y0_s6 + i7 * y0_s7 + i8 * y0_s8 + i9 * y0_s9 + i10 * y0_s10;
    const index_t x0_row = x0_start + i0 * x0_s0 + i1 * x0_s1 + i2 * x0_s2 + i3 * x0_s3 + i4 * x0_s4 + i5 * x0_s5 + i6 * x0_s6 + i7 * x0_s7 + i8 * x0_s8 + i9 * x0_s9 + i10 * x0_s10;
    const index_t x1_row = x1_start + i0 * x1_s0 + i1 * x1_s1 + i2 * x1_s2 + i3 * x1_s3 + i4 * x1_s4 + i5 * x1_s5 + i6 * x1_s6 + i7 * x1_s7 + i8 * x1_s8 + i9 * x1_s9 + i10 * x1_s10;

    const float x0 = (float)x0_memory[x0_row + i];
    typedef float typeof_x0;
    const float x1 = (float)x1_memory[x1_row + i * x1_step];
    typedef float typeof_x1;
    typedef float typeof_y0;
    typeof_y0 y0 = 0;
    {
#line 1 "snippet:expr"
y0 = max(x0, x1);
#line 130 "kernel"
    }
    y0_memory[y0_row + i] = y0;

}
