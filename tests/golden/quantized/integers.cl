// A product of 1 rows with a quantised weight in whole numbers: each 32 steps of a row are rounded to
// parts of their greatest, and multiplied with codes in 16 bits, two steps a lane; scales multiply the sums.
//
//     codes: word of 8 steps -> two steps in the halves of a lane, 8 outputs a vector
//     x:     |x| <= 255 parts           -> the same two steps, for all outputs
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
    index_t lane_places[1];
    index_t y0_places[1];
    {
        index_t number = first * 1;
        index_t digit_2 = number % lane_2;
        number /= lane_2;
        index_t digit_1 = number % lane_1;
        index_t digit_0 = number / lane_1;
        for (int lane = 0; lane < count * 1; ++lane) {
            // Lanes past the end copy the last one, and are never stored.
            lane_places[lane] = digit_0 * x_lane_0 + digit_1 * x_lane_1 + digit_2 * x_lane_2;
            y0_places[lane] = digit_0 * y0_0 + digit_1 * y0_1 + digit_2 * y0_2;
            if (first * 1 + lane + 1 >= lanes)
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

    // Rounded rows; what a part of each group is; its sum as it was; what makes sums of codes from 0
    // on those of codes around 0, whatever overflows on the way.
    __local uint pairs[528];
    __local float sizes[32];
    __local uint begins[32];
    for (int j = 0; j < 1; ++j)
        for (index_t k = 0; k < depth; k += 32) {
            const index_t at = x_start + group * x_group + lane_places[j] + k;
            const index_t here = k / 32 * 1 + j;
            // By its bits the greatest is infinite or no number where one of them is.
            int8 bits_8 = 0;
            for (int n = 0; n < 32; n += 8) {
                const float8 value = vload8(0, x_memory + at + n);
                const int8 magnitude = as_int8(value) & 0x7fffffff;
                bits_8 = magnitude > bits_8 ? magnitude : bits_8;
            }
            const int4 bits_4 = bits_8.lo > bits_8.hi ? bits_8.lo : bits_8.hi;
            const int2 bits_2 = bits_4.lo > bits_4.hi ? bits_4.lo : bits_4.hi;
            const int bits_1 = bits_2.lo > bits_2.hi ? bits_2.lo : bits_2.hi;
            const float most = as_float(bits_1);
            sizes[here] = most / 255.0f;
            const float parts = most > 1e-30f && most < INFINITY ? 255.0f / most : 0;
            uint4 low_4 = 0, high_4 = 0;
            for (int n = 0; n < 32; n += 8) {
                const ushort8 rounded = as_ushort8(convert_short8(convert_int8_sat_rte(vload8(0, x_memory + at + n) * parts)));
                const uint4 a = convert_uint4(rounded.lo), b = convert_uint4(rounded.hi);
                vstore4(a | b << 16, 0, pairs + j * 528 + (k + n) / 2);
                low_4 += a;
                high_4 += b;
            }
            const uint2 low_2 = low_4.lo + low_4.hi, high_2 = high_4.lo + high_4.hi;
            const uint low_1 = low_2.lo + low_2.hi, high_1 = high_2.lo + high_2.hi;
            begins[here] = (-low_1 * 8u & 0xffff) | -high_1 * 8u << 16;
        }
    const index_t last = min(tiles, ((index_t)get_group_id(0) + 1) * share);
    const int strips = 1;
    for (index_t strip = (index_t)get_group_id(0) * share * strips; strip < last * strips; ++strip) {
        const index_t number = strip / strips;
        const int from = (int)(strip % strips) * 32;
        float8 sum[1][4];
        #pragma unroll
        for (int j = 0; j < 1; ++j)
            #pragma unroll
            for (int v = 0; v < 4; ++v)
                sum[j][v] = 0;
        for (index_t b = 0; b < blocks; ++b) {
            __global const uchar *block = w_memory + w_start + (number * blocks + b) * 576;
            for (int u = 0; u < 1; ++u) {
                __global const uchar *unit = block + 0 + u * 576;
                const index_t k = b * 32 + u * 32;
                prefetch_line(unit + 4608);
                for (int group_of = 0; group_of < 1; ++group_of) {
                    const index_t here = (k / 32 + group_of) * 1;
                    ushort16 part[1][4];
                    #pragma unroll
                    for (int j = 0; j < 1; ++j)
                        #pragma unroll
                        for (int v = 0; v < 4; ++v)
                            part[j][v] = as_ushort16((uint8)(begins[here + j]));
                    for (int i = group_of * 4; i < (group_of + 1) * 4; ++i) {
                        prefetch_line(unit + 4096 + i * 128 + from * 4);
                        prefetch_line(unit + 4160 + i * 128 + from * 4);
                        uint8 low[4];
                        #pragma unroll
                        for (int v = 0; v < 4; ++v)
                            low[v] = vload8(0, (__global const uint *)(unit + i * 128) + from + v * 8);

                        __local const uint *factors = pairs + k / 2 + i * 4;
                        #pragma unroll
                        for (int v = 0; v < 4; ++v) {
                            const ushort16 w = as_ushort16(low[v] >> 0 & 0xf000fu);
                            #pragma unroll
                            for (int j = 0; j < 1; ++j)
                                part[j][v] += w * as_ushort16((uint8)(factors[j * 528 + 0]));
                        }
                        #pragma unroll
                        for (int v = 0; v < 4; ++v) {
                            const ushort16 w = as_ushort16(low[v] >> 4 & 0xf000fu);
                            #pragma unroll
                            for (int j = 0; j < 1; ++j)
                                part[j][v] += w * as_ushort16((uint8)(factors[j * 528 + 1]));
                        }
                        #pragma unroll
                        for (int v = 0; v < 4; ++v) {
                            const ushort16 w = as_ushort16(low[v] >> 8 & 0xf000fu);
                            #pragma unroll
                            for (int j = 0; j < 1; ++j)
                                part[j][v] += w * as_ushort16((uint8)(factors[j * 528 + 2]));
                        }
                        #pragma unroll
                        for (int v = 0; v < 4; ++v) {
                            const ushort16 w = as_ushort16(low[v] >> 12 & 0xf000fu);
                            #pragma unroll
                            for (int j = 0; j < 1; ++j)
                                part[j][v] += w * as_ushort16((uint8)(factors[j * 528 + 3]));
                        }
                    }
                    float8 scale[4];
                    #pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        const int c = from + v * 8;
                        scale[v] = vload_half8(0, (__global const half *)(unit + 512) + c);
                    }

                    #pragma unroll
                    for (int j = 0; j < 1; ++j)
                        #pragma unroll
                        for (int v = 0; v < 4; ++v) {
                            const int8 both = as_int8(part[j][v]);
                            sum[j][v] += scale[v] * sizes[here + j] * convert_float8(((both << 16 >> 16) + (both >> 16)));
                        }
                }
            }
        }
        const index_t column = number * 32 + from;
        const int rows_left = min((index_t)1, lanes - first * 1);
        const int columns_left = min((index_t)32, outputs - column);
        if (columns_left >= 32) {
            #pragma unroll
            for (int j = 0; j < 1; ++j)
                if (j < rows_left) {
                    #pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        const int c = v * 8;
                        float8 y0 = sum[j][v];
                        vstore8(y0, 0, y0_memory + y0_at + y0_places[tile * 1 + j] + (column + c) * y0_channel);
                    }
                }
            continue;
        }
        // At the edges, and where columns do not lie side by side: element by element.
        float elements[32];
        #pragma unroll
        for (int j = 0; j < 1; ++j)
            #pragma unroll
            for (int v = 0; v < 4; ++v)
                vstore8(sum[j][v], j * 4 + v, elements);
        for (int j = 0; j < rows_left; ++j) {
            int c = 0;
            for (; c + 8 <= columns_left; c += 8) {
                float8 y0 = vload8(0, elements + j * 32 + c);
                vstore8(y0, 0, y0_memory + y0_at + y0_places[tile * 1 + j] + (column + c) * y0_channel);
            }
            for (; c < columns_left; ++c) {
                float y0 = elements[j * 32 + c];
                y0_memory[y0_at + y0_places[tile * 1 + j] + (column + c) * y0_channel] = y0;
            }
        }

    }
}
