// A depthwise convolution, or its adjoint, of arrays of any strides.
//
// A work-item sums up a few outputs of a channel, one beside or below the other; its neighbours take
// the neighbouring channels or columns, so that what they read and write lies side by side.
typedef int index_t;
static inline __attribute__((overloadable)) int cp_clamp(int a, int b, int c)
{
    return clamp(a, b, c);
}
static inline __attribute__((overloadable)) uint cp_clamp(uint a, uint b, uint c)
{
    return clamp(a, b, c);
}
static inline __attribute__((overloadable)) long cp_clamp(long a, long b, long c)
{
    return clamp(a, b, c);
}
static inline __attribute__((overloadable)) ulong cp_clamp(ulong a, ulong b, ulong c)
{
    return clamp(a, b, c);
}
static inline __attribute__((overloadable)) float cp_clamp(float a, float b, float c)
{
    return clamp(a, b, c);
}
#undef clamp
#define clamp(a, b, c) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    __auto_type cp_in_c = (c); \
    typedef __typeof__(cp_in_a + cp_in_b + cp_in_c) cp_type; \
    cp_clamp((cp_type)cp_in_a, (cp_type)cp_in_b, (cp_type)cp_in_c); })

__kernel void conv2d_input(
    __global const float *x_memory,
    __global const float *w_memory,
    __global float *y0_memory,
    const int y0_start,
    const int y0_image,
    const int y0_channel,
    const int y0_row,
    const int y0_column,
    const int x_start,
    const int x_image,
    const int x_channel,
    const int x_row,
    const int x_column,
    const int w_start,
    const int w_channel,
    const int w_row,
    const int w_column,
    const int channels,
    const int multiplier,
    const int x_rows,
    const int x_columns,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int kernel_rows,
    const int kernel_columns,
    const int row_stride,
    const int column_stride,
    const int row_dilation,
    const int column_dilation)
{
    const index_t column = (index_t)get_global_id(0);
    const index_t row = (index_t)get_global_id(1) * 4;
    const index_t channel = (index_t)get_global_id(2) % channels;
    const index_t image = (index_t)get_global_id(2) / channels;
    if (column >= y_columns || row >= y_rows)
        return;
    float sum[4];
    #pragma unroll
    for (int t = 0; t < 4; ++t)
        sum[t] = 0;

    // Gradients of all outputs of this channel add up.
    for (index_t output = channel * multiplier; output < (channel + 1) * multiplier; ++output) {
        const index_t x_at = x_start + image * x_image + output * x_channel;
        const index_t w_at = w_start + output * w_channel;
        for (int kh = 0; kh < kernel_rows; ++kh)
            for (int kw = 0; kw < kernel_columns; ++kw) {
                const float tap = (float)w_memory[w_at + kh * w_row + kw * w_column];
                #pragma unroll
                for (int t = 0; t < 4; ++t) {
                    const index_t to_row = row + t, to_column = column;
                    // The tap reaches this element from a whole place only.
                    const index_t down = to_row + rows_before - kh * row_dilation;
                    const index_t right = to_column + columns_before - kw * column_dilation;
                    const index_t from_row = down / row_stride, from_column = right / column_stride;
                    const bool inside = down >= 0 && right >= 0 && down % row_stride == 0 && right % column_stride == 0
                        && from_row < x_rows && from_column < x_columns;
                    if (inside)
                        sum[t] += tap * ((float)x_memory[x_at + from_row * x_row + from_column * x_column]);
                }
            }

    }
    #pragma unroll
    for (int t = 0; t < 4; ++t) {
        const index_t y_row = row + t, y_column = column;
        if (y_row >= y_rows || y_column >= y_columns)
            break;
        const index_t y0_at = y0_start + image * y0_image + channel * y0_channel
            + y_row * y0_row + y_column * y0_column;
        {
            const index_t y0_here = y0_at;
            float y0 = sum[t];
            typedef float typeof_y0;
            {
#line 1 "snippet:epilogue"
y0 = clamp(y0, 0, 6);
#line 115 "kernel"
            }
            y0_memory[y0_here] = y0;
        }

    }
}
