typedef int index_t;

// A result as a sum of products, which may be finite where what transforms add up is not.
__attribute__((noinline)) static float sum_of_products(
    __global const float *x_memory, index_t x_at, index_t top, index_t left, index_t x_rows, index_t x_columns,
    index_t x_row, index_t x_column, index_t x_step, __global const float *w_memory, index_t w_at, index_t w_rows,
    index_t w_columns, index_t w_row, index_t w_column, index_t w_step, index_t steps)
{
    const index_t row_first = max(-top, (index_t)0), row_last = min(w_rows, x_rows - top);
    const index_t column_first = max(-left, (index_t)0), column_last = min(w_columns, x_columns - left);
    float sum = 0;
    // Once there is no number there never is.
    for (index_t step = 0; step < steps && !isnan(sum); ++step) {
        float plane = 0;
        for (index_t i = row_first; i < row_last && !isnan(plane); ++i) {
            float line = 0;
            for (index_t k = column_first; k < column_last; ++k)
                line += (float)x_memory[x_at + step * x_step + (top + i) * x_row + (left + k) * x_column] * (float)w_memory[w_at + step * w_step + i * w_row + k * w_column];
            plane += line;
        }
        sum += plane;
    }
    return sum;
}

// Places of what is there are never negative, and an unsigned number is a shorter way to an address.
typedef uint place_t;
// Winograd's F(2 x 2, 3 x 3): 16 products a tile instead of 36.
//
//    x: 4 x 4 pixels               in local memory, 8 channels at a time
//   +---------+   down, then along
//   | +-----+ |  ----------------->  V[channel][e]: 32 tiles,  U[channel][e]: 32 outputs
//   | |y: 2x2| |                                            |
//   | +-----+ |  <-----------------  products of every element e: sums in registers
//   +---------+   back, 16 outputs at a time, through local memory
//
// A work-group of 256 has 4 x 4 work-items for each of 16 elements; each of them sums up
// 8 tiles x 8 outputs.
// What is read next is not read ahead: registers that hold no pixels have room for a second group.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void conv2d_winograd(
    __global const float *x_memory,
    __global const float *w_memory,
    __global const float *packed,
    __global float *y0_memory,
    __global const float *bias_memory,
    __global const float *x0_memory,
    const int x_start,
    const int x_group,
    const int x_image,
    const int x_row,
    const int x_column,
    const int x_channel,
    const int x_rows,
    const int x_columns,
    const int rows_before,
    const int columns_before,
    const int channels,
    const int outputs,
    const int strips,
    const int blocks,
    const int tiles,
    const int tile_lines,
    const int tile_columns,
    const int y_rows,
    const int y_columns,
    const int y0_start,
    const int y0_group,
    const int y0_output,
    const int y0_0,
    const int y0_1,
    const int y0_2,
    const int bias_start,
    const int bias_group,
    const int bias_output,
    const int x0_start,
    const int x0_group,
    const int x0_output,
    const int x0_0,
    const int x0_1,
    const int x0_2,
    const int w_start,
    const int w_row,
    const int w_column,
    const int w_channel,
    const int w_group,
    const int w_output,
    const int w_rows,
    const int w_columns)
{
    __local float4 memory[2048];
    __local float4 *U = memory + 1024;
    const int item = get_local_id(0);
    // Neighbouring groups share tiles.
    index_t rest = get_group_id(0);
    const index_t strip = rest % strips;
    rest /= strips;
    const index_t tile_first = rest % blocks * 32;
    const index_t group = rest / blocks;

    // The tile and the channel that are transformed here; past the end the last ones, of which
    // nothing is stored.
    const int k_own = item % 8, t_own = item / 8;
    const index_t tile_own = min(tile_first + t_own, tiles - 1);
    const index_t above_own = tile_own / tile_columns;
    const int top = (int)(above_own % tile_lines) * 2 - rows_before;
    const int left = (int)(tile_own - above_own * tile_columns) * 2 - columns_before;
    const index_t x_own = x_start + group * x_group + above_own / tile_lines * x_image + top * x_row + left * x_column;
    const bool row_0 = (uint)(top + 0) < (uint)x_rows;
    const bool row_1 = (uint)(top + 1) < (uint)x_rows;
    const bool row_2 = (uint)(top + 2) < (uint)x_rows;
    const bool row_3 = (uint)(top + 3) < (uint)x_rows;
    const bool column_0 = (uint)(left + 0) < (uint)x_columns;
    const bool column_1 = (uint)(left + 1) < (uint)x_columns;
    const bool column_2 = (uint)(left + 2) < (uint)x_columns;
    const bool column_3 = (uint)(left + 3) < (uint)x_columns;
    const bool whole = row_0 && row_3 && column_0 && column_3;
    place_t weights = (group * strips + strip) * ((channels + 7) / 8) * 1024 + item;
    float4 sum[8][2];
    #pragma unroll
    for (int j = 0; j < 8; ++j)
        #pragma unroll
        for (int v = 0; v < 2; ++v)
            sum[j][v] = 0;
    const int e = item / 16, item_y = item / 4 % 4, item_x = item % 4;
    for (index_t from = 0; from < channels; from += 8) {
        #pragma unroll
        for (int n = 0; n < 4; ++n)
            U[n * 256 + item] = ((__global const float4 *)packed)[weights + n * 256];
        weights += 1024;
        {
            // Behind the last channel weights are 0.
            const index_t x_k = x_own + min(from + k_own, channels - 1) * x_channel;
            // Outside of the image an element that is there is read, and 0 taken.
            float pixels[16];
            pixels[0] = (float)x_memory[(place_t)(row_0 && column_0 ? x_k : 0)];
            pixels[1] = (float)x_memory[(place_t)(row_0 && column_1 ? x_k + 1 * x_column : 0)];
            pixels[2] = (float)x_memory[(place_t)(row_0 && column_2 ? x_k + 2 * x_column : 0)];
            pixels[3] = (float)x_memory[(place_t)(row_0 && column_3 ? x_k + 3 * x_column : 0)];
            pixels[4] = (float)x_memory[(place_t)(row_1 && column_0 ? x_k + 1 * x_row : 0)];
            pixels[5] = (float)x_memory[(place_t)(row_1 && column_1 ? x_k + 1 * x_row + 1 * x_column : 0)];
            pixels[6] = (float)x_memory[(place_t)(row_1 && column_2 ? x_k + 1 * x_row + 2 * x_column : 0)];
            pixels[7] = (float)x_memory[(place_t)(row_1 && column_3 ? x_k + 1 * x_row + 3 * x_column : 0)];
            pixels[8] = (float)x_memory[(place_t)(row_2 && column_0 ? x_k + 2 * x_row : 0)];
            pixels[9] = (float)x_memory[(place_t)(row_2 && column_1 ? x_k + 2 * x_row + 1 * x_column : 0)];
            pixels[10] = (float)x_memory[(place_t)(row_2 && column_2 ? x_k + 2 * x_row + 2 * x_column : 0)];
            pixels[11] = (float)x_memory[(place_t)(row_2 && column_3 ? x_k + 2 * x_row + 3 * x_column : 0)];
            pixels[12] = (float)x_memory[(place_t)(row_3 && column_0 ? x_k + 3 * x_row : 0)];
            pixels[13] = (float)x_memory[(place_t)(row_3 && column_1 ? x_k + 3 * x_row + 1 * x_column : 0)];
            pixels[14] = (float)x_memory[(place_t)(row_3 && column_2 ? x_k + 3 * x_row + 2 * x_column : 0)];
            pixels[15] = (float)x_memory[(place_t)(row_3 && column_3 ? x_k + 3 * x_row + 3 * x_column : 0)];
            if (!whole) {
                pixels[0] = row_0 && column_0 ? pixels[0] : 0;
                pixels[1] = row_0 && column_1 ? pixels[1] : 0;
                pixels[2] = row_0 && column_2 ? pixels[2] : 0;
                pixels[3] = row_0 && column_3 ? pixels[3] : 0;
                pixels[4] = row_1 && column_0 ? pixels[4] : 0;
                pixels[5] = row_1 && column_1 ? pixels[5] : 0;
                pixels[6] = row_1 && column_2 ? pixels[6] : 0;
                pixels[7] = row_1 && column_3 ? pixels[7] : 0;
                pixels[8] = row_2 && column_0 ? pixels[8] : 0;
                pixels[9] = row_2 && column_1 ? pixels[9] : 0;
                pixels[10] = row_2 && column_2 ? pixels[10] : 0;
                pixels[11] = row_2 && column_3 ? pixels[11] : 0;
                pixels[12] = row_3 && column_0 ? pixels[12] : 0;
                pixels[13] = row_3 && column_1 ? pixels[13] : 0;
                pixels[14] = row_3 && column_2 ? pixels[14] : 0;
                pixels[15] = row_3 && column_3 ? pixels[15] : 0;
            }
            {
                const float d0 = pixels[0];
                const float d1 = pixels[4];
                const float d2 = pixels[8];
                const float d3 = pixels[12];
                const float v0 = d2 - d0;
                const float v1 = d1 + d2;
                const float v2 = d2 - d1;
                const float v3 = d3 - d1;
                pixels[0] = v0;
                pixels[4] = v1;
                pixels[8] = v2;
                pixels[12] = v3;
            }
            {
                const float d0 = pixels[1];
                const float d1 = pixels[5];
                const float d2 = pixels[9];
                const float d3 = pixels[13];
                const float v0 = d2 - d0;
                const float v1 = d1 + d2;
                const float v2 = d2 - d1;
                const float v3 = d3 - d1;
                pixels[1] = v0;
                pixels[5] = v1;
                pixels[9] = v2;
                pixels[13] = v3;
            }
            {
                const float d0 = pixels[2];
                const float d1 = pixels[6];
                const float d2 = pixels[10];
                const float d3 = pixels[14];
                const float v0 = d2 - d0;
                const float v1 = d1 + d2;
                const float v2 = d2 - d1;
                const float v3 = d3 - d1;
                pixels[2] = v0;
                pixels[6] = v1;
                pixels[10] = v2;
                pixels[14] = v3;
            }
            {
                const float d0 = pixels[3];
                const float d1 = pixels[7];
                const float d2 = pixels[11];
                const float d3 = pixels[15];
                const float v0 = d2 - d0;
                const float v1 = d1 + d2;
                const float v2 = d2 - d1;
                const float v3 = d3 - d1;
                pixels[3] = v0;
                pixels[7] = v1;
                pixels[11] = v2;
                pixels[15] = v3;
            }
            // Work-items side by side write to different banks, or two of them to one: channels of a pair
            // have the same places, so that the products of both look for them once.
            __local float *to = (__local float *)memory + k_own * 512 + (t_own ^ k_own / 2 % 8 * 4);
            {
                const float d0 = pixels[0];
                const float d1 = pixels[1];
                const float d2 = pixels[2];
                const float d3 = pixels[3];
                const float v0 = d2 - d0;
                const float v1 = d1 + d2;
                const float v2 = d2 - d1;
                const float v3 = d3 - d1;
                to[0] = v0;
                to[32] = v1;
                to[64] = v2;
                to[96] = v3;
            }
            {
                const float d0 = pixels[4];
                const float d1 = pixels[5];
                const float d2 = pixels[6];
                const float d3 = pixels[7];
                const float v0 = d2 - d0;
                const float v1 = d1 + d2;
                const float v2 = d2 - d1;
                const float v3 = d3 - d1;
                to[128] = v0;
                to[160] = v1;
                to[192] = v2;
                to[224] = v3;
            }
            {
                const float d0 = pixels[8];
                const float d1 = pixels[9];
                const float d2 = pixels[10];
                const float d3 = pixels[11];
                const float v0 = d2 - d0;
                const float v1 = d1 + d2;
                const float v2 = d2 - d1;
                const float v3 = d3 - d1;
                to[256] = v0;
                to[288] = v1;
                to[320] = v2;
                to[352] = v3;
            }
            {
                const float d0 = pixels[12];
                const float d1 = pixels[13];
                const float d2 = pixels[14];
                const float d3 = pixels[15];
                const float v0 = d2 - d0;
                const float v1 = d1 + d2;
                const float v2 = d2 - d1;
                const float v3 = d3 - d1;
                to[384] = v0;
                to[416] = v1;
                to[448] = v2;
                to[480] = v3;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        __local const float4 *a = memory + e * 8;
        __local const float4 *b = U + e * 8 + item_x;
        #pragma unroll 2
        for (int k = 0; k < 8; ++k) {
            float factors[8];
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                vstore4(a[k * 128 + ((v * 4 + item_y) ^ k / 2 % 8)], v, factors);
            float4 vectors[2];
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                vectors[v] = b[k * 128 + v * 4];
            #pragma unroll
            for (int j = 0; j < 8; ++j)
                #pragma unroll
                for (int v = 0; v < 2; ++v)
                    sum[j][v] = factors[j] * vectors[v] + sum[j][v];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    __local float4 *products = memory + e * 128;
    #pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        // 16 outputs, output by output.
        if (pass == 0) {
            products[(0 + item_y * 4) * 4 + item_x] = sum[0][0];
            products[(1 + item_y * 4) * 4 + item_x] = sum[1][0];
            products[(2 + item_y * 4) * 4 + item_x] = sum[2][0];
            products[(3 + item_y * 4) * 4 + item_x] = sum[3][0];
            products[(16 + item_y * 4) * 4 + item_x] = sum[4][0];
            products[(17 + item_y * 4) * 4 + item_x] = sum[5][0];
            products[(18 + item_y * 4) * 4 + item_x] = sum[6][0];
            products[(19 + item_y * 4) * 4 + item_x] = sum[7][0];
        }
        if (pass == 1) {
            products[(0 + item_y * 4) * 4 + item_x] = sum[0][1];
            products[(1 + item_y * 4) * 4 + item_x] = sum[1][1];
            products[(2 + item_y * 4) * 4 + item_x] = sum[2][1];
            products[(3 + item_y * 4) * 4 + item_x] = sum[3][1];
            products[(16 + item_y * 4) * 4 + item_x] = sum[4][1];
            products[(17 + item_y * 4) * 4 + item_x] = sum[5][1];
            products[(18 + item_y * 4) * 4 + item_x] = sum[6][1];
            products[(19 + item_y * 4) * 4 + item_x] = sum[7][1];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int unit = item; unit < 512; unit += 256) {
            const int t = unit / 16;
            const index_t output = strip * 32 + pass * 16 + unit % 16;
            const index_t tile = tile_first + t;
            if (tile >= tiles || output >= outputs)
                continue;
            const index_t above = tile / tile_columns;
            const index_t image = above / tile_lines;
            const index_t row = (above - image * tile_lines) * 2, column = (tile - above * tile_columns) * 2;
            __local const float *from = (__local const float *)memory + unit;
            const index_t y0_at = y0_start + group * y0_group + output * y0_output + image * y0_0 + row * y0_1 + column * y0_2;
            const index_t bias_at = bias_start + group * bias_group + output * bias_output;
            const index_t x0_at = x0_start + group * x0_group + output * x0_output + image * x0_0 + row * x0_1 + column * x0_2;
            float results[4];
            float half_way[8];
            {
                const float p0 = from[0];
                const float p1 = from[2048];
                const float p2 = from[4096];
                const float p3 = from[6144];
                const float r0 = p0 + p1 + p2;
                const float r1 = p1 + p3 - p2;
                half_way[0] = r0;
                half_way[4] = r1;
            }
            {
                const float p0 = from[512];
                const float p1 = from[2560];
                const float p2 = from[4608];
                const float p3 = from[6656];
                const float r0 = p0 + p1 + p2;
                const float r1 = p1 + p3 - p2;
                half_way[1] = r0;
                half_way[5] = r1;
            }
            {
                const float p0 = from[1024];
                const float p1 = from[3072];
                const float p2 = from[5120];
                const float p3 = from[7168];
                const float r0 = p0 + p1 + p2;
                const float r1 = p1 + p3 - p2;
                half_way[2] = r0;
                half_way[6] = r1;
            }
            {
                const float p0 = from[1536];
                const float p1 = from[3584];
                const float p2 = from[5632];
                const float p3 = from[7680];
                const float r0 = p0 + p1 + p2;
                const float r1 = p1 + p3 - p2;
                half_way[3] = r0;
                half_way[7] = r1;
            }
            {
                const float p0 = half_way[0];
                const float p1 = half_way[1];
                const float p2 = half_way[2];
                const float p3 = half_way[3];
                const float r0 = p0 + p1 + p2;
                const float r1 = p1 + p3 - p2;
                results[0] = r0;
                results[1] = r1;
            }
            {
                const float p0 = half_way[4];
                const float p1 = half_way[5];
                const float p2 = half_way[6];
                const float p3 = half_way[7];
                const float r0 = p0 + p1 + p2;
                const float r1 = p1 + p3 - p2;
                results[2] = r0;
                results[3] = r1;
            }
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                #pragma unroll
                for (int j = 0; j < 2; ++j)
                    if (row + i < y_rows && column + j < y_columns) {
                        float y0 = results[i * 2 + j];
                        if (!isfinite(y0))
                            y0 = sum_of_products(
                                x_memory, x_start + group * x_group + image * x_image, row + i - rows_before, column + j - columns_before, x_rows, x_columns, x_row, x_column, x_channel,
                                w_memory, w_start + group * w_group + output * w_output, w_rows, w_columns, w_row, w_column, w_channel, channels);
                        typedef float typeof_bias;
                        const typeof_bias bias = (float)bias_memory[bias_at];
                        typedef float typeof_x0;
                        const typeof_x0 x0 = (float)x0_memory[x0_at + i * x0_1 + j * x0_2];
                        y0 += bias;
                        typedef float typeof_y0;
                        {
#line 1 "snippet:epilogue"
y0 += x0;
#line 427 "kernel"
                        }
                        y0_memory[y0_at + i * y0_1 + j * y0_2] = y0;
                    }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
