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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_input(
    __global const float *x_memory,
    __global const float *packed,
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
    const int channels,
    const int vectors,
    const int vectors_a_item,
    const int x_rows,
    const int x_columns,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int rows_a_item)
{
    const index_t image = get_group_id(2);
    const index_t band_first = (index_t)get_group_id(1) * rows_a_item;
    const index_t band_last = min(band_first + rows_a_item, y_rows);
    const index_t vectors_first = (index_t)get_group_id(0) * vectors_a_item;
    const index_t vectors_last = min(vectors_first + vectors_a_item, vectors);
    const index_t y0_band = y0_start + image * y0_image;

    for (index_t row = band_first; row < band_last; row += 4) {
        for (index_t column = 0; column < y_columns; column += 4) {
            // Of y's rows 2 apart and x's, taps join those for which this is whole.
            const int x_row_first = (row + rows_before) / 2 - 1;
            const int x_column_first = (column + columns_before) / 2 - 1;
            const bool inside = x_column_first >= 0 && x_column_first + 4 <= x_columns;
            // Where columns lie; of those outside of x, some element of it is read and not used.
            index_t x_places[4];
            int x_inside[4];
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int at = x_column_first + j;
                x_inside[j] = (uint)at < (uint)x_columns ? -1 : 0;
                x_places[j] = (x_inside[j] ? at : 0) * x_column;
            }
            for (index_t vector = vectors_first; vector < vectors_last; ++vector) {
                // The last vector ends with the last channel, and stores only what no other one does.
                const index_t channel = min(vector * 16, channels - 16);
                const int lane_first = vector * 16 - channel;
                const index_t x_plane = x_start + image * x_image + channel * x_channel;
                float16 sum[4][4];
                #pragma unroll
                for (int r = 0; r < 4; ++r)
                    #pragma unroll
                    for (int t = 0; t < 4; ++t)
                        sum[r][t] = 0;

                float16 tap[3][3];
                #pragma unroll
                for (int kh = 0; kh < 3; ++kh)
                    #pragma unroll
                    for (int kw = 0; kw < 3; ++kw)
                        tap[kh][kw] = vload16(0, packed + (kh * 3 + kw) * channels + channel);
                if (inside) {
                    #pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        if ((uint)(x_row_first + i) >= (uint)x_rows)
                            continue;
                        const index_t x_line = x_plane + (x_row_first + i) * x_row;
                        #pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            const index_t x_at = x_line + (x_column_first + j) * x_column;
                            const float16 value = vload16(0, x_memory + x_at);
                            #pragma unroll
                            for (int r = 0; r < 4; ++r)
                                #pragma unroll
                                for (int t = 0; t < 4; ++t) {
                                    const int kh = r + 1 - (i - 1) * 2, kw = t + 1 - (j - 1) * 2;
                                    if (kh >= 0 && kh < 3 && kw >= 0 && kw < 3)
                                        sum[r][t] = value * tap[kh][kw] + sum[r][t];
                                }
                        }
                    }

                } else {
                    #pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        if ((uint)(x_row_first + i) >= (uint)x_rows)
                            continue;
                        const index_t x_line = x_plane + (x_row_first + i) * x_row;
                        #pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            const index_t x_at = x_line + x_places[j];
                            const float16 value = select((float16)0, vload16(0, x_memory + x_at), (int16)x_inside[j]);
                            #pragma unroll
                            for (int r = 0; r < 4; ++r)
                                #pragma unroll
                                for (int t = 0; t < 4; ++t) {
                                    const int kh = r + 1 - (i - 1) * 2, kw = t + 1 - (j - 1) * 2;
                                    if (kh >= 0 && kh < 3 && kw >= 0 && kw < 3)
                                        sum[r][t] = value * tap[kh][kw] + sum[r][t];
                                }
                        }
                    }

                }

                if (lane_first == 0 && row + 4 <= y_rows && column + 4 <= y_columns) {
                    #pragma unroll
                    for (int r = 0; r < 4; ++r)
                        #pragma unroll
                        for (int t = 0; t < 4; ++t) {
                            const index_t y0_at = y0_band + (row + r) * y0_row + (column + t) * y0_column
                                + channel * y0_channel;

                            const index_t y0_here = y0_at;
                            float16 y0 = sum[r][t];
                            typedef float16 typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 138 "kernel"
                            }
                            vstore16(y0, 0, y0_memory + y0_here);
                        }
                    continue;
                }
                // At the edges: one after the other, by code that is there once.
                float kept[256];
                #pragma unroll
                for (int r = 0; r < 4; ++r)
                    #pragma unroll
                    for (int t = 0; t < 4; ++t)
                        vstore16(sum[r][t], r * 4 + t, kept);
                for (int r = 0; r < min((index_t)4, y_rows - row); ++r)
                    for (int t = 0; t < min((index_t)4, y_columns - column); ++t) {
                        const index_t y0_at = y0_band + (row + r) * y0_row + (column + t) * y0_column
                            + channel * y0_channel;

                        if (lane_first == 0) {
                            const index_t y0_here = y0_at;
                            float16 y0 = vload16(r * 4 + t, kept);
                            typedef float16 typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 163 "kernel"
                            }
                            vstore16(y0, 0, y0_memory + y0_here);
                        } else {
                            float lanes[16];
                            vstore16(vload16(r * 4 + t, kept), 0, lanes);
                            for (int lane = lane_first; lane < 16; ++lane) {
                                const index_t y0_here = y0_at + lane * y0_channel;
                                float y0 = lanes[lane];
                                typedef float typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 176 "kernel"
                                }
                                y0_memory[y0_here] = y0;
                            }
                        }

                    }
            }
        }
    }
}
