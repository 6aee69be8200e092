// A product of 2 rows with a quantised weight: read once, and decoded in registers.
//
//     w: block 0 | block 1 | ...  of 32 outputs          A work-item takes  1 outputs of a tile
//        +------+---------------------+                  and goes along the depth, 8 steps a word.
//        | head | unit | unit | ...   |
//        +------+---------------------+
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(32, 8, 1))) void matmul(
    __global const float *x_memory,
    __global const uchar *w_memory,
    __global float *y0_memory,
    const int lanes,
    const int lane_1,
    const int lane_2,
    const int outputs,
    const int tiles,
    const int share,
    const int blocks,
    const int x_start,
    const int x_group,
    const int x_lane_0,
    const int x_lane_1,
    const int x_lane_2,
    const int w_start,
    const int y0_start,
    const int y0_group,
    const int y0_channel,
    const int y0_0,
    const int y0_1,
    const int y0_2)
{
    const index_t first = (index_t)get_group_id(1);
    const index_t group = (index_t)get_group_id(2);
    const int count = 1, tile = 0;
    const index_t y0_at = y0_start + group * y0_group;
    index_t lane_places[2];
    index_t y0_places[2];
    {
        index_t number = first * 2;
        index_t digit_2 = number % lane_2;
        number /= lane_2;
        index_t digit_1 = number % lane_1;
        index_t digit_0 = number / lane_1;
        for (int lane = 0; lane < count * 2; ++lane) {
            // Lanes past the end copy the last one, and are never stored.
            lane_places[lane] = digit_0 * x_lane_0 + digit_1 * x_lane_1 + digit_2 * x_lane_2;
            y0_places[lane] = digit_0 * y0_0 + digit_1 * y0_1 + digit_2 * y0_2;
            if (first * 2 + lane + 1 >= lanes)
                continue;
            if (++digit_2 == lane_2) {
                digit_2 = 0;
                if (++digit_1 == lane_1) {
                    digit_1 = 0;
                    ++digit_0;
                }
            }
        }
    }

    for (int j = 0; j < 2; ++j)
        lane_places[j] += x_start + group * x_group;
    const int slice = (int)get_local_id(1);
    __local float parts[16][32];
    const index_t last = min(tiles, ((index_t)get_group_id(0) + 1) * share);
    const int strips = 1;
    for (index_t strip = (index_t)get_group_id(0) * share * strips; strip < last * strips; ++strip) {
        const index_t number = strip / strips;
        const int from = (int)get_local_id(0);
        float sum[2][1];
        #pragma unroll
        for (int j = 0; j < 2; ++j)
            #pragma unroll
            for (int v = 0; v < 1; ++v)
                sum[j][v] = 0;
        for (index_t b = slice; b < blocks; b += 8) {
            __global const uchar *block = w_memory + w_start + (number * blocks + b) * 576;
            for (int u = 0; u < 1; ++u) {
                __global const uchar *unit = block + 0 + u * 576;
                const index_t k = b * 32 + u * 32;
                for (int group_of = 0; group_of < 1; ++group_of) {
                    float scale[1];
                    float offset[1];
                    #pragma unroll
                    for (int v = 0; v < 1; ++v) {
                        const int c = from + v * 1;
                        scale[v] = vload_half(0, (__global const half *)(unit + 512) + c) * 16.0f;
                        offset[v] = -scale[v] * 1.5f;
                    }

                    for (int i = group_of * 4; i < (group_of + 1) * 4; ++i) {
                        uint low[1];
                        #pragma unroll
                        for (int v = 0; v < 1; ++v)
                            low[v] = *((__global const uint *)(unit + i * 128) + from + v * 1);

                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float w = as_float((low[v] << 19 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                sum[j][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 0];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float w = as_float((low[v] << 15 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                sum[j][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 1];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float w = as_float((low[v] << 11 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                sum[j][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 2];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float w = as_float((low[v] << 7 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                sum[j][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 3];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float w = as_float((low[v] << 3 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                sum[j][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 4];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float w = as_float((low[v] >> 1 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                sum[j][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 5];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float w = as_float((low[v] >> 5 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                sum[j][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 6];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float w = as_float((low[v] >> 9 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                sum[j][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 7];
                        }
                    }
                }
            }
        }
        for (int j = 0; j < 2; ++j)
            parts[slice * 2 + j][from] = sum[j][0];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slice == 0)
            for (int j = 0; j < 2; ++j)
                for (int other = 1; other < 8; ++other)
                    sum[j][0] += parts[other * 2 + j][from];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slice)
            continue;
        const index_t column = number * 32 + from;
        const int rows_left = min((index_t)2, lanes - first * 2);
        const int columns_left = min((index_t)1, outputs - column);
        // At the edges, and where columns do not lie side by side: element by element.
        float elements[2];
        #pragma unroll
        for (int j = 0; j < 2; ++j)
            #pragma unroll
            for (int v = 0; v < 1; ++v)
                elements[j * 1 + v] = sum[j][v];
        for (int j = 0; j < rows_left; ++j)
            for (int c = 0; c < columns_left; ++c) {
                float y0 = elements[j * 1 + c];
                y0_memory[y0_at + y0_places[tile * 2 + j] + (column + c) * y0_channel] = y0;
            }

    }
}
