// An inverted residual: depthwise, 1 x 1, with activations after the first.
//
//     x                        ring                between            y
//     +---------------+        +-------------+     +-------------+    +---------+
//     | some rows     | expand | rows of the |     | rows of the |    |         |
//     |  channels     |  --->  | middle, and | --> | middle      | -->|         |
//     +---------------+        | zeros       |     +-------------+    +---------+
//                              +-------------+
//
// A work-item walks down a band of rows of an image. Of the middle it keeps in local memory, which is
// a cache here, the rows that the depthwise convolution still needs, and its next results. A pixel of
// the middle is a run of channels, whatever the arrays look like.
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void inverted_residual(
    __global const float *x_memory,
    __global const float *taps_packed,
    __global const float *project_packed,
    __global float *y0_memory,
    __global const float *bias_memory,
    const int y0_start,
    const int y0_channel,
    const int y0_image,
    const int y0_row,
    const int y0_column,
    const int bias_start,
    const int bias_channel,
    const int a_start,
    const int a_image,
    const int a_channel,
    const int a_row,
    const int a_column,
    const int channels,
    const int middle,
    const int middle_padded,
    const int outputs,
    const int expand_strips,
    const int project_strips,
    const int x_rows,
    const int x_columns,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int rows_reach,
    const int rows_a_item,
    const int rows_a_step,
    const int pitch,
    const int ring_rows,
    const int ring_row,
    const int row_stride,
    const int kernel_rows,
    const int kernel_columns,
    const int column_stride,
    const int row_dilation,
    const int column_dilation)
{
    __local float near[65280];
    // Where pixels lie: in the ring, and in the result.
    __local int ring_places[128];
    __local index_t y0_places[128];
    __local float *biases_expand = near, *biases_taps = near + middle_padded;
    __local float *ring = near + 2 * middle_padded, *between = ring + ring_rows * ring_row;
    const index_t image = get_group_id(1);
    const int band_first = get_group_id(0) * rows_a_item;
    const int band_last = min(band_first + (int)rows_a_item, (int)y_rows);
    for (int c = 0; c < middle_padded; ++c) {
        biases_expand[c] = 0;
        biases_taps[c] = 0;
    }
    // What windows find beside the image stays 0.
    for (int e = 0; e < ring_rows * ring_row; e += 16)
        vstore16((float16)0, 0, ring + e);

    int known = 0;  // the middle's rows up to this one are, or were, in the ring
    for (int first_row = band_first; first_row < band_last; first_row += rows_a_step) {
        const int rows_here = min((int)rows_a_step, band_last - first_row);
        const int from_row = first_row * row_stride - rows_before;
        const int wanted = min((int)x_rows, from_row + (rows_here - 1) * (int)row_stride + (int)rows_reach);
        known = max(known, from_row);
        if (known < wanted) {
            const int pixels = (wanted - known) * x_columns;
            int at = 0;
            for (int r = known; r < wanted; ++r)
                for (int c = 0; c < x_columns; ++c)
                    ring_places[at++] = r % (int)ring_rows * ring_row + (columns_before + c) * pitch;
            __global const float *a_memory = x_memory + a_start + image * a_image;
            for (int e = 0; e < pixels; ++e) {
                const index_t place = (known + e / x_columns) * a_row + e % x_columns * a_column;
                __local float *to = ring + ring_places[e];
                for (int c = 0; c < middle; c += 16) {
                    // The last vector ends with the last channel.
                    const int channel = min(c, (int)middle - 16);
                    vstore16(vload16(0, a_memory + place + channel), 0, to + channel);
                }
            }
            known = wanted;
        }

        for (int row = 0; row < rows_here; row += 1)
            for (int next_column = 0; next_column < y_columns; next_column += 7) {
                const int column = min(next_column, (int)y_columns - 7);
                for (int next_channel = 0; next_channel < middle; next_channel += 16) {
                    const int channel = min(next_channel, (int)middle - 16);
                    float16 sum[1][7];
                    #pragma unroll
                    for (int r = 0; r < 1; ++r)
                        #pragma unroll
                        for (int t = 0; t < 7; ++t)
                            sum[r][t] = vload16(0, biases_taps + channel);
                    for (int kh = 0; kh < kernel_rows; ++kh) {
                        const int x_row = from_row + row * row_stride + kh * row_dilation;
                        if (x_row < 0 || x_row >= wanted)
                            continue;
                        __local const float *line = ring + x_row % (int)ring_rows * ring_row
                            + column * column_stride * pitch + channel;
                        for (int kw = 0; kw < kernel_columns; ++kw) {
                            const float16 tap = vload16(0, taps_packed + (kh * kernel_columns + kw) * middle + channel);
                            #pragma unroll
                            for (int t = 0; t < 7; ++t)
                                sum[0][t] = vload16(0, line + (kw * column_dilation + t * column_stride) * pitch) * tap + sum[0][t];
                        }
                    }
                    #pragma unroll
                    for (int r = 0; r < 1; ++r)
                        #pragma unroll
                        for (int t = 0; t < 7; ++t) {
                            __local float *to = between + ((row + r) * y_columns + column + t) * pitch + channel;
                            {
                                float16 y0 = sum[r][t];

                                vstore16(y0, 0, to);
                            }

                        }
                }
            }

        const int pixels = rows_here * y_columns;
        for (int e = 0; e < pixels; ++e)
            y0_places[e] = y0_start + image * y0_image
                + (first_row + e / y_columns) * y0_row + e % y_columns * y0_column;
        for (int strip = 0; strip < project_strips; ++strip)
            for (int tile = 0; tile < pixels; tile += 9) {
                // The last tile ends with the last pixel; what it shares is stored once.
                const int first = min(tile, pixels - 9);
                const int shared = tile - first;
                __local const float *a = between + first * pitch;
                __global const float *b = project_packed + (index_t)strip * middle * 16;
                float16 sum[9][1];
                #pragma unroll
                for (int j = 0; j < 9; ++j)
                    #pragma unroll
                    for (int v = 0; v < 1; ++v)
                        sum[j][v] = 0;
                int left = middle;
                for (; left >= 4; left -= 4) {
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        float16 row[1];
                        #pragma unroll
                        for (int v = 0; v < 1; ++v)
                            row[v] = vload16(u * 1 + v, b);
                        #pragma unroll
                        for (int j = 0; j < 9; ++j) {
                            const float16 factor = a[j * pitch + u];
                            #pragma unroll
                            for (int v = 0; v < 1; ++v)
                                sum[j][v] = factor * row[v] + sum[j][v];
                        }
                    }
                    b += 64;

                    a += 4;
                }
                for (; left > 0; --left) {
                    #pragma unroll
                    for (int u = 0; u < 1; ++u) {
                        float16 row[1];
                        #pragma unroll
                        for (int v = 0; v < 1; ++v)
                            row[v] = vload16(u * 1 + v, b);
                        #pragma unroll
                        for (int j = 0; j < 9; ++j) {
                            const float16 factor = a[j * pitch + u];
                            #pragma unroll
                            for (int v = 0; v < 1; ++v)
                                sum[j][v] = factor * row[v] + sum[j][v];
                        }
                    }
                    b += 16;

                    a += 1;
                }
                const index_t column = strip * 16;
                const int rows_left = 9;
                const int columns_left = min((index_t)16, outputs - column);
                if (columns_left >= 16) {
                    #pragma unroll
                    for (int j = 0; j < 9; ++j)
                        if (j >= shared && j < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 1; ++v) {
                                const int c = v * 16;
                                float16 y0 = sum[j][v];
                                typedef float16 typeof_bias;
                                const typeof_bias bias = vload16(0, bias_memory + bias_start + (column + c) * bias_channel);
                                y0 += bias;
                                vstore16(y0, 0, y0_memory + y0_places[first + j] + (column + c) * y0_channel);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: element by element.
                float elements[144];
                #pragma unroll
                for (int j = 0; j < 9; ++j)
                    #pragma unroll
                    for (int v = 0; v < 1; ++v)
                        vstore16(sum[j][v], j * 1 + v, elements);
                for (int j = shared; j < rows_left; ++j) {
                    int c = 0;
                    for (; c + 16 <= columns_left; c += 16) {
                        float16 y0 = vload16(0, elements + j * 16 + c);
                        typedef float16 typeof_bias;
                        const typeof_bias bias = vload16(0, bias_memory + bias_start + (column + c) * bias_channel);
                        y0 += bias;
                        vstore16(y0, 0, y0_memory + y0_places[first + j] + (column + c) * y0_channel);
                    }
                    for (; c < columns_left; ++c) {
                        float y0 = elements[j * 16 + c];
                        typedef float typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_start + (column + c) * bias_channel];
                        y0 += bias;
                        y0_memory[y0_places[first + j] + (column + c) * y0_channel] = y0;
                    }
                }

            }
    }
}
