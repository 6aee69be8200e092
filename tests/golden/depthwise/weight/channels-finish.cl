// Adds up, in order, what the splits of a depthwise convolution's gradient in its weight gave.
//
//     partial: split 0: tap 0: channel 0 1 2 ... | tap 1: ...      split 1: ...
typedef int index_t;

__kernel void conv2d_weight_finish(
    __global const float *partial,
    __global float *y0_memory,
    const int splits,
    const int channels,
    const int taps,
    const int kernel_columns,
    const int y0_start,
    const int y0_channel,
    const int y0_row,
    const int y0_column)
{
    const index_t channel = (index_t)get_global_id(0);
    const index_t tap = (index_t)get_global_id(1);
    if (channel >= channels)
        return;
    float y0 = 0;
    for (index_t split = 0; split < splits; ++split)
        y0 += partial[(split * taps + tap) * channels + channel];
    const index_t y0_at = y0_start + channel * y0_channel + tap / kernel_columns * y0_row + tap % kernel_columns * y0_column;
    y0_memory[y0_at] = y0;
}
