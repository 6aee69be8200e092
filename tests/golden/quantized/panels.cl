// A product of many rows with a quantised weight: 128 steps of 32 outputs are decoded to a panel in
// a near cache, which all rows of a work-item are multiplied with before the next steps.
//
//     x:  8 rows at a time            panel: 128 steps
//     +---------------+---            +---------+
//     |  128 steps    | ...           | 32 outs |   sums: kept between panels
//     +---------------+---            +---------+
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
    const index_t group = (index_t)get_group_id(2);
    const index_t first = (index_t)get_group_id(1) * 8;
    const int count = min((index_t)8, (lanes + 7) / 8 - first);
    const index_t y0_at = y0_start + group * y0_group;
    index_t lane_places[64];
    index_t y0_places[64];
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

    for (int lane = 0; lane < count * 8; ++lane)
        lane_places[lane] += x_start + group * x_group;
    __local float panel[4096];
    __local float kept[2048];
    const index_t last = min(tiles, ((index_t)get_group_id(0) + 1) * share);
    const int strips = 1;
    for (index_t strip = (index_t)get_group_id(0) * share * strips; strip < last * strips; ++strip) {
        const index_t number = strip / strips, column = strip * 32;
        const int from = (int)(strip % strips) * 32;
        const int columns_left = min((index_t)32, outputs - column);
        if (columns_left <= 0)
            break;
        for (index_t k = 0; k < depth; k += 128) {
            const int steps = min((index_t)128, depth - k);
            for (int at = 0; at < steps; at += 32) {
                const index_t b = (k + at) / 32;
                const int u = (k + at) % 32 / 32;
                __global const uchar *block = w_memory + w_start + (number * blocks + b) * 640;
                __global const uchar *unit = block + 0 + u * 640;
                for (int place = 0; place < 640; place += 64)
                    prefetch_line(unit + 4096 + place);
                for (int group_of = 0; group_of < 1; ++group_of) {
                    float16 scale[2];
                    float16 offset[2];
                    #pragma unroll
                    for (int v = 0; v < 2; ++v) {
                        const int c = from + v * 16;
                        scale[v] = vload_half16(0, (__global const half *)(unit + 512) + c) * 16.0f;
                        offset[v] = vload_half16(0, (__global const half *)(unit + 576) + c) - scale[v] * 1.0f;
                    }

                    for (int i = group_of * 4; i < (group_of + 1) * 4; ++i) {
                        uint16 low[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            low[v] = vload16(0, (__global const uint *)(unit + i * 128) + from + v * 16);

                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(as_float16((low[v] << 19 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v], 0, panel + (at + i * 8 + 0) * 32 + v * 16);
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(as_float16((low[v] << 15 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v], 0, panel + (at + i * 8 + 1) * 32 + v * 16);
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(as_float16((low[v] << 11 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v], 0, panel + (at + i * 8 + 2) * 32 + v * 16);
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(as_float16((low[v] << 7 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v], 0, panel + (at + i * 8 + 3) * 32 + v * 16);
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(as_float16((low[v] << 3 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v], 0, panel + (at + i * 8 + 4) * 32 + v * 16);
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(as_float16((low[v] >> 1 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v], 0, panel + (at + i * 8 + 5) * 32 + v * 16);
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(as_float16((low[v] >> 5 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v], 0, panel + (at + i * 8 + 6) * 32 + v * 16);
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            vstore16(as_float16((low[v] >> 9 & 0x780000u) | 0x3f800000u) * scale[v] + offset[v], 0, panel + (at + i * 8 + 7) * 32 + v * 16);
                    }
                }
            }
            for (int tile = 0; tile < count; ++tile) {
                float16 sum[8][2];
                #pragma unroll
                for (int j = 0; j < 8; ++j)
                    #pragma unroll
                    for (int v = 0; v < 2; ++v)
                        sum[j][v] = 0;
                if (k > 0)
                    for (int j = 0; j < 8; ++j)
                        for (int v = 0; v < 2; ++v)
                            sum[j][v] = vload16(v, kept + (tile * 8 + j) * 32);
                __global const float *lines[8];
                for (int j = 0; j < 8; ++j)
                    lines[j] = x_memory + lane_places[tile * 8 + j] + k;
                for (int at = 0; at < steps; at += 4) {
                    {
                        float16 row[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            row[v] = vload16(v, panel + (at + 0) * 32);
                        #pragma unroll
                        for (int j = 0; j < 8; ++j) {
                            const float16 factor = lines[j][at + 0];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = factor * row[v] + sum[j][v];
                        }
                    }
                    {
                        float16 row[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            row[v] = vload16(v, panel + (at + 1) * 32);
                        #pragma unroll
                        for (int j = 0; j < 8; ++j) {
                            const float16 factor = lines[j][at + 1];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = factor * row[v] + sum[j][v];
                        }
                    }
                    {
                        float16 row[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            row[v] = vload16(v, panel + (at + 2) * 32);
                        #pragma unroll
                        for (int j = 0; j < 8; ++j) {
                            const float16 factor = lines[j][at + 2];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = factor * row[v] + sum[j][v];
                        }
                    }
                    {
                        float16 row[2];
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            row[v] = vload16(v, panel + (at + 3) * 32);
                        #pragma unroll
                        for (int j = 0; j < 8; ++j) {
                            const float16 factor = lines[j][at + 3];
                            #pragma unroll
                            for (int v = 0; v < 2; ++v)
                                sum[j][v] = factor * row[v] + sum[j][v];
                        }
                    }
                }
                if (k + 128 < depth) {
                    for (int j = 0; j < 8; ++j)
                        for (int v = 0; v < 2; ++v)
                            vstore16(sum[j][v], v, kept + (tile * 8 + j) * 32);
                    continue;
                }
                const int rows_left = min((index_t)8, lanes - (first + tile) * 8);
                if (columns_left >= 32) {
                    #pragma unroll
                    for (int j = 0; j < 8; ++j)
                        if (j < rows_left) {
                            #pragma unroll
                            for (int v = 0; v < 2; ++v) {
                                const int c = v * 16;
                                float16 y0 = sum[j][v];
                                vstore16(y0, 0, y0_memory + y0_at + y0_places[tile * 8 + j] + (column + c) * y0_channel);
                            }
                        }
                    continue;
                }
                // At the edges, and where columns do not lie side by side: element by element.
                float elements[256];
                #pragma unroll
                for (int j = 0; j < 8; ++j)
                    #pragma unroll
                    for (int v = 0; v < 2; ++v)
                        vstore16(sum[j][v], j * 2 + v, elements);
                for (int j = 0; j < rows_left; ++j) {
                    int c = 0;
                    for (; c + 16 <= columns_left; c += 16) {
                        float16 y0 = vload16(0, elements + j * 32 + c);
                        vstore16(y0, 0, y0_memory + y0_at + y0_places[tile * 8 + j] + (column + c) * y0_channel);
                    }
                    for (; c < columns_left; ++c) {
                        float y0 = elements[j * 32 + c];
                        y0_memory[y0_at + y0_places[tile * 8 + j] + (column + c) * y0_channel] = y0;
                    }
                }

            }
        }
    }
}
