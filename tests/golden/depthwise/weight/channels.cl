// The gradient of a depthwise convolution in its weight, of images whose channels lie side by side.
//
//     grad, one row     x, the rows below it        sums of some taps
//     +--+--+--+--+     +--+--+--+--+--+--+         +--+--+--+
//     | columns   | x   |  |  |  |  |  |  |   -->   |  |  |  |  in registers, vectors of channels
//     +--+--+--+--+     +--+--+--+--+--+--+         +--+--+--+
//
// A work-item sums up some rows of an image. Every vector of x below some columns of the gradient
// is read once, and multiplied by all of them that it meets. So that memory is read from front to
// back, the sums of some vectors of channels take turns; they stay in the nearest cache.
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_weight(
    __global const float *x_memory,
    __global const float *grad_memory,
    __global float *partial,
    const int x_start,
    const int x_image,
    const int x_channel,
    const int x_row,
    const int x_column,
    const int grad_start,
    const int grad_image,
    const int grad_channel,
    const int grad_row,
    const int grad_column,
    const int images,
    const int channels,
    const int x_rows,
    const int x_columns,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int bands,
    const int rows_a_split,
    const int vectors,
    const int vectors_a_item,
    const int vectors_a_block)
{
    const index_t image = get_group_id(2);
    const index_t row_first = (index_t)get_group_id(1) * rows_a_split;
    const index_t row_last = min(row_first + rows_a_split, y_rows);
    const index_t split = image * bands + (index_t)get_group_id(1);
    const index_t vector_first = (index_t)get_group_id(0) * vectors_a_item;
    const index_t vector_last = min(vector_first + vectors_a_item, vectors);
    __local float sums[4096];
    for (index_t block = vector_first; block < vector_last; block += vectors_a_block) {
        const int vectors_here = min(vectors_a_block, vector_last - block);
        for (int e = 0; e < vectors_here * 9; ++e)
            vstore16((float16)0, e, sums);
        for (index_t row = row_first; row < row_last; ++row)
        for (index_t column = 0; column < y_columns; column += 7)
        for (int vector = 0; vector < vectors_here; ++vector) {
            // The last vector ends with the last channel.
            const index_t channel = min((block + vector) * 16, channels - 16);
            const index_t x_plane = x_start + image * x_image + channel * x_channel;
            const index_t grad_line = grad_start + image * grad_image + channel * grad_channel + row * grad_row;
            const int left = column * 1 - columns_before;
            __local float *kept = sums + vector * 144;
            for (int tap_row = 0; tap_row < 3; tap_row += 3) {
                float16 sum[3][3];
                #pragma unroll
                for (int i = 0; i < 3; ++i)
                    #pragma unroll
                    for (int kw = 0; kw < 3; ++kw)
                        sum[i][kw] = vload16(i * 3 + kw, kept);
                if (left >= 0 && left + 9 <= x_columns && column + 7 <= y_columns) {
                    float16 factor[7];
                    #pragma unroll
                    for (int t = 0; t < 7; ++t) {
                        const index_t grad_at = grad_line + (column + t) * grad_column;
                        factor[t] = vload16(0, grad_memory + grad_at);
                    }
                    #pragma unroll
                    for (int i = 0; i < 3; ++i) {
                        const int from_row = row * 1 + tap_row + i - rows_before;
                        if ((uint)from_row >= (uint)x_rows)
                            continue;
                        const index_t x_line = x_plane + from_row * x_row + (column * 1 - columns_before) * x_column;
                        #pragma unroll
                        for (int j = 0; j < 9; ++j) {
                            const index_t x_at = x_line + j * x_column;
                            const float16 value = vload16(0, x_memory + x_at);
                            #pragma unroll
                            for (int t = 0; t < 7; ++t) {
                                const int kw = j - t * 1;
                                if (kw >= 0 && kw < 3)
                                    sum[i][kw] = value * factor[t] + sum[i][kw];
                            }
                        }
                    }

                } else if (column + 7 <= y_columns) {
                    float16 factor[7];
                    #pragma unroll
                    for (int t = 0; t < 7; ++t) {
                        const index_t grad_at = grad_line + (column + t) * grad_column;
                        factor[t] = vload16(0, grad_memory + grad_at);
                    }
                    #pragma unroll
                    for (int i = 0; i < 3; ++i) {
                        const int from_row = row * 1 + tap_row + i - rows_before;
                        if ((uint)from_row >= (uint)x_rows)
                            continue;
                        const index_t x_line = x_plane + from_row * x_row + (column * 1 - columns_before) * x_column;
                        #pragma unroll
                        for (int j = 0; j < 9; ++j) {
                            if ((uint)(column * 1 - columns_before + j) >= (uint)x_columns)
                                continue;
                            const index_t x_at = x_line + j * x_column;
                            const float16 value = vload16(0, x_memory + x_at);
                            #pragma unroll
                            for (int t = 0; t < 7; ++t) {
                                const int kw = j - t * 1;
                                if (kw >= 0 && kw < 3)
                                    sum[i][kw] = value * factor[t] + sum[i][kw];
                            }
                        }
                    }

                } else {
                    const index_t tile = column;
                    for (index_t column = tile; column < y_columns; ++column) {
                        float16 factor[1];
                        #pragma unroll
                        for (int t = 0; t < 1; ++t) {
                            const index_t grad_at = grad_line + (column + t) * grad_column;
                            factor[t] = vload16(0, grad_memory + grad_at);
                        }
                        #pragma unroll
                        for (int i = 0; i < 3; ++i) {
                            const int from_row = row * 1 + tap_row + i - rows_before;
                            if ((uint)from_row >= (uint)x_rows)
                                continue;
                            const index_t x_line = x_plane + from_row * x_row + (column * 1 - columns_before) * x_column;
                            #pragma unroll
                            for (int j = 0; j < 3; ++j) {
                                if ((uint)(column * 1 - columns_before + j) >= (uint)x_columns)
                                    continue;
                                const index_t x_at = x_line + j * x_column;
                                const float16 value = vload16(0, x_memory + x_at);
                                #pragma unroll
                                for (int t = 0; t < 1; ++t) {
                                    const int kw = j - t * 1;
                                    if (kw >= 0 && kw < 3)
                                        sum[i][kw] = value * factor[t] + sum[i][kw];
                                }
                            }
                        }

                    }
                }
                #pragma unroll
                for (int i = 0; i < 3; ++i)
                    #pragma unroll
                    for (int kw = 0; kw < 3; ++kw)
                        vstore16(sum[i][kw], i * 3 + kw, kept);
            }
        }
        for (int vector = 0; vector < vectors_here; ++vector) {
            const index_t channel = (block + vector) * 16;
            const index_t first = max(channel + 16 - channels, (index_t)0);  // lanes that another vector has
            for (int k = 0; k < 9; ++k) {
                const index_t at = (split * 9 + k) * channels + channel - first;
                __local const float *kept = sums + (vector * 9 + k) * 16;
                if (first == 0)
                    vstore16(vload16(0, kept), 0, partial + at);
                else
                    for (int lane = first; lane < 16; ++lane)
                        partial[at + lane] = kept[lane];
            }
        }
    }
}
