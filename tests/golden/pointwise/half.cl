// Every element of the results by itself.
//
//     dimension 0 of the launch: the innermost loop, runs of `run` elements a work-item
//     dimension 1 of the launch: all outer loops as one, a row each
typedef int index_t;
static inline float from_bfloat16_1(ushort bits)
{
    return as_float((uint)(bits) << 16);
}
static inline ushort to_bfloat16_1(float value)
{
    const uint bits = as_uint(value);
    const uint rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint quiet = (bits >> 16) | 0x40;
    return (ushort)(isnan(value) ? quiet : rounded);
}
static inline float16 from_bfloat16_16(ushort16 bits)
{
    return as_float16(convert_uint16(bits) << 16);
}
static inline ushort16 to_bfloat16_16(float16 value)
{
    const uint16 bits = as_uint16(value);
    const uint16 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint16 quiet = (bits >> 16) | 0x40;
    return convert_ushort16(isnan(value) ? quiet : rounded);
}

__kernel void pointwise(
    __global ushort *y0_memory,
    __global const half *x0_memory,
    __global const ushort *x1_memory,
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
        const float16 x0 = vload_half16(0, x0_memory + x0_row + i);
        typedef float16 typeof_x0;
        const float16 x1 = from_bfloat16_16(vload16(0, x1_memory + x1_row + i));
        typedef float16 typeof_x1;
        typedef float16 typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 + x1 * 0.5;
#line 60 "kernel"
        }
        vstore16(to_bfloat16_16(y0), 0, y0_memory + y0_row + i);

    }
    // The last elements of a row do not fill a vector.
    for (; i < stop; ++i) {
        const float x0 = (float)vload_half(0, x0_memory + x0_row + i);
        typedef float typeof_x0;
        const float x1 = (float)from_bfloat16_1(x1_memory[x1_row + i]);
        typedef float typeof_x1;
        typedef float typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 + x1 * 0.5;
#line 76 "kernel"
        }
        y0_memory[y0_row + i] = to_bfloat16_1(y0);

    }
}
