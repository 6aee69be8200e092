// A gate of channels: the mean of every plane, then two products of few numbers.
//
//     x, one image             means             between         y
//     +----------------+       +--------+ inner  +---+ outer     +--------+
//     | planes         | ----> |        | -----> |   | ------->  |        |
//     +----------------+       +--------+        +---+           +--------+
//
// A work-item has an image to itself. Sums of a plane are added up in chains, so that they stay
// precise. The last vector of channels ends with the last one, and computes some again.
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef int index_t;

// Sums up the lanes of a vector, half by half.
static inline double sum_of(double8 a)
{
    double lanes[8];
    vstore8(a, 0, lanes);
    for (int n = 4; n > 0; n /= 2)
        for (int l = 0; l < n; ++l)
            lanes[l] += lanes[l + n];
    return lanes[0];
}

#define CHAIN 32
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gate(
    __global const double *x_memory,
    __global const double *inner_memory,
    __global const double *outer_memory,
    __global double *y0_memory,
    __global const double *inner_bias_memory,
    __global const double *outer_bias_memory,
    const int channels,
    const int inner,
    const int pixels,
    const int x_image,
    const int x_channel,
    const int x_pixel,
    const int y0_image,
    const int x_start,
    const int inner_start,
    const int outer_start,
    const int y0_start,
    const int inner_bias_start,
    const int outer_bias_start)
{
    __local double means[64], between[16];
    const index_t image = get_group_id(0);
    __global const double *x = x_memory + x_start + image * x_image;
    for (index_t c = 0; c < channels; ++c) {
        __global const double *plane = x + c * x_channel;
        double8 total = 0;
        index_t p = 0;
        while (p + 8 <= pixels) {
            double8 chain = 0;
            for (int n = 0; n < CHAIN && p + 8 <= pixels; ++n, p += 8)
                chain += vload8(0, plane + p);
            total += chain;
        }
        double rest = 0;
        for (; p < pixels; ++p)
            rest += plane[p];
        means[c] = (sum_of(total) + rest) / pixels;
    }

    __global const double *w = inner_memory + inner_start;
    for (index_t block = 0; block < inner; block += 4) {
        double8 sum[4];
        index_t row[4];
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            sum[r] = 0;
            row[r] = min(block + r, inner - 1);
        }
        index_t c = 0;
        for (; c + 8 <= channels; c += 8) {
            const double8 mean = vload8(0, means + c);
            #pragma unroll
            for (int r = 0; r < 4; ++r)
                sum[r] = vload8(0, w + row[r] * channels + c) * mean + sum[r];
        }
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            double rest = 0;
            for (index_t e = c; e < channels; ++e)
                rest = w[row[r] * channels + e] * means[e] + rest;
            between[row[r]] = sum_of(sum[r]) + rest + inner_bias_memory[inner_bias_start + row[r]];
        }
    }

    w = outer_memory + outer_start;
    for (index_t block = 0; block < channels; block += 32) {
        double8 sum[4];
        index_t at[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum[v] = 0;
            at[v] = min(block + v * 8, channels - 8);
        }
        for (index_t r = 0; r < inner; ++r)
            #pragma unroll
            for (int v = 0; v < 4; ++v)
                sum[v] = between[r] * vload8(0, w + r * channels + at[v]) + sum[v];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            double8 y0 = sum[v] + vload8(0, outer_bias_memory + outer_bias_start + at[v]);

            vstore8(y0, 0, y0_memory + y0_start + image * y0_image + at[v]);
        }
    }
}
