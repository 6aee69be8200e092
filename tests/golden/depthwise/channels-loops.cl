// A depthwise convolution, or its adjoint, of images whose channels lie side by side.
//
//     x, one image             y
//     +----------------+       +--------------+     A vector is some channels of a pixel. A tile of
//     | channels       |       |              |     rows x columns of them is summed up in registers: every
//     |  columns       |  -->  |  +---+       |     vector of x below the tile is read once, and
//     |   rows         |       |  +---+ tile  |     added to all sums that it is part of.
//     +----------------+       +--------------+
//
// A work-item walks down a band of rows, from tile to tile, so that the rows that tiles share are
// still in the cache. Where x ends, its vectors are left out.
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d(
    __global const half *x_memory,
    __global const float *packed,
    __global half *y0_memory,
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
    const int channels,
    const int vectors,
    const int vectors_a_item,
    const int x_rows,
    const int x_columns,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int rows_a_item,
    const int kernel_rows,
    const int kernel_columns,
    const int row_stride,
    const int column_stride,
    const int row_dilation,
    const int column_dilation)
{
    const index_t image = get_group_id(2);
    const index_t band_first = (index_t)get_group_id(1) * rows_a_item;
    const index_t band_last = min(band_first + rows_a_item, y_rows);
    const index_t vectors_first = (index_t)get_group_id(0) * vectors_a_item;
    const index_t vectors_last = min(vectors_first + vectors_a_item, vectors);
    const index_t y0_band = y0_start + image * y0_image;

    for (index_t row = band_first; row < band_last; row += 1) {
        for (index_t column = 0; column < y_columns; column += 8) {
            for (index_t vector = vectors_first; vector < vectors_last; ++vector) {
                // The last vector ends with the last channel, and stores only what no other one does.
                const index_t channel = min(vector * 16, channels - 16);
                const int lane_first = vector * 16 - channel;
                const index_t x_plane = x_start + image * x_image + channel * x_channel;
                float16 sum[1][8];
                #pragma unroll
                for (int r = 0; r < 1; ++r)
                    #pragma unroll
                    for (int t = 0; t < 8; ++t)
                        sum[r][t] = 0;

                for (int kh = 0; kh < kernel_rows; ++kh) {
                    const int x_line_row = row * row_stride + kh * row_dilation - rows_before;
                    if ((uint)x_line_row >= (uint)x_rows)
                        continue;
                    const index_t x_line = x_plane + x_line_row * x_row;
                    for (int kw = 0; kw < kernel_columns; ++kw) {
                        const float16 tap = vload16(0, packed + (index_t)(kh * kernel_columns + kw) * channels + channel);
                        const int first_column = column * column_stride + kw * column_dilation - columns_before;
                        if (first_column >= 0 && first_column + 7 * column_stride < x_columns) {
                            #pragma unroll
                            for (int t = 0; t < 8; ++t) {
                                const index_t x_at = x_line + (first_column + t * column_stride) * x_column;
                                sum[0][t] = vload_half16(0, x_memory + x_at) * tap + sum[0][t];
                            }
                            continue;
                        }
                        #pragma unroll
                        for (int t = 0; t < 8; ++t) {
                            const int at_column = (column + t) * column_stride + kw * column_dilation - columns_before;
                            if ((uint)at_column >= (uint)x_columns)
                                continue;
                            const index_t x_at = x_line + at_column * x_column;
                            sum[0][t] = vload_half16(0, x_memory + x_at) * tap + sum[0][t];
                        }
                    }
                }

                if (lane_first == 0 && row + 1 <= y_rows && column + 8 <= y_columns) {
                    #pragma unroll
                    for (int r = 0; r < 1; ++r)
                        #pragma unroll
                        for (int t = 0; t < 8; ++t) {
                            const index_t y0_at = y0_band + (row + r) * y0_row + (column + t) * y0_column
                                + channel * y0_channel;

                            const index_t y0_here = y0_at;
                            float16 y0 = sum[r][t];
                            typedef float16 typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 108 "kernel"
                            }
                            vstore_half16(y0, 0, y0_memory + y0_here);
                        }
                    continue;
                }
                // At the edges: one after the other, by code that is there once.
                float kept[128];
                #pragma unroll
                for (int r = 0; r < 1; ++r)
                    #pragma unroll
                    for (int t = 0; t < 8; ++t)
                        vstore16(sum[r][t], r * 8 + t, kept);
                for (int r = 0; r < min((index_t)1, y_rows - row); ++r)
                    for (int t = 0; t < min((index_t)8, y_columns - column); ++t) {
                        const index_t y0_at = y0_band + (row + r) * y0_row + (column + t) * y0_column
                            + channel * y0_channel;

                        if (lane_first == 0) {
                            const index_t y0_here = y0_at;
                            float16 y0 = vload16(r * 8 + t, kept);
                            typedef float16 typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 133 "kernel"
                            }
                            vstore_half16(y0, 0, y0_memory + y0_here);
                        } else {
                            float lanes[16];
                            vstore16(vload16(r * 8 + t, kept), 0, lanes);
                            for (int lane = lane_first; lane < 16; ++lane) {
                                const index_t y0_here = y0_at + lane * y0_channel;
                                float y0 = lanes[lane];
                                typedef float typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 146 "kernel"
                                }
                                vstore_half(y0, 0, y0_memory + y0_here);
                            }
                        }

                    }
            }
        }
    }
}
