// Pairs of rows and columns, each a value of its own, which no memory holds: a work-item keeps what
// 1 x 6 rows have found so far and walks all columns, 4 x 16 a panel, 6 rows at a time.
//
//     panel            inner reduction of its pairs, in registers
//                      expr: values of its pairs
//     rows  o o ...    outer step: each row takes its values in, 4 x 16 of them a pair
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

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY
#define lowest_reduce_y1 -INFINITY
#define highest_reduce_y1 INFINITY
#define lowest_reduce_y2 -INFINITY
#define highest_reduce_y2 INFINITY

static inline __attribute__((overloadable)) void take_inner(
float16 *to_reduce_y0, const float16 other_y0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:inner_combine"
reduce_y0 += other_y0;
#line 55 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_outer(
float16 *to_reduce_y0, float16 *to_reduce_y1, float16 *to_reduce_y2, const float16 other_y0, const float16 other_y1, const float16 other_y2)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float16 typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    typedef float16 typeof_reduce_y2;
    typeof_reduce_y2 reduce_y2 = *to_reduce_y2;
    {
#line 1 "snippet:outer_combine"
typeof_reduce_y0 m = max(reduce_y0, other_y0), f = exp(reduce_y0 - m), e = exp(other_y0 - m); reduce_y1 = reduce_y1 * f + other_y1 * e; reduce_y2 = reduce_y2 * f + other_y2 * e; reduce_y0 = m;
#line 72 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
    *to_reduce_y2 = reduce_y2;
}

