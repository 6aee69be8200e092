// The gradient of a depthwise convolution in its weight, of arrays of any strides.
//
//     grad, one channel       x                        sums
//     +-------------+         +---------------+        +--+--+--+
//     |  +-------+  |         |  +---------+  |        |  |  |  |     A work-item sums up some rows of
//     |  | tile  |  |    x    |  |  below  |  |  -->   +--+--+--+     taps in registers, tile by tile:
//     |  +-------+  |         |  +---------+  |        |  taps  |     every element of x below a tile is
//     +-------------+         +---------------+        +--+--+--+     read once, and meets all of the tile.
//
// Where channels lie side by side, neighbouring work-items take neighbouring channels. Else those of
// a work-group take neighbouring tiles of the same rows, and add up their sums at the end.
typedef int index_t;

__kernel void conv2d_weight(
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
    const int multiplier,
    const int taps,
    const int bands,
    const int tile_rows,
    const int tile_columns,
    const int tile_rows_a_split)
{
    const int lane = get_local_id(0);
    const index_t channel = (index_t)get_global_id(1) % channels;
    const index_t first_tap = (index_t)get_global_id(1) / channels * 3;
    const index_t split = (index_t)get_global_id(2);
    const index_t image = split / bands;
    const index_t tile_row_first = split % bands * tile_rows_a_split;
    const index_t tile_row_last = min(tile_row_first + tile_rows_a_split, tile_rows);
    const index_t x_plane = x_start + image * x_image + channel / multiplier * x_channel;
    const index_t grad_plane = grad_start + image * grad_image + channel * grad_channel;
    float sum[3][3];
    #pragma unroll
    for (int kh = 0; kh < 3; ++kh)
        #pragma unroll
        for (int kw = 0; kw < 3; ++kw)
            sum[kh][kw] = 0;

    for (index_t tile_row = tile_row_first; tile_row < tile_row_last; ++tile_row)
        for (index_t tile_column = lane; tile_column < tile_columns; tile_column += 16) {
            const index_t row = tile_row * 8, column = tile_column * 1;
            const index_t x_row_first = row * 1 + first_tap - rows_before;
            const index_t x_column_first = column * 1 - columns_before;
            const bool inside = row + 7 < y_rows && column + 0 < y_columns
                && x_row_first >= 0 && x_row_first + 9 < x_rows
                && x_column_first >= 0 && x_column_first + 2 < x_columns;
            if (inside) {
                float factor[8][1];
                #pragma unroll
                for (int r = 0; r < 8; ++r)
                    #pragma unroll
                    for (int t = 0; t < 1; ++t) {
                        const index_t grad_at = grad_plane + (row + r) * grad_row + (column + t) * grad_column;
                        factor[r][t] = (float)grad_memory[grad_at];
                    }
                #pragma unroll
                for (int i = 0; i < 10; ++i) {
                    const index_t from_row = x_row_first + i;
                    #pragma unroll
                    for (int j = 0; j < 3; ++j) {
                        const index_t from_column = x_column_first + j;
                        const float value = (float)x_memory[x_plane + from_row * x_row + from_column * x_column];
                        #pragma unroll
                        for (int r = 0; r < 8; ++r)
                            #pragma unroll
                            for (int t = 0; t < 1; ++t) {
                                const int kh = i - r * 1, kw = j - t * 1;
                                if (kh >= 0 && kh < 3 && kw >= 0 && kw < 3)
                                    sum[kh][kw] = value * factor[r][t] + sum[kh][kw];
                            }
                    }
                }

            } else {
                float factor[8][1];
                bool there[8][1];
                #pragma unroll
                for (int r = 0; r < 8; ++r)
                    #pragma unroll
                    for (int t = 0; t < 1; ++t) {
                        const index_t grad_at = grad_plane + (row + r) * grad_row + (column + t) * grad_column;
                        there[r][t] = row + r < y_rows && column + t < y_columns;
                        factor[r][t] = 0;
                        if (there[r][t])
                            factor[r][t] = (float)grad_memory[grad_at];
                    }
                #pragma unroll
                for (int i = 0; i < 10; ++i) {
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
                            for (int t = 0; t < 1; ++t) {
                                const int kh = i - r * 1, kw = j - t * 1;
                                if (kh >= 0 && kh < 3 && kw >= 0 && kw < 3 && there[r][t])
                                    sum[kh][kw] = value * factor[r][t] + sum[kh][kw];
                            }
                    }
                }

            }
        }
    const index_t partial_at = (split * taps + first_tap * 3) * channels + channel;
    // A work-item adds up a tap's sums of all of them.
    __local float sums[9][17];
    #pragma unroll
    for (int kh = 0; kh < 3; ++kh)
        #pragma unroll
        for (int kw = 0; kw < 3; ++kw)
            sums[kh * 3 + kw][lane] = sum[kh][kw];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = lane; k < 9; k += 16) {
        float total = 0;
        for (int l = 0; l < 16; ++l)
            total += sums[k][l];
        partial[partial_at + k * channels] = total;
    }
}
