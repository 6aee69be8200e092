// Pairs of rows and columns, each a value of its own, which no memory holds: a work-item keeps what
// 1 x 6 rows have found so far and walks all columns, 4 x 16 a panel, 6 rows at a time.
//
//     panel            inner reduction of its pairs, in registers
//                      expr: values of its pairs
//     rows  o o ...    outer step: each row takes its values in
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY

static inline __attribute__((overloadable)) void take_inner(
float16 *to_reduce_y0, const float16 other_y0, const float w0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:inner_combine"
reduce_y0 += other_y0;
#line 21 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_outer(
float16 *to_reduce_y0, const float16 other_y0, const float w0)
{
    typedef float16 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:outer_combine"
reduce_y0 += other_y0;
#line 34 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_outer(
float8 *to_reduce_y0, const float8 other_y0, const float w0)
{
    typedef float8 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:outer_combine"
reduce_y0 += other_y0;
#line 47 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_outer(
float4 *to_reduce_y0, const float4 other_y0, const float w0)
{
    typedef float4 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:outer_combine"
reduce_y0 += other_y0;
#line 60 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_outer(
float2 *to_reduce_y0, const float2 other_y0, const float w0)
{
    typedef float2 typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:outer_combine"
reduce_y0 += other_y0;
#line 73 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

static inline __attribute__((overloadable)) void take_outer(
float *to_reduce_y0, const float other_y0, const float w0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:outer_combine"
reduce_y0 += other_y0;
#line 86 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void kernel_sum(
    __global float *y0_memory,
    __global const float *x0_memory,
    __global const float *x1_memory,
    __global const float *x2_memory,
    const float w0,
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
    const int x2_row,
    const int x2_column,
    const int x2_step,
    const int y0_start,
    const int y0_row,
    const int y0_column)
{
    typedef float typeof_w0;

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
        float16 sum_reduce_y0[6];
        {
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:outer_init"
reduce_y0 = 0;
#line 135 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 6; ++u) {
                sum_reduce_y0[u] = reduce_y0;
            }
        }

        // What fills no vector.
        float rest_reduce_y0[6];
        {
            typedef float typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:outer_init"
reduce_y0 = 0;
#line 152 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 6; ++u) {
                rest_reduce_y0[u] = reduce_y0;
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
#line 173 "kernel"
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
#line 216 "kernel"
                                }
                                {
#line 1 "snippet:inner_step"
reduce_y0 += y0 * y0;
#line 221 "kernel"
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
                                take_inner(&tile_level1_reduce_y0[u], tile_reduce_y0[u], w0);

                            {
                                typedef float16 typeof_reduce_y0;
                                typeof_reduce_y0 reduce_y0 = 0;
                                {
#line 1 "snippet:inner_init"
reduce_y0 = 0;
#line 245 "kernel"
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
                    take_inner(&tile_level1_reduce_y0[u], tile_reduce_y0[u], w0);

                    tile_reduce_y0[u] = tile_level1_reduce_y0[u];
                }

                // What follows finds its pair by number; what was added up was in registers.
                float16 done_reduce_y0[24];
                #pragma unroll
                for (int t = 0; t < 24; ++t) {
                    done_reduce_y0[t] = tile_reduce_y0[t];
                }
                for (int u = 0; u < 4; ++u) {
                    const index_t c = own_column + u * 16;
                    const bool whole = c + 16 <= width;
                    if (c >= width)
                        break;
                    float16 of_x2;
                    if (whole)
                        of_x2 = vload16(0, x2_memory + x2_start + (c) * x2_column);
                    else
                    {
                        float lanes[16];
                        for (int l = 0; l < 16; ++l)
                            lanes[l] = (float)x2_memory[x2_start + (min(c + l, width - 1)) * x2_column];
                        of_x2 = vload16(0, lanes);
                    }

                    for (int r = 0; r < 6; ++r) {
                        float16 pair0;
                        {
                            typedef float16 typeof_reduce_y0;
                            const typeof_reduce_y0 reduce_y0 = done_reduce_y0[r * 4 + u];
                            typedef float16 typeof_x2;
                            const typeof_x2 x2 = (typeof_x2)(of_x2);
                            {
                                typedef float16 typeof_y0;
                                typeof_y0 y0 = 0;
                                {
#line 1 "snippet:expr"
y0 = exp(-reduce_y0 * w0) * x2;
#line 299 "kernel"
                                }
                                pair0 = y0;
                            }
                        }
                        if (whole) {
                            typedef float16 typeof_reduce_y0;
                            typeof_reduce_y0 reduce_y0 = sum_reduce_y0[slots + r];
                            typedef float16 typeof_x0;
                            const typeof_x0 x0 = (typeof_x0)(pair0);
                            typedef float16 typeof_y0;
                            typeof_y0 y0 = 0;
                            {
#line 1 "snippet:outer_expr"
y0 = x0;
#line 314 "kernel"
                            }
                            {
#line 1 "snippet:outer_step"
reduce_y0 += y0;
#line 319 "kernel"
                            }

                            sum_reduce_y0[slots + r] = reduce_y0;
                        }

                        else
                        {
                            float lanes0[16];
                            vstore16(pair0, 0, lanes0);
                            const int there = (int)min((index_t)16, width - c);
                            #pragma clang loop vectorize(disable)
                            for (int l = 0; l < there; ++l)
                                {
                                    typedef float typeof_reduce_y0;
                                    typeof_reduce_y0 reduce_y0 = rest_reduce_y0[slots + r];
                                    typedef float typeof_x0;
                                    const typeof_x0 x0 = (typeof_x0)(lanes0[l]);
                                    typedef float typeof_y0;
                                    typeof_y0 y0 = 0;
                                    {
#line 1 "snippet:outer_expr"
y0 = x0;
#line 342 "kernel"
                                    }
                                    {
#line 1 "snippet:outer_step"
reduce_y0 += y0;
#line 347 "kernel"
                                    }

                                    rest_reduce_y0[slots + r] = reduce_y0;
                                }

                        }
                    }
                }
            }
        }
        for (int r = 0; r < 6 * strips; ++r) {
            const index_t row = min(top + r / 6 * 6, height - 6) + r % 6;
            if (row < top + r / 6 * 6)
                continue;  // a strip before has it
            typedef float typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            {
#line 1 "snippet:outer_init"
reduce_y0 = 0;
#line 367 "kernel"
            }

            float16 vector_reduce_y0 = sum_reduce_y0[r];
            // Halves onto halves, down to a single value.
            float8 half8_reduce_y0 = vector_reduce_y0.lo;
            take_outer(&half8_reduce_y0, vector_reduce_y0.hi, w0);
            float4 half4_reduce_y0 = half8_reduce_y0.lo;
            take_outer(&half4_reduce_y0, half8_reduce_y0.hi, w0);
            float2 half2_reduce_y0 = half4_reduce_y0.lo;
            take_outer(&half2_reduce_y0, half4_reduce_y0.hi, w0);
            float half1_reduce_y0 = half2_reduce_y0.lo;
            take_outer(&half1_reduce_y0, half2_reduce_y0.hi, w0);
            take_outer(&reduce_y0, half1_reduce_y0, w0);

            take_outer(&reduce_y0, rest_reduce_y0[r], w0);
            const index_t y0_at = y0_start + row * y0_row;
            typedef float typeof_y0;
            typeof_y0 y0 = (float)reduce_y0;
            y0_memory[y0_at] = y0;

        }
    }
}
