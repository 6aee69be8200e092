// The gradient of a depthwise convolution in its weight, of images whose columns lie side by side.
//
//     grad, one row        x, copied with zeros around it         sums of all taps
//     +------------+       +---------------------+
//     | a vector   | x     | one for every tap   |  -->   in registers, vectors of columns
//     +------------+       |                     |
//                          +---------------------+
// Some rows of a plane of x are copied to local memory, which is a cache here; with a stride of 2,
// even and odd columns apart, so that what neighbouring windows read lies side by side.
typedef int index_t;

// The first `left` elements at `at` and zeros behind them; memory that is not ours is not read.
__attribute__((always_inline)) static float16 first_of(__global const float *x_memory, index_t at, index_t size, int left)
{
    if (left >= 16)
        return vload16(0, x_memory + at);
    if (left <= 0)
        return 0;
    if (at + 16 <= size)
        return select((float16)0, vload16(0, x_memory + at), (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int16)left);
    float elements[16];
    for (int e = 0; e < 16; ++e)
        elements[e] = e < left ? (float)x_memory[at + e] : 0;
    return vload16(0, elements);
}

// The first `left` elements at `at` and zeros behind them; memory that is not ours is not read.
__attribute__((always_inline)) static float16 first_of_grad(__global const float *grad_memory, index_t at, index_t size, int left)
{
    if (left >= 16)
        return vload16(0, grad_memory + at);
    if (left <= 0)
        return 0;
    if (at + 16 <= size)
        return select((float16)0, vload16(0, grad_memory + at), (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int16)left);
    float elements[16];
    for (int e = 0; e < 16; ++e)
        elements[e] = e < left ? (float)grad_memory[at + e] : 0;
    return vload16(0, elements);
}

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
    const int multiplier,
    const int planes,
    const int planes_a_item,
    const int bands,
    const int rows_a_split,
    const int rows_a_band,
    const int x_size,
    const int grad_size,
    const int pitch,
    const int source_used,
    const int even_at,
    const int odd_at)
{
    __local float source[8192];
    const index_t plane_first = (index_t)get_group_id(0) * planes_a_item;
    const index_t plane_last = min(plane_first + planes_a_item, planes);
    const index_t row_first = (index_t)get_group_id(1) * rows_a_split;
    const index_t row_last = min(row_first + rows_a_split, y_rows);
    for (int e = 0; e < source_used; e += 16)
        vstore16((float16)0, 0, source + e);
    for (index_t plane = plane_first; plane < plane_last; ++plane) {
        const index_t image = plane / channels;
        const index_t channel = plane - image * channels;
        const index_t x_plane = x_start + image * x_image + channel / multiplier * x_channel;
        const index_t grad_plane = grad_start + image * grad_image + channel * grad_channel;
        float16 sum[3][3];
        #pragma unroll
        for (int kh = 0; kh < 3; ++kh)
            #pragma unroll
            for (int kw = 0; kw < 3; ++kw)
                sum[kh][kw] = 0;
        for (index_t first = row_first; first < row_last; first += rows_a_band) {
            const int rows_here = min(rows_a_band, row_last - first);
            const int source_rows = (rows_here - 1) * 1 + 3;
            const int x_first = first * 1 - rows_before;
            for (int s = 0; s < source_rows; ++s) {
                __local float *to = source + s * 1 * pitch;
                const int from_row = x_first + s;
                if ((uint)from_row >= (uint)x_rows) {
                    for (int e = 0; e < 1 * pitch; e += 16)
                        vstore16((float16)0, 0, to + e);
                    continue;
                }
                const index_t at = x_plane + from_row * x_row;
                for (int c = 0; c < x_columns; c += 16)
                    vstore16(first_of(x_memory, at + c, x_size, x_columns - c), 0, to + even_at + c);
            }

            for (index_t row = first; row < first + rows_here; ++row) {
                const index_t grad_line = grad_plane + row * grad_row;
                int c = 0;
                for (; c + 16 <= y_columns; c += 16) {
                    const index_t grad_at = grad_line + c;
                    const float16 factor = vload16(0, grad_memory + grad_at);
                    #pragma unroll
                    for (int kh = 0; kh < 3; ++kh)
                        #pragma unroll
                        for (int kw = 0; kw < 3; ++kw) {
                            const float16 value = vload16(0, source + (((row - first) * 1 + kh) * 1 + kw % 1) * pitch + kw / 1 + c);
                            sum[kh][kw] += factor * value;
                        }

                }
                if (c < y_columns) {
                    const int16 there = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) < (int)(y_columns - c);
                    const float16 factor = first_of_grad(grad_memory, grad_line + c, grad_size, y_columns - c);
                    #pragma unroll
                    for (int kh = 0; kh < 3; ++kh)
                        #pragma unroll
                        for (int kw = 0; kw < 3; ++kw) {
                            const float16 value = vload16(0, source + (((row - first) * 1 + kh) * 1 + kw % 1) * pitch + kw / 1 + c);
                            sum[kh][kw] += factor * select((float16)0, value, there);
                        }

                }
            }
        }
        const index_t split = image * bands + (index_t)get_group_id(1);
        #pragma unroll
        for (int kh = 0; kh < 3; ++kh)
            #pragma unroll
            for (int kw = 0; kw < 3; ++kw) {
                const float8 sum_8 = sum[kh][kw].lo + sum[kh][kw].hi;
                const float4 sum_4 = sum_8.lo + sum_8.hi;
                const float2 sum_2 = sum_4.lo + sum_4.hi;
                const float sum_1 = sum_2.lo + sum_2.hi;
                partial[(split * 9 + kh * 3 + kw) * channels + channel] = sum_1;
            }
    }
}
