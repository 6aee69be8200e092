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

    for (index_t row = band_first; row < band_last; row += 7) {
        for (index_t column = 0; column < y_columns; column += 2) {
            const int x_row_first = row * 1 - rows_before, x_column_first = column * 1 - columns_before;
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
                float16 sum[7][2];
                #pragma unroll
                for (int r = 0; r < 7; ++r)
                    #pragma unroll
                    for (int t = 0; t < 2; ++t)
                        sum[r][t] = 0;

                float16 tap[3][3];
                #pragma unroll
                for (int kh = 0; kh < 3; ++kh)
                    #pragma unroll
                    for (int kw = 0; kw < 3; ++kw)
                        tap[kh][kw] = vload16(0, packed + (kh * 3 + kw) * channels + channel);
                if (inside) {
                    #pragma unroll
                    for (int i = 0; i < 9; ++i) {
                        if ((uint)(x_row_first + i) >= (uint)x_rows)
                            continue;
                        const index_t x_line = x_plane + (x_row_first + i) * x_row;
                        #pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            const index_t x_at = x_line + (x_column_first + j) * x_column;
                            const float16 value = vload16(0, x_memory + x_at);
                            #pragma unroll
                            for (int r = 0; r < 7; ++r)
                                #pragma unroll
                                for (int t = 0; t < 2; ++t) {
                                    const int kh = i - r * 1, kw = j - t * 1;
                                    if (kh >= 0 && kh < 3 && kw >= 0 && kw < 3)
                                        sum[r][t] = value * tap[kh][kw] + sum[r][t];
                                }
                        }
                    }

                } else {
                    #pragma unroll
                    for (int i = 0; i < 9; ++i) {
                        if ((uint)(x_row_first + i) >= (uint)x_rows)
                            continue;
                        const index_t x_line = x_plane + (x_row_first + i) * x_row;
                        #pragma unroll
                        for (int j = 0; j < 4; ++j) {
                            const index_t x_at = x_line + x_places[j];
                            const float16 value = select((float16)0, vload16(0, x_memory + x_at), (int16)x_inside[j]);
                            #pragma unroll
                            for (int r = 0; r < 7; ++r)
                                #pragma unroll
                                for (int t = 0; t < 2; ++t) {
                                    const int kh = i - r * 1, kw = j - t * 1;
                                    if (kh >= 0 && kh < 3 && kw >= 0 && kw < 3)
                                        sum[r][t] = value * tap[kh][kw] + sum[r][t];
                                }
                        }
                    }

                }

                if (lane_first == 0 && row + 7 <= y_rows && column + 2 <= y_columns) {
                    #pragma unroll
                    for (int r = 0; r < 7; ++r)
                        #pragma unroll
                        for (int t = 0; t < 2; ++t) {
                            const index_t y0_at = y0_band + (row + r) * y0_row + (column + t) * y0_column
                                + channel * y0_channel;

                            const index_t y0_here = y0_at;
                            float16 y0 = sum[r][t];
                            typedef float16 typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 136 "kernel"
                            }
                            vstore16(y0, 0, y0_memory + y0_here);
                        }
                    continue;
                }
                // At the edges: one after the other, by code that is there once.
                float kept[224];
                #pragma unroll
                for (int r = 0; r < 7; ++r)
                    #pragma unroll
                    for (int t = 0; t < 2; ++t)
                        vstore16(sum[r][t], r * 2 + t, kept);
                for (int r = 0; r < min((index_t)7, y_rows - row); ++r)
                    for (int t = 0; t < min((index_t)2, y_columns - column); ++t) {
                        const index_t y0_at = y0_band + (row + r) * y0_row + (column + t) * y0_column
                            + channel * y0_channel;

                        if (lane_first == 0) {
                            const index_t y0_here = y0_at;
                            float16 y0 = vload16(r * 2 + t, kept);
                            typedef float16 typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 161 "kernel"
                            }
                            vstore16(y0, 0, y0_memory + y0_here);
                        } else {
                            float lanes[16];
                            vstore16(vload16(r * 2 + t, kept), 0, lanes);
                            for (int lane = lane_first; lane < 16; ++lane) {
                                const index_t y0_here = y0_at + lane * y0_channel;
                                float y0 = lanes[lane];
                                typedef float typeof_y0;
                                {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 174 "kernel"
                                }
                                y0_memory[y0_here] = y0;
                            }
                        }

                    }
            }
        }
    }
}
