typedef int index_t;

__kernel void conv2d_pack(
    __global const float *x_memory,
    __global float *packed,
    const int channels,
    const int kernel_columns,
    const int x_start,
    const int x_channel,
    const int x_row,
    const int x_column)
{
    const index_t channel = (index_t)get_global_id(0);
    const index_t tap = (index_t)get_global_id(1);
    if (channel >= channels)
        return;
    const index_t at = x_start + channel * x_channel + tap / kernel_columns * x_row + tap % kernel_columns * x_column;
    packed[tap * channels + channel] = (float)x_memory[at];
}
