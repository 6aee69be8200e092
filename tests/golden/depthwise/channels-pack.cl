// Packs the weight of a depthwise convolution as vectors of channels read it.
//
//     w: channel 0: tap 0 1 2 ... | channel 1: ...   -->   packed: tap 0: channel 0 1 2 ... | tap 1: ...
typedef int index_t;

__kernel void conv2d_pack(
    __global const float *x_memory,
    __global float *packed,
    const int channels,
    const int kernel_rows,
    const int kernel_columns,
    const int x_start,
    const int x_channel,
    const int x_row,
    const int x_column)
{
    const index_t channel = (index_t)get_global_id(0);
    if (channel >= channels)
        return;
    for (int row = 0; row < kernel_rows; ++row)
        for (int column = 0; column < kernel_columns; ++column) {
            const index_t at = x_start + channel * x_channel + row * x_row + column * x_column;
            packed[(row * kernel_columns + column) * channels + channel] = (float)x_memory[at];
        }
}
