// A depthwise convolution of planes that are as large in x as in y, and lie there without gaps.
//
//     x, one plane                          y
//     +---+-+-------+                       +-------+
//     |   |v| row 0 |   one tap: the same   |  |v|  |    A vector may run across the end of a row.
//     |   +-+ row 1 |   vector, elsewhere   |  +-+  |    What a tap takes from a neighbouring row,
//     |       row 2 |                       |       |    or from above or below, is replaced by 0.
//     +-------------+                       +-------+
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
static inline __attribute__((overloadable)) float16 cp_clamp(float16 a, float16 b, float16 c)
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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d(
    __global const float *x_memory,
    __global const float *w_memory,
    __global float *y0_memory,
    const float beta,
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
    const int planes,
    const int planes_a_item,
    const int channels,
    const int multiplier,
    const int x_size,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int row_dilation,
    const int column_dilation,
    const int rows_a_item,
    const int period)
{
    __local int masks[4096];
    const index_t plane_first = (index_t)get_group_id(0) * planes_a_item;
    const index_t plane_last = min(plane_first + planes_a_item, planes);
    const int size = y_rows * y_columns;
    const int first = (int)get_group_id(1) * rows_a_item * y_columns;
    const int last = min(first + rows_a_item * (int)y_columns, size);

    // From an output to what its taps read.
    int row_at[3], column_at[3];
    #pragma unroll
    for (int kh = 0; kh < 3; ++kh)
        row_at[kh] = (kh * row_dilation - rows_before) * y_columns;
    #pragma unroll
    for (int kw = 0; kw < 3; ++kw)
        column_at[kw] = kw * column_dilation - columns_before;
    const int least = row_at[0] + column_at[0], most = row_at[2] + column_at[2];
    // Which lanes' taps lie in their own row; this repeats after some vectors.
    for (int v = 0; v < period; ++v)
        for (int lane = 0; lane < 16; ++lane) {
            const int column = (v * 16 + lane) % y_columns;
            masks[(v * 2 + 0) * 16 + lane] = (uint)(column + column_at[0]) < (uint)y_columns ? -1 : 0;
            masks[(v * 2 + 1) * 16 + lane] = (uint)(column + column_at[2]) < (uint)y_columns ? -1 : 0;
        }

    index_t image = plane_first / channels;
    index_t channel = plane_first - image * channels;
    for (index_t plane = plane_first; plane < plane_last; ++plane) {
        const index_t w_at = w_start + channel * w_channel;
        const index_t x_plane = x_start + image * x_image + channel / multiplier * x_channel;
        float tap[9];
        #pragma unroll
        for (int k = 0; k < 9; ++k)
            tap[k] = (float)w_memory[w_at + k / 3 * w_row + k % 3 * w_column];
        const index_t y0_plane = y0_start + image * y0_image + channel * y0_channel;
        int e = first, v = 0;
        for (; e + 16 <= last; e += 16, v = v + 1 == period ? 0 : v + 1) {
            const int there = 16;
            // A sum for every row of taps: they need not wait for each other.
            float16 sums[3];
            #pragma unroll
            for (int kh = 0; kh < 3; ++kh)
                sums[kh] = 0;
            if (e + least >= 0 && e + 16 + most <= size) {
                #pragma unroll
                for (int kh = 0; kh < 3; ++kh) {
                    sums[kh] += tap[kh * 3 + 0] * select((float16)0, vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 0), vload16(v * 2 + 0, masks));
                    sums[kh] += tap[kh * 3 + 1] * vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 1);
                    sums[kh] += tap[kh * 3 + 2] * select((float16)0, vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 2), vload16(v * 2 + 1, masks));

                }
            } else
            if (x_plane + e + least >= 0 && x_plane + e + 16 + most <= x_size) {
                const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + (int)e;
                #pragma unroll
                for (int kh = 0; kh < 3; ++kh) {
                    // A row is that of the plane, if the row's start is: columns have masks.
                    const int16 in_rows = lanes >= (int)(-row_at[kh]) & lanes < (int)(size - row_at[kh]);
                    sums[kh] += tap[kh * 3 + 0] * select((float16)0, vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 0), vload16(v * 2 + 0, masks) & in_rows);
                    sums[kh] += tap[kh * 3 + 1] * select((float16)0, vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 1), in_rows);
                    sums[kh] += tap[kh * 3 + 2] * select((float16)0, vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 2), vload16(v * 2 + 1, masks) & in_rows);

                }
            } else {
                // At the ends of memory: element by element, added up in the same order.
                float elements[48];
                for (int kh = 0; kh < 3; ++kh)
                    for (int lane = 0; lane < 16; ++lane) {
                        const int row = (e + lane) / y_columns, column = (e + lane) % y_columns;
                        const int from_row = row + kh * row_dilation - rows_before;
                        float sum = 0;
                        for (int kw = 0; kw < 3 && lane < there; ++kw) {
                            const int from_column = column + kw * column_dilation - columns_before;
                            if ((uint)from_row < (uint)y_rows && (uint)from_column < (uint)y_columns)
                                sum += tap[kh * 3 + kw]
                                    * ((float)x_memory[x_plane + from_row * y_columns + from_column]);
                        }
                        elements[kh * 16 + lane] = sum;
                    }
                for (int kh = 0; kh < 3; ++kh)
                    sums[kh] = vload16(kh, elements);
            }
            float16 sum = sums[0];
            #pragma unroll
            for (int kh = 1; kh < 3; ++kh)
                sum += sums[kh];
            const index_t y0_at = y0_plane + e * y0_column;
            {
                const index_t y0_here = y0_at;
                float16 y0 = sum;
                typedef float16 typeof_y0;
                {
#line 1 "snippet:epilogue"
y0 = clamp(y0, 0, 6);
#line 169 "kernel"
                }
                y0 += beta * (vload16(0, y0_memory + y0_here));
                vstore16(y0, 0, y0_memory + y0_here);
            }

        }
        // By itself: a loop that may store less than a vector is a third slower.
        if (e < last) {
            const int there = last - e;
            // A sum for every row of taps: they need not wait for each other.
            float16 sums[3];
            #pragma unroll
            for (int kh = 0; kh < 3; ++kh)
                sums[kh] = 0;
            if (x_plane + e + least >= 0 && x_plane + e + 16 + most <= x_size) {
                const int16 lanes = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) + (int)e;
                #pragma unroll
                for (int kh = 0; kh < 3; ++kh) {
                    // A row is that of the plane, if the row's start is: columns have masks.
                    const int16 in_rows = lanes >= (int)(-row_at[kh]) & lanes < (int)(size - row_at[kh]);
                    sums[kh] += tap[kh * 3 + 0] * select((float16)0, vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 0), vload16(v * 2 + 0, masks) & in_rows);
                    sums[kh] += tap[kh * 3 + 1] * select((float16)0, vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 1), in_rows);
                    sums[kh] += tap[kh * 3 + 2] * select((float16)0, vload16(0, x_memory + x_plane + e + row_at[kh] + column_at[0] + 2), vload16(v * 2 + 1, masks) & in_rows);

                }
            } else {
                // At the ends of memory: element by element, added up in the same order.
                float elements[48];
                for (int kh = 0; kh < 3; ++kh)
                    for (int lane = 0; lane < 16; ++lane) {
                        const int row = (e + lane) / y_columns, column = (e + lane) % y_columns;
                        const int from_row = row + kh * row_dilation - rows_before;
                        float sum = 0;
                        for (int kw = 0; kw < 3 && lane < there; ++kw) {
                            const int from_column = column + kw * column_dilation - columns_before;
                            if ((uint)from_row < (uint)y_rows && (uint)from_column < (uint)y_columns)
                                sum += tap[kh * 3 + kw]
                                    * ((float)x_memory[x_plane + from_row * y_columns + from_column]);
                        }
                        elements[kh * 16 + lane] = sum;
                    }
                for (int kh = 0; kh < 3; ++kh)
                    sums[kh] = vload16(kh, elements);
            }
            float16 sum = sums[0];
            #pragma unroll
            for (int kh = 1; kh < 3; ++kh)
                sum += sums[kh];
            const index_t y0_at = y0_plane + e * y0_column;
            if (there == 16) {
                const index_t y0_here = y0_at;
                float16 y0 = sum;
                typedef float16 typeof_y0;
                {
#line 1 "snippet:epilogue"
y0 = clamp(y0, 0, 6);
#line 226 "kernel"
                }
                y0 += beta * (vload16(0, y0_memory + y0_here));
                vstore16(y0, 0, y0_memory + y0_here);
            } else {
                float lanes[16];
                vstore16(sum, 0, lanes);
                for (int lane = 0; lane < there; ++lane) {
                    const index_t y0_here = y0_at + lane * y0_column;
                    float y0 = lanes[lane];
                    typedef float typeof_y0;
                    {
#line 1 "snippet:epilogue"
y0 = clamp(y0, 0, 6);
#line 240 "kernel"
                    }
                    y0 += beta * ((float)y0_memory[y0_here]);
                    y0_memory[y0_here] = y0;
                }
            }

        }
        if (++channel == channels) {
            channel = 0;
            ++image;
        }
    }
}
