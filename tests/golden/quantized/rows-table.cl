// A product of 2 rows with a quantised weight: read once, and decoded in registers.
//
//     w: block 0 | block 1 | ...  of 32 outputs          A work-item takes 32 outputs of a tile
//        +------+---------------------+                  and goes along the depth, 8 steps a word.
//        | head | unit | unit | ...   |
//        +------+---------------------+
typedef int index_t;

static inline float16 looked_up(uint16 at)
{
    at &= 15;
    const float16 from_0 = (float16)(-8.0f, -7.0f, -6.0f, -5.0f, -4.0f, -3.0f, -2.0f, -1.0f, 0.0f, 1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f);
    float16 found = (float16)(from_0[at.s0], from_0[at.s1], from_0[at.s2], from_0[at.s3], from_0[at.s4], from_0[at.s5], from_0[at.s6], from_0[at.s7], from_0[at.s8], from_0[at.s9], from_0[at.sa], from_0[at.sb], from_0[at.sc], from_0[at.sd], from_0[at.se], from_0[at.sf]);
    return found;
}

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
            __global const uchar *block = w_memory + w_start + (number * blocks + b) * 640;
            for (int u = 0; u < 1; ++u) {
                __global const uchar *unit = block + 0 + u * 640;
                const index_t k = b * 32 + u * 32;
                for (int group_of = 0; group_of < 2; ++group_of) {
                    float16 scale[2];
                    #pragma unroll
                    for (int v = 0; v < 2; ++v) {
                        const int c = from + v * 16;
                        scale[v] = as_float16(convert_uint16(vload16(0, (__global const ushort *)(unit + 512 + group_of * 64) + c)) << 16);
                    }

                    float16 part[4][2];
                    #pragma unroll
                    for (int j = 0; j < 4; ++j)
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            part[j][v] = 0;
                    for (int i = group_of * 2; i < (group_of + 1) * 2; ++i) {
                        uint16 low[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            low[v] = vload16(0, (__global const uint *)(unit + i * 128) + from + v * 16);

                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = looked_up(low[v] >> 0);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 0][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 0];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = looked_up(low[v] >> 4);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 1][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 1];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = looked_up(low[v] >> 8);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 0][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 2];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = looked_up(low[v] >> 12);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 1][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 3];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = looked_up(low[v] >> 16);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 0][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 4];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = looked_up(low[v] >> 20);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 1][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 5];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = looked_up(low[v] >> 24);
                            #pragma unroll
                            for (int j = 0; j < 2; ++j)
                                part[j * 2 + 0][v] += w * (float)x_memory[lane_places[j] + k + i * 8 + 6];
                        }
                        #pragma unroll
                        for (int v = 0; v < 2; ++v) {
                            const float16 w = looked_up(low[v] >> 28);
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
