// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, runs of `run` elements a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;
static inline __attribute__((overloadable)) int cp_whole_quotient(int a, int b)
{
    const int divisor = ((b == 0) | (b == -1)) ? (int)1 : b;
    return b == 0 ? (int)0 : b == -1 ? as_int(0 - as_uint(a)) : a / divisor;
}
static inline __attribute__((overloadable)) int cp_whole_remainder(int a, int b)
{
    return a % (((b == 0) | (b == -1)) ? (int)1 : b);
}
static inline __attribute__((overloadable)) int16 cp_whole_quotient(int16 a, int16 b)
{
    const int16 divisor = ((b == 0) | (b == -1)) ? (int16)1 : b;
    return b == 0 ? (int16)0 : b == -1 ? as_int16(0 - as_uint16(a)) : a / divisor;
}
static inline __attribute__((overloadable)) int16 cp_whole_remainder(int16 a, int16 b)
{
    return a % (((b == 0) | (b == -1)) ? (int16)1 : b);
}
#define cp_divide(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_whole_quotient((cp_type)cp_in_a, (cp_type)cp_in_b); })
#define cp_modulo(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_whole_remainder((cp_type)cp_in_a, (cp_type)cp_in_b); })

__kernel void pointwise(
    __global int *y0_memory,
    __global const int *x0_memory,
    __global const int *x1_memory,
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

    const index_t stop = min(i + run, n);
    for (; i + 16 <= stop; i += 16) {
        const int16 x0 = vload16(0, x0_memory + x0_row + i);
        typedef int16 typeof_x0;
        const int16 x1 = vload16(0, x1_memory + x1_row + i);
        typedef int16 typeof_x1;
        typedef int16 typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = cp_divide((x0), ((x1 - 1))) / 2;
y0 = cp_divide((y0), (x1));
#line 67 "kernel"
        }
        vstore16(y0, 0, y0_memory + y0_row + i);

    }
    // The last elements of a row do not fill a vector.
    for (; i < stop; ++i) {
        const int x0 = (int)x0_memory[x0_row + i];
        typedef int typeof_x0;
        const int x1 = (int)x1_memory[x1_row + i];
        typedef int typeof_x1;
        typedef int typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = cp_divide((x0), ((x1 - 1))) / 2;
y0 = cp_divide((y0), (x1));
#line 84 "kernel"
        }
        y0_memory[y0_row + i] = y0;

    }
}
