// A depthwise convolution, or its adjoint, of images whose columns lie side by side.
//
//     x, one plane        source                 wide                y
//     +-----------+       +-----------------+    +-------------+     +-----------+
//     | some rows | copy  | 0 | some rows |0| -> | sums, a     |  -> | some rows |
//     +-----------+       +-----------------+    | vector each |     +-----------+
//                                                +-------------+
// Some rows of a plane are copied to local memory, which is a cache here, with zeros around them:
// no window leaves them, so that all sums are computed by the same code, in vectors of columns that
// neither borders nor the ends of rows stop. With a stride of 2, even and odd columns are copied
// apart, so that what neighbouring windows read still lies side by side.
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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d(
    __global const float *x_memory,
    __global const float *w_memory,
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
    const int w_start,
    const int w_channel,
    const int w_row,
    const int w_column,
    const int planes,
    const int planes_a_item,
    const int channels,
    const int multiplier,
    const int x_size,
    const int x_rows,
    const int x_columns,
    const int y_rows,
    const int y_columns,
    const int rows_before,
    const int columns_before,
    const int columns_last,
    const int rows_first,
    const int rows_last,
    const int rows_a_item,
    const int rows_a_band,
    const int rows_join,
    const int pitch,
    const int wide_pitch,
    const int source_used,
    const int even_at,
    const int odd_at)
{
    // One array: where a pointer may point to either of two, a compiler took the wrong one.
    __local float scratch[8064];
    __local float *source = scratch, *wide = scratch + 4096, *compact = scratch + 6080;
    const index_t plane_first = (index_t)get_group_id(0) * planes_a_item;
    const index_t plane_last = min(plane_first + planes_a_item, planes);
    const index_t item_first = rows_first + (index_t)get_group_id(1) * rows_a_item;
    const index_t item_last = min(item_first + rows_a_item, rows_last);
    for (int e = 0; e < 4096 && e < source_used; e += 16)
        vstore16((float16)0, 0, source + e);

    for (index_t plane = plane_first; plane < plane_last; ++plane) {
        const index_t image = plane / channels;
        const index_t channel = plane - image * channels;
        for (index_t row = item_first; row < item_last; row += rows_a_band) {
            const int rows_here = min(rows_a_band, item_last - row);
            const index_t w_channel_at = w_start + channel * w_channel;
            const index_t x_plane = x_start + image * x_image + channel / multiplier * x_channel;
            const int source_rows = (rows_here - 1) * 2 + 3;
            const int x_first = row * 2 - rows_before;
            for (int s = 0; s < source_rows; ++s) {
                __local float *to = source + s * 2 * pitch;
                const int from_row = x_first + s;
                if ((uint)from_row >= (uint)x_rows) {
                    for (int e = 0; e < 2 * pitch; e += 16)
                        vstore16((float16)0, 0, to + e);
                    continue;
                }
                const index_t at = x_plane + from_row * x_row;
                for (int c = 0; c < x_columns; c += 32) {
                    const float16 a = first_of(x_memory, at + c, x_size, x_columns - c);
                    const float16 b = first_of(x_memory, at + c + 16, x_size, x_columns - c - 16);
                    vstore16((float16)(a.even, b.even), 0, to + even_at + c / 2);
                    vstore16((float16)(a.odd, b.odd), 0, to + odd_at + c / 2);
                }
            }

            float tap[9];
            #pragma unroll
            for (int k = 0; k < 9; ++k)
                tap[k] = (float)w_memory[w_channel_at + k / 3 * w_row + k % 3 * w_column];
            for (int r = 0; r < rows_here; r += 2)
                for (int v = 0; v < y_columns; v += 16) {
                    float16 sum[2];
                    #pragma unroll
                    for (int t = 0; t < 2; ++t)
                        sum[t] = 0;
                    #pragma unroll
                    for (int i = 0; i < 5; ++i)
                        #pragma unroll
                        for (int kw = 0; kw < 3; ++kw) {
                            const float16 value = vload16(0, source + ((r * 2 + i) * 2 + kw % 2) * pitch + kw / 2 + v);
                            #pragma unroll
                            for (int t = 0; t < 2; ++t) {
                                const int kh = i - t * 2;
                                if (kh >= 0 && kh < 3)
                                    sum[t] += value * tap[kh * 3 + kw];
                            }
                        }
                    #pragma unroll
                    for (int t = 0; t < 2; ++t)
                        vstore16(sum[t], 0, wide + (r + t) * wide_pitch + v);
                }

            const index_t y_first = row;
            const index_t y_last = row + rows_here;
            __local const float *sums = wide;

            if (wide_pitch != y_columns) {
                // Close the gaps between rows; what a vector writes too much, the next row overwrites.
                for (int r = 0; r < y_last - y_first; ++r)
                    for (int v = 0; v < y_columns; v += 16)
                        vstore16(vload16(0, sums + r * wide_pitch + v), 0, compact + r * y_columns + v);
                sums = compact;
            }
            // Rows that follow each other everywhere are one run.
            const int rows_a_run = rows_join ? y_last - y_first : 1;
            for (index_t y_row = y_first; y_row < y_last; y_row += rows_a_run) {
                const int run = rows_a_run * y_columns;
                const index_t y0_run = y0_start + image * y0_image + channel * y0_channel
                    + y_row * y0_row;
                int e = 0;
                for (; e + 16 <= run; e += 16) {
                    const index_t y0_at = y0_run + e * y0_column;
                    {
                        const index_t y0_here = y0_at;
                        float16 y0 = vload16(0, sums + e);
                        typedef float16 typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 161 "kernel"
                        }
                        vstore16(y0, 0, y0_memory + y0_here);
                    }

                }
                if (e < run) {
                    const int there = run - e;
                    const index_t y0_at = y0_run + e * y0_column;
                    if (there == 16) {
                        const index_t y0_here = y0_at;
                        float16 y0 = vload16(0, sums + e);
                        typedef float16 typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 177 "kernel"
                        }
                        vstore16(y0, 0, y0_memory + y0_here);
                    } else {
                        float lanes[16];
                        vstore16(vload16(0, sums + e), 0, lanes);
                        for (int lane = 0; lane < there; ++lane) {
                            const index_t y0_here = y0_at + lane * y0_column;
                            float y0 = lanes[lane];
                            typedef float typeof_y0;
                            {
#line 1 "snippet:epilogue"
y0 *= 0.5f;
#line 190 "kernel"
                            }
                            y0_memory[y0_here] = y0;
                        }
                    }

                }
                sums += run;
            }
        }
    }
}
