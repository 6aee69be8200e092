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
    for (int e = 0; e < 2 * part_size; e += 16)
        vstore16((float16)0, 0, source + e);

    // Where taps of output 0 lie in the copy; of a tap to the left of it, one row's end.
    int row_at[3], column_at[3];
    #pragma unroll
    for (int kh = 0; kh < 3; ++kh) {
        const int place = kh * row_dilation - rows_before + 1 * rows_above;
        row_at[kh] = place % 1 * 1 * part_size + place / 1 * y_columns + 16;
    }
    #pragma unroll
    for (int kw = 0; kw < 3; ++kw) {
        const int place = kw * column_dilation - columns_before + 1 * columns_left;
        column_at[kw] = place % 1 * part_size + place / 1 - columns_left;
    }
    // Which lanes' taps lie in their own row; this repeats after some vectors.
    for (int v = 0; v < period; ++v)
        for (int lane = 0; lane < 16; ++lane) {
            const int column = (v * 16 + lane) % y_columns;
            {
                const int from = column * 1 + 0 * column_dilation - columns_before;
                masks[(v * 2 + 0) * 16 + lane] = from >= 0 && from < x_columns ? -1 : 0;
            }
            {
                const int from = column * 1 + 2 * column_dilation - columns_before;
                masks[(v * 2 + 1) * 16 + lane] = from >= 0 && from < x_columns ? -1 : 0;
            }
        }

    // A plane is copied while the one before it is summed up from the other copy: loads that take parts of
    // stores right before them would wait.
    const index_t row = 0;
    const int rows_here = y_rows;
    index_t image = 0, channel = 0, image_next = plane_first / channels;
    index_t channel_next = plane_first - image_next * channels;
    for (index_t plane = plane_first; plane <= plane_last; ++plane) {
        const int side = (plane - plane_first) & 1;
        const index_t x_plane = x_start + image_next * x_image + channel_next / multiplier * x_channel;
        if (plane < plane_last) {
            __local float *into = source + side * part_size;
            // What a vector writes too much, the next row overwrites.
            int copied = 0;
            if (x_row == y_columns && x_columns == y_columns) {
                const int first = max(row - rows_above, (index_t)0), last = min(row + rows_here + rows_below, x_rows);
                const index_t at = x_plane + first * x_row;
                const int count = (last - first) * y_columns;
                copied = rows_above + rows_here + rows_below;
                for (int e = 0; e < (first - row + rows_above) * y_columns; e += 16)
                    vstore16((float16)0, 0, into + 16 + e);
                __local float *to = into + 16 + (first - row + rows_above) * y_columns;
                for (int e = 0; e < count; e += 16)
                    vstore16(first_of(x_memory, at + e, x_size, count - e), 0, to + e);
                for (int e = count; e < (row + rows_here + rows_below - first) * y_columns; e += 16)
                    vstore16((float16)0, 0, to + e);
            }
            for (int s = copied * 1; s < (rows_above + rows_here + rows_below) * 1; ++s) {
                __local float *to = into + 16 + s % 1 * 1 * part_size + s / 1 * y_columns;
                const int from_row = (row - rows_above) * 1 + s;
                const index_t at = x_plane + from_row * x_row;
                const int there = (uint)from_row < (uint)x_rows ? x_columns : 0;
                for (int c = 0; c < y_columns; c += 16)
                    vstore16(first_of(x_memory, at + c, x_size, there - c), 0, to + c);
            }

        }
        if (plane > plane_first) {
            __local const float *from = source + (side ^ 1) * part_size;
            const index_t w_at = w_start + channel * w_channel;
            float tap[9];
            #pragma unroll
            for (int k = 0; k < 9; ++k)
                tap[k] = (float)w_memory[w_at + k / 3 * w_row + k % 3 * w_column];
            const index_t y0_plane = y0_start + image * y0_image + channel * y0_channel;

            const int run = rows_here * y_columns;
            int e = 0, v = 0;
            for (; e + 16 <= run; e += 16, v = v + 1 == period ? 0 : v + 1) {
                // A sum for every row of taps: they need not wait for each other.
                float16 sums[3];
                #pragma unroll
                for (int kh = 0; kh < 3; ++kh) {
                    sums[kh] = 0;
                    sums[kh] += tap[kh * 3 + 0] * select((float16)0, vload16(0, from + e + row_at[kh] + column_at[0] + 0), vload16(v * 2 + 0, masks));
                    sums[kh] += tap[kh * 3 + 1] * vload16(0, from + e + row_at[kh] + column_at[0] + 1);
                    sums[kh] += tap[kh * 3 + 2] * select((float16)0, vload16(0, from + e + row_at[kh] + column_at[0] + 2), vload16(v * 2 + 1, masks));
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
#line 172 "kernel"
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
                    sums[kh] += tap[kh * 3 + 0] * select((float16)0, vload16(0, from + e + row_at[kh] + column_at[0] + 0), vload16(v * 2 + 0, masks));
                    sums[kh] += tap[kh * 3 + 1] * vload16(0, from + e + row_at[kh] + column_at[0] + 1);
                    sums[kh] += tap[kh * 3 + 2] * select((float16)0, vload16(0, from + e + row_at[kh] + column_at[0] + 2), vload16(v * 2 + 1, masks));
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
#line 202 "kernel"
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
#line 215 "kernel"
                        }
                        y0_memory[y0_here] = y0;
                    }
                }

            }

        }
        image = image_next;
        channel = channel_next;
        if (++channel_next == channels) {
            channel_next = 0;
            ++image_next;
        }
    }
}
