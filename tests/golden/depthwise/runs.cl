// A depthwise convolution of planes whose rows are shorter than some vectors, and follow each other.
//
//     x, one plane       source, rows as long as those of y      y
//     +-------+          0 0 0 0 0 0 0                           +-------+
//     | row 0 |  copy    | row 0 | row 1 | row 2 | ...  +  taps -> | row 0 |
//     | row 1 |          0 0 0 0 0 0 0                           | row 1 |
//     +-------+                                                  +-------+
// Vectors run across the ends of rows, so that no lane is idle. What a tap to the left or to the
// right takes from the row before or after is replaced by 0; zeros stand above and below. With a
// stride of 2, even and odd rows and columns are copied apart.
typedef int index_t;

// The first `left` elements at `at` and zeros behind them; memory that is not ours is not read.
__attribute__((always_inline)) static float16 first_of(__global const float *x_memory, index_t at, index_t size, int left)
{
    if (left >= 16)
        return vload16(0, x_memory + at);
    if (left <= 0)
        return 0;
    if (at + 16 <= size)
        return select((float16)0, vload16(0, x_memory + at), (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int16)left);
    float elements[16];
    for (int e = 0; e < 16; ++e)
        elements[e] = e < left ? (float)x_memory[at + e] : 0;
    return vload16(0, elements);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d(
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
    const int planes,
    const int planes_a_item,
    const int channels,
    const int multiplier,
    const int x_size,
    const int x_rows,
    const int x_columns,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int row_dilation,
    const int column_dilation,
    const int rows_a_item,
    const int rows_a_band,
    const int rows_above,
    const int rows_below,
    const int columns_left,
    const int part_size,
    const int period)
{
    __local float source[6144];
    __local int masks[2048];
    const index_t plane_first = (index_t)get_group_id(0) * planes_a_item;
    const index_t plane_last = min(plane_first + planes_a_item, planes);
    const index_t item_first = (index_t)get_group_id(1) * rows_a_item;
    const index_t item_last = min(item_first + rows_a_item, y_rows);
    for (int e = 0; e < 4 * part_size; e += 16)
        vstore16((float16)0, 0, source + e);

    // Where taps of output 0 lie in the copy; of a tap to the left of it, one row's end.
    int row_at[3], column_at[3];
    #pragma unroll
    for (int kh = 0; kh < 3; ++kh) {
        const int place = kh * row_dilation - rows_before + 2 * rows_above;
        row_at[kh] = place % 2 * 2 * part_size + place / 2 * y_columns + 16;
    }
    #pragma unroll
    for (int kw = 0; kw < 3; ++kw) {
        const int place = kw * column_dilation - columns_before + 2 * columns_left;
        column_at[kw] = place % 2 * part_size + place / 2 - columns_left;
    }
    // Which lanes' taps lie in their own row; this repeats after some vectors.
    for (int v = 0; v < period; ++v)
        for (int lane = 0; lane < 16; ++lane) {
            const int column = (v * 16 + lane) % y_columns;
            {
                const int from = column * 2 + 0 * column_dilation - columns_before;
                masks[(v * 1 + 0) * 16 + lane] = from >= 0 && from < x_columns ? -1 : 0;
            }
        }

    index_t image = plane_first / channels;
    index_t channel = plane_first - image * channels;
    for (index_t plane = plane_first; plane < plane_last; ++plane) {
        const index_t x_plane = x_start + image * x_image + channel / multiplier * x_channel;
        const index_t w_at = w_start + channel * w_channel;
        float tap[9];
        #pragma unroll
        for (int k = 0; k < 9; ++k)
            tap[k] = (float)w_memory[w_at + k / 3 * w_row + k % 3 * w_column];
        const index_t y0_plane = y0_start + image * y0_image + channel * y0_channel;

        for (index_t row = item_first; row < item_last; row += rows_a_band) {
            const int rows_here = min(rows_a_band, item_last - row);
            // What a vector writes too much, the next row overwrites.
            int copied = 0;
            for (int s = copied * 2; s < (rows_above + rows_here + rows_below) * 2; ++s) {
                __local float *to = source + 16 + s % 2 * 2 * part_size + s / 2 * y_columns;
                const int from_row = (row - rows_above) * 2 + s;
                const index_t at = x_plane + from_row * x_row;
                const int there = (uint)from_row < (uint)x_rows ? x_columns : 0;
                for (int c = 0; c < 2 * y_columns; c += 32) {
                    const float16 a = first_of(x_memory, at + c, x_size, there - c);
                    const float16 b = first_of(x_memory, at + c + 16, x_size, there - c - 16);
                    vstore16((float16)(a.even, b.even), 0, to + c / 2);
                    vstore16((float16)(a.odd, b.odd), 0, to + part_size + c / 2);
                }
            }

            const int run = rows_here * y_columns;
            int e = 0, v = 0;
            for (; e + 16 <= run; e += 16, v = v + 1 == period ? 0 : v + 1) {
                // A sum for every row of taps: they need not wait for each other.
                float16 sums[3];
                #pragma unroll
                for (int kh = 0; kh < 3; ++kh) {
                    sums[kh] = 0;
                    sums[kh] += tap[kh * 3 + 0] * select((float16)0, vload16(0, source + e + row_at[kh] + column_at[0]), vload16(v * 1 + 0, masks));
                    sums[kh] += tap[kh * 3 + 1] * vload16(0, source + e + row_at[kh] + column_at[1]);
                    sums[kh] += tap[kh * 3 + 2] * vload16(0, source + e + row_at[kh] + column_at[2]);
                }
                float16 sum = sums[0];
                #pragma unroll
                for (int kh = 1; kh < 3; ++kh)
                    sum += sums[kh];
                const index_t y0_at = y0_plane + row * y0_row + e * y0_column;
                {
                    const index_t y0_here = y0_at;
                    float16 y0 = sum;
                    typedef float16 typeof_y0;
                    {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 151 "kernel"
                    }
                    vstore16(y0, 0, y0_memory + y0_here);
                }

            }
            // By itself: a loop that may store less than a vector is slower.
            if (e < run) {
                const int there = run - e;
                // A sum for every row of taps: they need not wait for each other.
                float16 sums[3];
                #pragma unroll
                for (int kh = 0; kh < 3; ++kh) {
                    sums[kh] = 0;
                    sums[kh] += tap[kh * 3 + 0] * select((float16)0, vload16(0, source + e + row_at[kh] + column_at[0]), vload16(v * 1 + 0, masks));
                    sums[kh] += tap[kh * 3 + 1] * vload16(0, source + e + row_at[kh] + column_at[1]);
                    sums[kh] += tap[kh * 3 + 2] * vload16(0, source + e + row_at[kh] + column_at[2]);
                }
                float16 sum = sums[0];
                #pragma unroll
                for (int kh = 1; kh < 3; ++kh)
                    sum += sums[kh];
                const index_t y0_at = y0_plane + row * y0_row + e * y0_column;
                if (there == 16) {
                    const index_t y0_here = y0_at;
                    float16 y0 = sum;
                    typedef float16 typeof_y0;
                    {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 181 "kernel"
                    }
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
y0 *= 0.5f;
#line 194 "kernel"
                        }
                        y0_memory[y0_here] = y0;
                    }
                }

            }

        }
        if (++channel == channels) {
            channel = 0;
            ++image;
        }
    }
}