static inline __attribute__((overloadable)) void take_outer(
float *to_reduce_y0, float *to_reduce_y1, float *to_reduce_y2, const float other_y0, const float other_y1, const float other_y2)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    typedef float typeof_reduce_y2;
    typeof_reduce_y2 reduce_y2 = *to_reduce_y2;
    {
#line 1 "snippet:outer_combine"
typeof_reduce_y0 m = max(reduce_y0, other_y0), f = exp(reduce_y0 - m), e = exp(other_y0 - m); reduce_y1 = reduce_y1 * f + other_y1 * e; reduce_y2 = reduce_y2 * f + other_y2 * e; reduce_y0 = m;
#line 91 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
    *to_reduce_y2 = reduce_y2;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void kernel_sum(
    __global float *y0_memory,
    __global const float *x0_memory,
    __global const float *x1_memory,
    __global const float *x2_memory,
    const int depth,
    const int height,
    const int width,
    const int spread,
    const int per_group,
    const int x0_start,
    const int x0_row,
    const int x0_column,
    const int x0_step,
    const int x1_start,
    const int x2_start,
    const int y0_start,
    const int y0_row,
    const int y0_column)
{

    const index_t length = width;
    const index_t panels = (width + 63) / 64;
    const index_t tiles = (height + 5) / 6;
    const index_t first = (index_t)get_group_id(1) * per_group;
    const index_t last = min(first + per_group, tiles);
    const index_t batch = (index_t)get_group_id(2);

    for (index_t tile = first; tile < last; ++tile) {
        // The last rows overlap their neighbours, so that strips of them are whole.
        const index_t top = tile * 6;
        const int strips = (int)min((index_t)1, (height - top + 5) / 6);
        float16 sum_reduce_y0[24];
        float16 sum_reduce_y1[24];
        float16 sum_reduce_y2[24];
        {
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            typedef float16 typeof_reduce_y1;
            typeof_reduce_y1 reduce_y1 = 0;
            typedef float16 typeof_reduce_y2;
            typeof_reduce_y2 reduce_y2 = 0;
            {
#line 1 "snippet:outer_init"
reduce_y0 = -INFINITY; reduce_y1 = 0; reduce_y2 = 0;
#line 143 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 24; ++u) {
                sum_reduce_y0[u] = reduce_y0;
                sum_reduce_y1[u] = reduce_y1;
                sum_reduce_y2[u] = reduce_y2;
            }
        }

        for (index_t panel = 0; panel < panels; ++panel) {
            const index_t own_column = panel * 64;
            for (int strip = 0; strip < strips; ++strip) {
                const index_t from = min(top + strip * 6, height - 6);
                const int slots = strip * 6;
                float16 tile_reduce_y0[24];
                {
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = 0;
                    {
#line 1 "snippet:inner_init"
reduce_y0 = 0;
#line 166 "kernel"
                    }

                    #pragma unroll
                    for (int u = 0; u < 24; ++u) {
                        tile_reduce_y0[u] = reduce_y0;
                    }
                }

                float16 tile_level1_reduce_y0[24];
                #pragma unroll
                for (int u = 0; u < 24; ++u) {
                    tile_level1_reduce_y0[u] = tile_reduce_y0[u];
                }
                uint tile_steps = 0, tile_lifts = 0;

                index_t x0_at = x0_start + from * x0_row;
                __global const float *x1_panel = x1_memory + (x1_start) + panel * depth * 64;
                for (index_t i = 0; i < depth;) {
                    const index_t stop = min(depth, i + 32);
                    const bool full = stop - i == 32;
                    for (; i < stop; ++i) {
                        float16 column_x1[4];
                        #pragma unroll
                        for (int u = 0; u < 4; ++u)
                            column_x1[u] = vload16(u, x1_panel);
                        x1_panel += 64;
                        #pragma unroll
                        for (int r = 0; r < 6; ++r) {
                            const float row_x0 = (float)x0_memory[x0_at + r * x0_row];
                            #pragma unroll
                            for (int u = 0; u < 4; ++u) {
                                typedef float16 typeof_reduce_y0;
                                typeof_reduce_y0 reduce_y0 = tile_reduce_y0[r * 4 + u];
                                typedef float16 typeof_x0;
                                const typeof_x0 x0 = (typeof_x0)(row_x0);
                                typedef float16 typeof_x1;
                                const typeof_x1 x1 = (typeof_x1)(column_x1[u]);
                                typedef float16 typeof_y0;
                                typeof_y0 y0 = 0;
                                {
#line 1 "snippet:inner_expr"
y0 = x0 - x1;
#line 209 "kernel"
                                }
                                {
#line 1 "snippet:inner_step"
reduce_y0 += y0 * y0;
#line 214 "kernel"
                                }

                                tile_reduce_y0[r * 4 + u] = reduce_y0;

                            }
                        }
                        x0_at += x0_step;

                    }
                    if (full)
                        {
                            tile_steps = 0;
                            ++tile_lifts;
                            #pragma unroll
                            for (int u = 0; u < 24; ++u)
                                take_inner(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                            {
                                typedef float16 typeof_reduce_y0;
                                typeof_reduce_y0 reduce_y0 = 0;
                                {
#line 1 "snippet:inner_init"
reduce_y0 = 0;
#line 238 "kernel"
                                }

                                #pragma unroll
                                for (int u = 0; u < 24; ++u) {
                                    tile_reduce_y0[u] = reduce_y0;
                                }
                            }

                        }

                }
                #pragma unroll
                for (int u = 0; u < 24; ++u) {
                    take_inner(&tile_level1_reduce_y0[u], tile_reduce_y0[u]);

                    tile_reduce_y0[u] = tile_level1_reduce_y0[u];
                }

                // What follows finds its pair by number; what was added up was in registers.
                float16 done_reduce_y0[24];
                #pragma unroll
                for (int t = 0; t < 24; ++t) {
                    done_reduce_y0[t] = tile_reduce_y0[t];
                }
                float value0[384];
                float exponents[384];
                for (int u = 0; u < 4; ++u) {
                    const index_t c = own_column + u * 16;
                    const bool whole = c + 16 <= width;
                    if (c >= width)
                        break;
                    for (int r = 0; r < 6; ++r) {
                        float16 pair0;
                        {
                            typedef float16 typeof_reduce_y0;
                            const typeof_reduce_y0 reduce_y0 = done_reduce_y0[r * 4 + u];
                            {
                                typedef float16 typeof_y0;
                                typeof_y0 y0 = 0;
                                {
#line 1 "snippet:expr"
y0 = reduce_y0;
#line 281 "kernel"
                                }
                                pair0 = y0;
                            }
                        }
                        vstore16(pair0, 0, value0 + r * 64 + u * 16);
                        {
                            typedef float16 typeof_y0;
                            typedef float16 typeof_x0;
                            const typeof_x0 x0 = pair0;
                            typeof_y0 y0 = 0;
                            {
#line 1 "snippet:exponent"
y0 = x0;
#line 295 "kernel"
                            }
                            vstore16(y0, 0, exponents + r * 64 + u * 16);
                        }
                    }
                }
                const int there = (int)min((index_t)64, width - own_column);
                // Of each row the largest exponent so far, what that makes of the sums before, and
                // the panel's exponentials with their sum.
                float largest[16], scale[16], total[6];
                for (int r = 0; r < 16; ++r)
                    scale[r] = largest[r] = 0;
                for (int r = 0; r < 6; ++r) {
                    float *own_exponents = exponents + r * 64;
                    for (int j = there; j < 64; ++j)
                        own_exponents[j] = -INFINITY;
                    float lanes[16];
                    float16 most = -INFINITY, summed = 0;
                    for (int u = 0; u < 4; ++u)
                        most = fmax(most, vload16(u, own_exponents));
                    vstore16(most, 0, lanes);
                    const float before = ((float *)(sum_reduce_y0 + (slots + r) * 4))[0];
                    largest[r] = before;
                    for (int l = 0; l < 16; ++l)
                        largest[r] = fmax(largest[r], lanes[l]);
                    const float from_there = largest[r] == -INFINITY ? 0 : largest[r];
                    scale[r] = before - from_there;
                    for (int u = 0; u < 4; ++u) {
                        const float16 cp_e = exp(vload16(u, own_exponents) - from_there);
                        vstore16(cp_e, u, own_exponents);
                        summed += cp_e;
                    }
                    vstore16(summed, 0, lanes);
                    total[r] = lanes[0];
                    for (int l = 1; l < 16; ++l)
                        total[r] += lanes[l];
                }
                for (int r = 0; r < 1; ++r)
                    vstore16(exp(vload16(r, scale)), r, scale);
                for (int a = 0; a < 4; a += 4) {
                    float16 part_reduce_y0[24];
                    float16 part_reduce_y1[24];
                    float16 part_reduce_y2[24];
                    {
                        typedef float16 typeof_reduce_y0;
                        typeof_reduce_y0 reduce_y0 = 0;
                        typedef float16 typeof_reduce_y1;
                        typeof_reduce_y1 reduce_y1 = 0;
                        typedef float16 typeof_reduce_y2;
                        typeof_reduce_y2 reduce_y2 = 0;
                        {
#line 1 "snippet:outer_init"
reduce_y0 = -INFINITY; reduce_y1 = 0; reduce_y2 = 0;
#line 348 "kernel"
                        }

                        #pragma unroll
                        for (int u = 0; u < 24; ++u) {
                            part_reduce_y0[u] = reduce_y0;
                            part_reduce_y1[u] = reduce_y1;
                            part_reduce_y2[u] = reduce_y2;
                        }
                    }

                    #pragma unroll
                    for (int t = 0; t < 24; ++t) {
                        const int slot = (slots + t / 4) * 4 + a + t % 4;
                        part_reduce_y0[t] = largest[t / 4];
                        part_reduce_y1[t] = sum_reduce_y1[slot] * scale[t / 4] + total[t / 4];
                        part_reduce_y2[t] = sum_reduce_y2[slot] * scale[t / 4];
                    }
                    for (int j = 0; j < there; ++j) {
                        __global const float *x2_line = x2_memory + (x2_start) + ((own_column + j) * 4 + a) * 16;
                        float16 line_x2[4];
                        #pragma unroll
                        for (int u = 0; u < 4; ++u)
                            line_x2[u] = vload16(u, x2_line);
                        #pragma unroll
                        for (int r = 0; r < 6; ++r) {
                            const float pair0 = value0[r * 64 + j];
                            const float weight = exponents[r * 64 + j];
                            #pragma unroll
                            for (int u = 0; u < 4; ++u)
                            {
                                typedef float16 typeof_y0;
                                typedef float16 typeof_x0;
                                const typeof_x0 x0 = (typeof_x0)(pair0);
                                typedef float16 typeof_x1;
                                const typeof_x1 x1 = (typeof_x1)(line_x2[u]);
                                {
                                    typeof_y0 y0 = 0;
                                    {
#line 1 "snippet:factor_2"
y0 = x1;
#line 389 "kernel"
                                    }
                                    part_reduce_y2[r * 4 + u] += weight * y0;
                                }
                            }
                        }
                    }
                    #pragma unroll
                    for (int t = 0; t < 24; ++t)
                    {
                        sum_reduce_y0[(slots + t / 4) * 4 + a + t % 4] = part_reduce_y0[t];
                        sum_reduce_y1[(slots + t / 4) * 4 + a + t % 4] = part_reduce_y1[t];
                        sum_reduce_y2[(slots + t / 4) * 4 + a + t % 4] = part_reduce_y2[t];
                    }
                }
            }
        }
        for (int r = 0; r < 6 * strips; ++r) {
            const index_t row = min(top + r / 6 * 6, height - 6) + r % 6;
            if (row < top + r / 6 * 6)
                continue;  // a strip before has it
            for (index_t cp_e = 0; cp_e < spread; ++cp_e) {
                typedef float typeof_reduce_y0;
                const typeof_reduce_y0 reduce_y0 = ((float *)(sum_reduce_y0 + r * 4))[cp_e];
                typedef float typeof_reduce_y1;
                const typeof_reduce_y1 reduce_y1 = ((float *)(sum_reduce_y1 + r * 4))[cp_e];
                typedef float typeof_reduce_y2;
                const typeof_reduce_y2 reduce_y2 = ((float *)(sum_reduce_y2 + r * 4))[cp_e];
                const index_t y0_at = y0_start + row * y0_row + cp_e * y0_column;
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                const long count = length;
                {
#line 1 "snippet:outer_finalize"
y0 = reduce_y2 / reduce_y1;
#line 424 "kernel"
                }
                y0_memory[y0_at] = y0;

            }
        }
    }
}
