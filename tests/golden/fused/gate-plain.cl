// A gate of channels: the mean of every plane, then two products of few numbers.
//
//     x, one image             means             between         y
//     +----------------+       +--------+ inner  +---+ outer     +--------+
//     | planes         | ----> |        | -----> |   | ------->  |        |
//     +----------------+       +--------+        +---+           +--------+
//
// A work-item has an image to itself. Sums of a plane are added up in chains, so that they stay
// precise. The last vector of channels ends with the last one, and computes some again.
typedef int index_t;
static inline __attribute__((overloadable)) int cp_max(int a, int b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) uint cp_max(uint a, uint b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) long cp_max(long a, long b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) ulong cp_max(ulong a, ulong b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float cp_max(float a, float b)
{
    return max(a, b);
}
static inline __attribute__((overloadable)) float16 cp_max(float16 a, float16 b)
{
    return max(a, b);
}
#undef max
#define max(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_max((cp_type)cp_in_a, (cp_type)cp_in_b); })

// Sums up the lanes of a vector, half by half.
static inline float sum_of(float16 a)
{
    float lanes[16];
    vstore16(a, 0, lanes);
    for (int n = 8; n > 0; n /= 2)
        for (int l = 0; l < n; ++l)
            lanes[l] += lanes[l + n];
    return lanes[0];
}

#define CHAIN 32
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gate(
    __global const float *x_memory,
    __global const float *inner_memory,
    __global const float *outer_memory,
    __global float *y0_memory,
    __global const float *inner_bias_memory,
    __global const float *outer_bias_memory,
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
    __local float means[64], between[32];
    const index_t image = get_group_id(0);
    __global const float *x = x_memory + x_start + image * x_image;
    for (index_t block = 0; block < channels; block += 64) {
        float16 total[4];
        index_t at[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            total[v] = 0;
            at[v] = min(block + v * 16, channels - 16);
        }
        for (index_t p = 0; p < pixels; p += CHAIN) {
            float16 chain[4];
            #pragma unroll
            for (int v = 0; v < 4; ++v)
                chain[v] = 0;
            for (index_t q = p; q < min(p + CHAIN, pixels); ++q)
                #pragma unroll
                for (int v = 0; v < 4; ++v)
                    chain[v] += vload16(0, x + q * x_pixel + at[v]);
            #pragma unroll
            for (int v = 0; v < 4; ++v)
                total[v] += chain[v];
        }
        #pragma unroll
        for (int v = 0; v < 4; ++v)
            vstore16(total[v] / (float)pixels, 0, means + at[v]);
    }

    __global const float *w = inner_memory + inner_start;
    for (index_t block = 0; block < inner; block += 4) {
        float16 sum[4];
        index_t row[4];
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            sum[r] = 0;
            row[r] = min(block + r, inner - 1);
        }
        index_t c = 0;
        for (; c + 16 <= channels; c += 16) {
            const float16 mean = vload16(0, means + c);
            #pragma unroll
            for (int r = 0; r < 4; ++r)
                sum[r] = vload16(0, w + row[r] * channels + c) * mean + sum[r];
        }
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            float rest = 0;
            for (index_t e = c; e < channels; ++e)
                rest = w[row[r] * channels + e] * means[e] + rest;
            between[row[r]] = sum_of(sum[r]) + rest + inner_bias_memory[inner_bias_start + row[r]];
        }
    }
    for (index_t r = inner; r < inner + 16 - 1; ++r)
        between[r] = 0;
    for (index_t r = 0; r < inner; r += 16) {
        float16 y0 = vload16(0, between + r);
        typedef float16 typeof_y0;
        {
#line 1 "snippet:first"
y0 = max(y0, 0);
#line 137 "kernel"
        }

        vstore16(y0, 0, between + r);
    }

    w = outer_memory + outer_start;
    for (index_t block = 0; block < channels; block += 64) {
        float16 sum[4];
        index_t at[4];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            sum[v] = 0;
            at[v] = min(block + v * 16, channels - 16);
        }
        for (index_t r = 0; r < inner; ++r)
            #pragma unroll
            for (int v = 0; v < 4; ++v)
                sum[v] = between[r] * vload16(0, w + r * channels + at[v]) + sum[v];
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            float16 y0 = sum[v] + vload16(0, outer_bias_memory + outer_bias_start + at[v]);
            typedef float16 typeof_y0;
            {
#line 1 "snippet:second"
y0 = exp(y0);
#line 163 "kernel"
            }

            vstore16(y0, 0, y0_memory + y0_start + image * y0_image + at[v]);
        }
    }
}
