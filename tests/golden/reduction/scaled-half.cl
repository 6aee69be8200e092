// The contiguous loop is reduced: a work-group walks along it for one output at a time.
//
//     reduced space  |---- row 0 ----|---- row 1 ----| ...      n elements a row, rows anywhere
//     chunk          . . [begin ............... end) . .      what this group's split takes
//     work-items     l l l l l l l l l l l l l l l l          1 side by side, 16 elements each,
//     tile           u u u u u u u u                          3 times: independent accumulators
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float16 *to_reduce_y0, const float16 other_y0, const float w0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 21 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float8 *to_reduce_y0, const float8 other_y0, const float w0)
{
    typedef float8 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 34 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float4 *to_reduce_y0, const float4 other_y0, const float w0)
{
    typedef float4 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 47 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float2 *to_reduce_y0, const float2 other_y0, const float w0)
{
    typedef float2 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 60 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, const float other_y0, const float w0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 73 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reduction(
    __global ushort *y0_memory,
    __global const half *x0_memory,
    __global const half *x1_memory,
    const float w0,
    const float alpha0,
    const float beta0,
    const int n,
    const int length,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int k0,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int x0_k0,
    const int x1_start,
    const int x1_step,
    const int x1_column,
    const int x1_k0,
    const int y0_start,
    const int y0_step,
    const int y0_column,
    const int y0_k0)
{
    typedef float typeof_w0;

    const index_t lane = 0;
    const index_t first = (index_t)get_group_id(0) * per_group;
    const index_t last = min(first + per_group, outputs);
    const index_t split = (index_t)get_group_id(1);
    const index_t begin = split * chunk;
    const index_t end = min(begin + chunk, length);

    index_t kept_rest = first;
    index_t at_k0 = kept_rest;

    for (index_t o = first; o < last; ++o) {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 146 "kernel"
        }

        float16 tile_reduce_y0[3];
        {
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 156 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 3; ++u) {
                tile_reduce_y0[u] = reduce_y0;
            }
        }

        {
            index_t e = begin;
            const index_t stop = end;
            const index_t x0_at = x0_start + at_k0 * x0_k0;
            const index_t x1_at = x1_start + at_k0 * x1_k0;

            for (; e + 48 <= stop; e += 48) {
                #pragma unroll
                for (int u = 0; u < 3; ++u) {
                    const index_t at = e + (u * 1 + lane) * 16;
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                    typedef float16 typeof_x0;
                    const typeof_x0 x0 = vload_half16(0, x0_memory + x0_at + at);
                    typedef float16 typeof_x1;
                    const typeof_x1 x1 = vload_half16(0, x1_memory + x1_at + at);
                    typedef float16 typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0 * x1 * w0;
#line 186 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 191 "kernel"
                    }

                    tile_reduce_y0[u] = reduce_y0;

                }

            }
            for (; e + 16 <= stop; e += 16) {
                const int u = 0;
                const index_t at = e + lane * 16;
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                typedef float16 typeof_x0;
                const typeof_x0 x0 = vload_half16(0, x0_memory + x0_at + at);
                typedef float16 typeof_x1;
                const typeof_x1 x1 = vload_half16(0, x1_memory + x1_at + at);
                typedef float16 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0 * x1 * w0;
#line 213 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 218 "kernel"
                }

                tile_reduce_y0[u] = reduce_y0;

            }
            // What fills no vector.
            for (e += lane; e < stop; e += 1) {
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)vload_half(0, x0_memory + x0_at + e);
                typedef float typeof_x1;
                const typeof_x1 x1 = (float)vload_half(0, x1_memory + x1_at + e);
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0 * x1 * w0;
#line 235 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 240 "kernel"
                }

            }
        }

        {
            take_partial(&tile_reduce_y0[0], tile_reduce_y0[1], w0);
            take_partial(&tile_reduce_y0[0], tile_reduce_y0[2], w0);
            const float16 vector_reduce_y0 = tile_reduce_y0[0];
            // Halves onto halves, down to a single value.
            float8 half8_reduce_y0 = vector_reduce_y0.lo;
            take_partial(&half8_reduce_y0, vector_reduce_y0.hi, w0);
            float4 half4_reduce_y0 = half8_reduce_y0.lo;
            take_partial(&half4_reduce_y0, half8_reduce_y0.hi, w0);
            float2 half2_reduce_y0 = half4_reduce_y0.lo;
            take_partial(&half2_reduce_y0, half4_reduce_y0.hi, w0);
            float half1_reduce_y0 = half2_reduce_y0.lo;
            take_partial(&half1_reduce_y0, half2_reduce_y0.hi, w0);
            take_partial(&reduce_y0, half1_reduce_y0, w0);

        }
        {
            const index_t y0_at = y0_start + at_k0 * y0_k0;
            typedef float typeof_y0;
            typeof_y0 y0 = (float)reduce_y0;
            {
                const float old = (float)from_bfloat16_1(y0_memory[y0_at]);
                y0 = (float)(alpha0 * (float)y0 + beta0 * (float)old);
            }
            y0_memory[y0_at] = to_bfloat16_1(y0);

        }
        ++at_k0;

    }
}
