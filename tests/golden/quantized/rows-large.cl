// A product of 2 rows with a quantised weight: read once, and decoded in registers.
//
//     w: block 0 | block 1 | ...  of 32 outputs          A work-item takes 32 outputs of a tile
//        +------+---------------------+                  and goes along the depth, 8 steps a word.
//        | head | unit | unit | ...   |
//        +------+---------------------+
typedef int index_t;

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define prefetch_line(address) __builtin_prefetch(address)
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void matmul(
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
    const int depth,
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
    // Sums of what codes are multiplied with, for what is added to all codes of a group.
    __local float wholes[2048];
    for (int j = 0; j < 2; ++j)
        for (index_t k = 0; k < depth; k += 32) {
            float8 of_8 = 0;
            for (int at = 0; at < 32; at += 8)
                of_8 += vload8(0, x_memory + lane_places[j] + k + at);
            const float4 of_4 = (float4)(of_8.s0, of_8.s1, of_8.s2, of_8.s3) + (float4)(of_8.s4, of_8.s5, of_8.s6, of_8.s7);
            wholes[j * 1024 + k / 32] = (of_4.x + of_4.y) + (of_4.z + of_4.w);
        }
    const index_t last = min(tiles, ((index_t)get_group_id(0) + 1) * share);
    const int strips = 1;
    for (index_t strip = (index_t)get_group_id(0) * share * strips; strip < last * strips; ++strip) {
        const index_t number = strip / strips;
        const int from = (int)(strip % strips) * 32;
        float16 sum[2][2];
        #pragma unroll
        for (int j = 0; j < 2; ++j)
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                sum[j][v] = 0;
        for (index_t b = 0; b < blocks; b += 1) {
            __global const uchar *block = w_memory + w_start + (number * blocks + b) * 576;
            for (int u = 0; u < 1; ++u) {
                __global const uchar *unit = block + 0 + u * 576;
                const index_t k = b * 32 + u * 32;
                prefetch_line(unit + 4608);
                for (int group_of = 0; group_of < 1; ++group_of) {
                    float16 scale[2];
                    float16 offset[2];
                    #pragma unroll
                    for (int v = 0; v < 2; ++v) {
                        const int c = from + v * 16;
                        scale[v] = vload_half16(0, (__global const half *)(unit + 512) + c) * 16.0f;
                        offset[v] = -scale[v] * 1.5f;
                    }

                    float16 part[4][2];
                    #pragma unroll
                    for (int j = 0; j < 4; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            part[j][v] = 0;
                    for (int i = group_of * 4; i < (group_of + 1) * 4; ++i) {
                        prefetch_line(unit + 4096 + i * 128 + from * 4);
                        prefetch_line(unit + 4160 + i * 128 + from * 4);
                        uint16 low[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            low[v] = vload16(0, (__global const uint *)(unit + i * 128) + from + v * 16);

                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = as_float16((low[v] << 19 & 0x780000u) | 0x3f800000u);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 0][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 0];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = as_float16((low[v] << 15 & 0x780000u) | 0x3f800000u);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 1][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 1];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = as_float16((low[v] << 11 & 0x780000u) | 0x3f800000u);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 0][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 2];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = as_float16((low[v] << 7 & 0x780000u) | 0x3f800000u);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 1][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 3];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = as_float16((low[v] << 3 & 0x780000u) | 0x3f800000u);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 0][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 4];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = as_float16((low[v] >> 1 & 0x780000u) | 0x3f800000u);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 1][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 5];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = as_float16((low[v] >> 5 & 0x780000u) | 0x3f800000u);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 0][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 6];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = as_float16((low[v] >> 9 & 0x780000u) | 0x3f800000u);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 1][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 7];
                        }
                    }
                    #pragma unroll
                    for (int j = 0; j < 2; ++j) {
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            float16 all = part[j * 2][v];
                            all += part[j * 2 + 1][v];
                            sum[j][v] += scale[v] * all;
                            sum[j][v] += offset[v] * wholes[j * 1024 + k / 32 + group_of];
                        }
                    }
                }
            }
        }
        const index_t column = number * 32 + from;
        const int rows_left = min((index_t)2, lanes - first * 2);
        const int columns_left = min((index_t)32, outputs - column);
        if (columns_left >= 32) {
            #pragma unroll
            for (int j = 0; j < 2; ++j)
                if (j < rows_left) {
                    #pragma unroll
                    for (int v = 0; v < 2; ++v) {
                        const int c = v * 16;
                        float16 y0 = sum[j][v];
                        vstore16(y0, 0, y0_memory + y0_at + y0_places[tile * 2 + j] + (column + c) * y0_channel);
                    }
                }
            continue;
        }
        // At the edges, and where columns do not lie side by side: element by element.
        float elements[64];
        #pragma unroll
        for (int j = 0; j < 2; ++j)
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                vstore16(sum[j][v], j * 2 + v, elements);
        for (int j = 0; j < rows_left; ++j) {
            int c = 0;
            for (; c + 16 <= columns_left; c += 16) {
                float16 y0 = vload16(0, elements + j * 32 + c);
                vstore16(y0, 0, y0_memory + y0_at + y0_places[tile * 2 + j] + (column + c) * y0_channel);
            }
            for (; c < columns_left; ++c) {
                float y0 = elements[j * 32 + c];
                y0_memory[y0_at + y0_places[tile * 2 + j] + (column + c) * y0_channel] = y0;
            }
        }

    }
}
