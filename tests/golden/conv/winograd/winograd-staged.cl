typedef int index_t;

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define prefetch_line(address) __builtin_prefetch(address)
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#endif

// Winograd's convolution, the second of three kernels: M[e] = V[e] * U[e] for every element e of a
// tile. A work-group takes some tiles and strips of 64 outputs of one element.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd_product(
    __global const float *packed,
    __global const float *transformed,
    __global float *products,
    const int channels,
    const int channel_blocks,
    const int tile_groups,
    const int groups_a_part,
    const int strips,
    const int strips_a_part,
    const int u_group,
    const int u_element,
    const int u_strip,
    const int v_group,
    const int v_element,
    const int m_group,
    const int m_element,
    const int m_strip)
{
    const index_t group = (index_t)get_group_id(2) / 16;
    const index_t e = (index_t)get_group_id(2) - group * 16;
    const index_t tiles_first = (index_t)get_group_id(0) * groups_a_part;
    const index_t tiles_last = min(tiles_first + groups_a_part, tile_groups);
    const index_t strip_first = (index_t)get_group_id(1) * strips_a_part;
    const index_t strip_last = min(strip_first + strips_a_part, strips);
    for (index_t strip = strip_first; strip < strip_last; ++strip)
        for (index_t some_tiles = tiles_first; some_tiles < tiles_last; ++some_tiles) {
            __global const float *a = transformed + group * v_group + e * v_element + some_tiles * channel_blocks * 96;
            __global const float *b = packed + group * u_group + e * u_element + strip * u_strip;
            __global float *to = products + group * m_group + e * m_element + strip * m_strip + some_tiles * 384;
            __global const float *next = b + (channels * 4 + (some_tiles - tiles_first) * channel_blocks * 32) * 16;
            for (int first = 0; first < channels; first += 64) {
                float16 sum[6][4];
                #pragma unroll
                for (int j = 0; j < 6; ++j)
                    #pragma unroll
                    for (int v = 0; v < 4; ++v)
                        sum[j][v] = 0;
                for (int left = min((int)channels - first, 64); left > 0; left -= 16) {
                    // A part of what comes next.
                    #pragma unroll
                    for (int n = 0; n < 32; ++n, next += 16)
                        prefetch_line(next);
                    if (left >= 16) {
                        #pragma unroll 4
                        for (int k = 0; k < 16; ++k) {
                            float16 row[4];
                            #pragma unroll
                            for (int v = 0; v < 4; ++v)
                                row[v] = vload16(v, b);
                            #pragma unroll
                            for (int j = 0; j < 6; ++j) {
                                const float16 factor = a[j * 16 + k];
                                #pragma unroll
                                for (int v = 0; v < 4; ++v)
                                    sum[j][v] = factor * row[v] + sum[j][v];
                            }
                            b += 64;
                        }
                    } else {
                        for (int k = 16 - left; k < 16; ++k) {
                            float16 row[4];
                            #pragma unroll
                            for (int v = 0; v < 4; ++v)
                                row[v] = vload16(v, b);
                            #pragma unroll
                            for (int j = 0; j < 6; ++j) {
                                const float16 factor = a[j * 16 + k];
                                #pragma unroll
                                for (int v = 0; v < 4; ++v)
                                    sum[j][v] = factor * row[v] + sum[j][v];
                            }
                            b += 64;
                        }
                    }
                    a += 96;
                }
                // Sums of earlier channels are added once, so that errors do not grow with their number.
                #pragma unroll
                for (int j = 0; j < 6; ++j)
                    #pragma unroll
                    for (int v = 0; v < 4; ++v) {
                        if (first > 0)
                            sum[j][v] += vload16(v, to + j * 64);
                        vstore16(sum[j][v], v, to + j * 64);
                    }
            }

        }
}
