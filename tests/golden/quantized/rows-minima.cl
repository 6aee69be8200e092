// A product of 8 rows with a quantised weight: read once, and decoded in registers.
//
//     w: block 0 | block 1 | ...  of 32 outputs          A work-item takes 16 outputs of a tile
//        +------+---------------------+                  and goes along the depth, 8 steps a word.
//        | head | unit | unit | ...   |
//        +------+---------------------+
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void matmul(
    __global const half *x_memory,
    __global const uchar *w_memory,
    __global half *y0_memory,
    const float beta,
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
    index_t lane_places[8];
    index_t y0_places[8];
    {
        index_t number = first * 8;
        index_t digit_2 = number % lane_2;
        number /= lane_2;
        index_t digit_1 = number % lane_1;
        index_t digit_0 = number / lane_1;
        for (int lane = 0; lane < count * 8; ++lane) {
            // Lanes past the end copy the last one, and are never stored.
            lane_places[lane] = digit_0 * x_lane_0 + digit_1 * x_lane_1 + digit_2 * x_lane_2;
            y0_places[lane] = digit_0 * y0_0 + digit_1 * y0_1 + digit_2 * y0_2;
            if (first * 8 + lane + 1 >= lanes)
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

    for (int j = 0; j < 8; ++j)
        lane_places[j] += x_start + group * x_group;
    const index_t last = min(tiles, ((index_t)get_group_id(0) + 1) * share);
    const int strips = 2;
    for (index_t strip = (index_t)get_group_id(0) * share * strips; strip < last * strips; ++strip) {
        const index_t number = strip / strips;
        const int from = (int)(strip % strips) * 16;
        float16 sum[8][1];
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            #pragma unroll
            for (int v = 0; v < 1; ++v)
                sum[j][v] = 0;
        for (index_t b = 0; b < blocks; b += 1) {
            __global const uchar *block = w_memory + w_start + (number * blocks + b) * 5760;
            for (int u = 0; u < 8; ++u) {
                __global const uchar *unit = block + 128 + u * 704;
                const index_t k = b * 256 + u * 32;
                float values[256];
                #pragma unroll
                for (int j = 0; j < 8; ++j)
                    for (int at = 0; at < 32; at += 16)
                        vstore16(vload_half16(0, x_memory + lane_places[j] + k + at), 0, values + j * 32 + at);
                for (int group_of = 0; group_of < 1; ++group_of) {
                    float16 scale[1];
                    float16 offset[1];
                    #pragma unroll
                    for (int v = 0; v < 1; ++v) {
                        const int c = from + v * 16;
                        scale[v] = vload_half16(0, (__global const half *)(block + 0) + c) * convert_float16(vload16(0, (__global const uchar *)(unit + 640) + c)) * 32.0f;
                        offset[v] = -(vload_half16(0, (__global const half *)(block + 64) + c) * convert_float16(vload16(0, (__global const uchar *)(unit + 672) + c))) - scale[v] * 1.0f;
                    }

                    for (int i = group_of * 4; i < (group_of + 1) * 4; ++i) {
                        uint16 low[1];
                        #pragma unroll
                        for (int v = 0; v < 1; ++v)
                            low[v] = vload16(0, (__global const uint *)(unit + i * 128) + from + v * 16);
                        uint16 merged[2];
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const uint16 high = vload16(0, (__global const uint *)(unit + 512 + i / 4 * 128) + from + v * 16) >> (i % 4 * 2);
                            merged[v * 2 + 0] = bitselect(high << 4, low[v], (uint16)0x0f0f0f0fu);
                            merged[v * 2 + 1] = bitselect(high << 3, low[v] >> 4, (uint16)0x0f0f0f0fu);
                        }

                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float16 w = as_float16((merged[v * 2 + 0] << 18 & 0x7c0000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 8; ++j)
                                sum[j][v] += w * values[j * 32 + i * 8 + 0];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float16 w = as_float16((merged[v * 2 + 1] << 18 & 0x7c0000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 8; ++j)
                                sum[j][v] += w * values[j * 32 + i * 8 + 1];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float16 w = as_float16((merged[v * 2 + 0] << 10 & 0x7c0000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 8; ++j)
                                sum[j][v] += w * values[j * 32 + i * 8 + 2];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float16 w = as_float16((merged[v * 2 + 1] << 10 & 0x7c0000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 8; ++j)
                                sum[j][v] += w * values[j * 32 + i * 8 + 3];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float16 w = as_float16((merged[v * 2 + 0] << 2 & 0x7c0000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 8; ++j)
                                sum[j][v] += w * values[j * 32 + i * 8 + 4];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float16 w = as_float16((merged[v * 2 + 1] << 2 & 0x7c0000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 8; ++j)
                                sum[j][v] += w * values[j * 32 + i * 8 + 5];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float16 w = as_float16((merged[v * 2 + 0] >> 6 & 0x7c0000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 8; ++j)
                                sum[j][v] += w * values[j * 32 + i * 8 + 6];
                        }
                        #pragma unroll
                        for (int v = 0; v < 1; ++v) {
                            const float16 w = as_float16((merged[v * 2 + 1] >> 6 & 0x7c0000u) | 0x3f800000u) * scale[v] + offset[v];
                            #pragma unroll
                            for (int j = 0; j < 8; ++j)
                                sum[j][v] += w * values[j * 32 + i * 8 + 7];
                        }
                    }
                }
            }
        }
        const index_t column = number * 32 + from;
        const int rows_left = min((index_t)8, lanes - first * 8);
        const int columns_left = min((index_t)16, outputs - column);
        if (columns_left >= 16) {
            #pragma unroll
            for (int j = 0; j < 8; ++j)
                if (j < rows_left) {
                    #pragma unroll
                    for (int v = 0; v < 1; ++v) {
                        const int c = v * 16;
                        float16 y0 = sum[j][v];
                        y0 += beta * (vload_half16(0, y0_memory + y0_at + y0_places[tile * 8 + j] + (column + c) * y0_channel));
                        vstore_half16(y0, 0, y0_memory + y0_at + y0_places[tile * 8 + j] + (column + c) * y0_channel);
                    }
                }
            continue;
        }
        // At the edges, and where columns do not lie side by side: 2 elements at a time.
        float elements[128];
        #pragma unroll
        for (int j = 0; j < 8; ++j)
            #pragma unroll
            for (int v = 0; v < 1; ++v)
                vstore16(sum[j][v], j * 1 + v, elements);
        for (int j = 0; j < rows_left; ++j)
            for (int c = 0; c < columns_left; c += 2) {
                float2 y0 = vload2(0, elements + j * 16 + c);
                y0 += beta * (vload_half2(0, y0_memory + y0_at + y0_places[tile * 8 + j] + (column + c) * y0_channel));
                vstore_half2(y0, 0, y0_memory + y0_at + y0_places[tile * 8 + j] + (column + c) * y0_channel);
            }

    }
}
