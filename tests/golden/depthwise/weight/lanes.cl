// The gradient of a depthwise convolution in its weight, of arrays of any strides.
//
// Where channels lie side by side, a work-item sums up one tap of one channel over some rows of an
// image, and its neighbours take the neighbouring channels. Else a work-group does so, whose
// work-items take neighbouring columns and then add up their sums.
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
    const int rows_a_split,
    const int kernel_columns,
    const int row_stride,
    const int column_stride,
    const int row_dilation,
    const int column_dilation)
{
    const index_t channel = (index_t)get_global_id(1) % channels;
    const index_t tap = (index_t)get_global_id(1) / channels;
    const index_t split = (index_t)get_global_id(2);
    const index_t image = split / bands;
    const index_t row_first = split % bands * rows_a_split;
    const index_t row_last = min(row_first + rows_a_split, y_rows);
    const index_t x_at = x_start + image * x_image + channel / multiplier * x_channel;
    const index_t grad_at = grad_start + image * grad_image + channel * grad_channel;
    const index_t down = tap / kernel_columns * row_dilation - rows_before;
    const index_t right = tap % kernel_columns * column_dilation - columns_before;
    float sum = 0;
    for (index_t row = row_first; row < row_last; ++row) {
        const index_t from_row = row * row_stride + down;
        if (from_row < 0 || from_row >= x_rows)
            continue;
        for (index_t column = get_local_id(0); column < y_columns; column += 4) {
            const index_t from_column = column * column_stride + right;
            if (from_column >= 0 && from_column < x_columns)
                sum += ((float)grad_memory[grad_at + row * grad_row + column * grad_column])
                    * ((float)x_memory[x_at + from_row * x_row + from_column * x_column]);
        }
    }
    __local float sums[4];
    const int lane = get_local_id(0);
    sums[lane] = sum;
    for (int half_ = 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < half_)
            sums[lane] += sums[lane + half_];
    }
    if (lane == 0)
        partial[(split * taps + tap) * channels + channel] = sums[0];
}
