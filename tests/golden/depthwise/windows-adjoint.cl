// A depthwise convolution, or its adjoint, of arrays of any strides.
//
//     x, one channel             y
//     +---------------+          +-------------+
//     |  +---------+  |          |  +-------+  |    A work-item sums up a tile of rows x columns in
//     |  |  below  |  |   --->   |  | tile  |  |    registers. Every element of x below the tile is
//     |  +---------+  |          |  +-------+  |    read once, and added to all sums whose windows it
//     +---------------+          +-------------+    is in.
//
// Neighbouring work-items take neighbouring channels, or columns: what they read lies side by side.
// Where taps are apart, the outputs of a tile are so too, and share what is below them all the same.
typedef int index_t;

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
    const int columns_before)
{
    const index_t tile_column = (index_t)get_global_id(0);
    const index_t tile_row = (index_t)get_global_id(1);
    const index_t channel = (index_t)get_global_id(2) % channels;
    const index_t image = (index_t)get_global_id(2) / channels;
    const index_t row = tile_row * 8, column = tile_column * 2;
    if (row >= y_rows || column >= y_columns)
        return;
    float sum[8][2];
    #pragma unroll
    for (int r = 0; r < 8; ++r)
        #pragma unroll
        for (int t = 0; t < 2; ++t)
            sum[r][t] = 0;

    // Gradients of all outputs of this channel add up.
    for (index_t output = channel * multiplier; output < (channel + 1) * multiplier; ++output) {
        const index_t x_plane = x_start + image * x_image + output * x_channel;
        const index_t w_at = w_start + output * w_channel;
        float tap[3][3];
        #pragma unroll
        for (int kh = 0; kh < 3; ++kh)
            #pragma unroll
            for (int kw = 0; kw < 3; ++kw)
                tap[kh][kw] = (float)w_memory[w_at + kh * w_row + kw * w_column];
        // Of y's rows 2 apart and x's, taps join those for which this is whole.
        const index_t x_row_first = (row + rows_before) / 2 - 1;
        const index_t x_column_first = (column + columns_before) / 2 - 1;
        const bool inside = x_row_first >= 0 && x_row_first + 5 < x_rows
            && x_column_first >= 0 && x_column_first + 2 < x_columns;
        if (inside) {
            #pragma unroll
            for (int i = 0; i < 6; ++i) {
                const index_t from_row = x_row_first + i;
                #pragma unroll
                for (int j = 0; j < 3; ++j) {
                    const index_t from_column = x_column_first + j;
                    const float value = (float)x_memory[x_plane + from_row * x_row + from_column * x_column];
                    #pragma unroll
                    for (int r = 0; r < 8; ++r)
                        #pragma unroll
                        for (int t = 0; t < 2; ++t) {
                            const int kh = r + 1 - (i - 1) * 2, kw = t + 1 - (j - 1) * 2;
                            if (kh >= 0 && kh < 3 && kw >= 0 && kw < 3)
                                sum[r][t] = value * tap[kh][kw] + sum[r][t];
                        }
                }
            }

        } else {
            #pragma unroll
            for (int i = 0; i < 6; ++i) {
                const index_t from_row = x_row_first + i;
                if (from_row < 0 || from_row >= x_rows)
                    continue;
                #pragma unroll
                for (int j = 0; j < 3; ++j) {
                    const index_t from_column = x_column_first + j;
                    if (from_column < 0 || from_column >= x_columns)
                        continue;
                    const float value = (float)x_memory[x_plane + from_row * x_row + from_column * x_column];
                    #pragma unroll
                    for (int r = 0; r < 8; ++r)
                        #pragma unroll
                        for (int t = 0; t < 2; ++t) {
                            const int kh = r + 1 - (i - 1) * 2, kw = t + 1 - (j - 1) * 2;
                            if (kh >= 0 && kh < 3 && kw >= 0 && kw < 3)
                                sum[r][t] = value * tap[kh][kw] + sum[r][t];
                        }
                }
            }

        }

    }
    #pragma unroll
    for (int r = 0; r < 8; ++r)
        #pragma unroll
        for (int t = 0; t < 2; ++t) {
            const index_t y_row = row + r, y_column = column + t;
            if (y_row < y_rows && y_column < y_columns) {
                const index_t y0_at = y0_start + image * y0_image + channel * y0_channel
                    + y_row * y0_row + y_column * y0_column;
                {
                    const index_t y0_here = y0_at;
                    float y0 = sum[r][t];
                    typedef float typeof_y0;
                    {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 131 "kernel"
                    }
                    y0_memory[y0_here] = y0;
                }

            }
        }
}
