// A matrix product of few outputs, both of whose operands lie along the depth: inner products.
//
//                   depth                      A work-item takes 16 lanes, 4 at a time. Their rows
//     +-----------------------------+          are read once, a vector of 16 steps of k
//     | x: 4 lanes                  |          after the other, and multiplied by those of
//     +-----------------------------+          4 outputs, which stay in a near cache. Sums are
//     +-----------------------------+          vectors along the depth until its end; then their
//     | w: 4 outputs                |          elements are added up, and 16 lanes are stored
//     +-----------------------------+          side by side.
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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void matmul(
    __global const half *x_memory,
    __global const half *w_memory,
    __global half *y0_memory,
    const int lanes,
    const int lane_1,
    const int lane_2,
    const int outputs,
    const int packed_tiles,
    const int depth,
    const int x_start,
    const int x_group,
    const int x_lane_0,
    const int x_lane_1,
    const int x_lane_2,
    const int w_start,
    const int w_group,
    const int w_output,
    const int y0_start,
    const int y0_group,
    const int y0_channel,
    const int y0_0,
    const int y0_1,
    const int y0_2)
{
    const index_t first = (index_t)get_group_id(0);
    const index_t group = (index_t)get_group_id(2);
    const int count = 1, tile = 0;
    const index_t x_at = x_start + group * x_group;
    const index_t y0_at = y0_start + group * y0_group;
    index_t lane_places[16];
    index_t y0_places[16];
    {
        index_t number = first * 16;
        index_t digit_2 = number % lane_2;
        number /= lane_2;
        index_t digit_1 = number % lane_1;
        index_t digit_0 = number / lane_1;
        for (int lane = 0; lane < count * 16; ++lane) {
            // Lanes past the end copy the last one, and are never stored.
            lane_places[lane] = digit_0 * x_lane_0 + digit_1 * x_lane_1 + digit_2 * x_lane_2;
            y0_places[lane] = digit_0 * y0_0 + digit_1 * y0_1 + digit_2 * y0_2;
            if (first * 16 + lane + 1 >= lanes)
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

    for (index_t other = 0; other < packed_tiles; ++other) {
        const index_t row = other * 4;
        const int rows_left = min((index_t)4, outputs - row);
        const int columns_left = min((index_t)16, lanes - first * 16);
        // Outputs past the end are the last one again, and never stored.
        index_t w_places[4];
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            w_places[j] = w_start + group * w_group + min(row + j, outputs - 1) * w_output;
        float sums[64];
        for (int lane = 0; lane < 16; lane += 4) {
            index_t places[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                places[i] = x_at + lane_places[lane + i];
            float16 part[4][4];
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j)
                    part[i][j] = 0;
            index_t k = 0;
            for (; k + 16 <= depth; k += 16) {
                float16 x[4];
                #pragma unroll
                for (int i = 0; i < 4; ++i)
                    x[i] = vload_half16(0, x_memory + places[i] + k);
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float16 w = vload_half16(0, w_memory + w_places[j] + k);
                    #pragma unroll
                    for (int i = 0; i < 4; ++i)
                        part[i][j] = x[i] * w + part[i][j];
                }
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float8 half_8 = part[i][j].lo + part[i][j].hi;
                    const float4 half_4 = half_8.lo + half_8.hi;
                    const float2 half_2 = half_4.lo + half_4.hi;
                    const float half_1 = half_2.lo + half_2.hi;
                    sums[j * 16 + lane + i] = half_1;
                }
            for (; k < depth; ++k)
                for (int i = 0; i < 4; ++i)
                    for (int j = 0; j < 4; ++j)
                        sums[j * 16 + lane + i] += (float)vload_half(0, x_memory + places[i] + k) * (float)vload_half(0, w_memory + w_places[j] + k);
        }
        float16 sum[4][1];
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            sum[j][0] = vload16(j, sums);
        // At the edges, and where columns do not lie side by side: element by element.
        float elements[64];
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int v = 0; v < 1; ++v)
                vstore16(sum[j][v], j * 1 + v, elements);
        for (int j = 0; j < rows_left; ++j)
            for (int c = 0; c < columns_left; ++c) {
                float y0 = elements[j * 16 + c];
                typedef float typeof_y0;
                {
#line 1 "snippet:epilogue"
y0 = max(y0, 0);
#line 165 "kernel"
                }
                vstore_half(y0, 0, y0_memory + y0_at + y0_places[tile * 16 + c] + (row + j) * y0_channel);
            }

    }
}
