typedef int index_t;
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
static inline __attribute__((overloadable)) float4 cp_max(float4 a, float4 b)
{
    return max(a, b);
}
#undef max
#define max(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_max((cp_type)cp_in_a, (cp_type)cp_in_b); })

__kernel void conv2d_finish(
    __global const float *partial,
    __global float *y0_memory,
    const int lanes,
    const int outputs,
    const int groups,
    const int splits,
    const int lane_2,
    const int padded_rows,
    const int pitch,
    const int y0_start,
    const int y0_group,
    const int y0_output,
    const int y0_lane_1,
    const int y0_lane_2)
{
    const index_t rows = outputs;
    const index_t columns = lanes;
    index_t rest = (index_t)get_global_id(0);
    const index_t column = rest % (pitch / 4) * 4;
    rest /= pitch / 4;
    const index_t row = rest % rows;
    const index_t group = rest / rows;
    if (group >= groups || column >= columns)
        return;
    float4 values = 0;
    for (index_t split = 0; split < splits; ++split) {
        const index_t place = ((split * groups + group) * padded_rows + row) * pitch + column;
        values += *(__global const float4 *)(partial + place);
    }
    const index_t y0_row = y0_start + group * y0_group + row * y0_output;
    index_t lane_at_1, lane_at_2;
    {
        index_t rest = column;
        lane_at_2 = rest % lane_2;
        rest /= lane_2;
        lane_at_1 = rest;
    }
    if (column + 4 <= columns && lane_at_2 + 4 <= lane_2) {
        const int c = 0;
        float4 y0 = values;
        typedef float4 typeof_y0;
        {
#line 1 "snippet:epilogue"
y0 = max(y0, 0);
#line 79 "kernel"
        }
        vstore4(y0, 0, y0_memory + y0_row + lane_at_1 * y0_lane_1 + lane_at_2 * y0_lane_2);
    } else
    {
        float elements[4];
        vstore4(values, 0, elements);
        #pragma unroll
        for (int c = 0; c < 4; ++c)
            if (column + c < columns) {
                float y0 = elements[c];
                typedef float typeof_y0;
                {
#line 1 "snippet:epilogue"
y0 = max(y0, 0);
#line 94 "kernel"
                }
                y0_memory[y0_row + lane_at_1 * y0_lane_1 + lane_at_2 * y0_lane_2] = y0;
                if (++lane_at_2 == lane_2) {
                    lane_at_2 = 0;
                    ++lane_at_1;
                }
            }
    }
}
