// The contiguous loop is reduced: a work-group walks along it for one output at a time.
//
//     reduced space  |---- row 0 ----|---- row 1 ----| ...      cp_n elements a row, rows anywhere
//     chunk          . . [begin ............... end) . .      what this group's split takes
//     work-items     l l l l l l l l l l l l l l l l          1 side by side, 16 elements each,
//     tile           u u u u u u u u                          4 times: independent accumulators
typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY
#define lowest_reduce_y1 -INFINITY
#define highest_reduce_y1 INFINITY
#define lowest_reduce_y2 -INFINITY
#define highest_reduce_y2 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, float *to_reduce_y1, float *to_reduce_y2, const float other_y0, const float other_y1, const float other_y2)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    typedef float typeof_reduce_y1;
    typeof_reduce_y1 reduce_y1 = *to_reduce_y1;
    typedef float typeof_reduce_y2;
    typeof_reduce_y2 reduce_y2 = *to_reduce_y2;
    {
#line 1 "snippet:combine"
typeof_reduce_y0 n = reduce_y2 + other_y2;
if (other_y2 > 0) {
    typeof_reduce_y0 delta = other_y0 - reduce_y0;
    reduce_y0 += delta * (other_y2 / n);
    reduce_y1 += other_y1 + delta * delta * (reduce_y2 * other_y2 / n);
    reduce_y2 = n;
}
#line 35 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
    *to_reduce_y1 = reduce_y1;
    *to_reduce_y2 = reduce_y2;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void mean_and_variance(
    __global const float *x0_memory,
    __global float *reduce_y0_memory,
    __global float *reduce_y1_memory,
    __global float *reduce_y2_memory,
    const int cp_n,
    const int length,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int k0,
    const int r0,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int x0_k0,
    const int x0_r0)
{

    const index_t lane = 0;
    const index_t first = (index_t)get_group_id(0) * per_group;
    const index_t last = min(first + per_group, outputs);
    const index_t split = (index_t)get_group_id(1);

    index_t kept_rest = first;
    index_t at_k0 = kept_rest;

    for (index_t o = first; o < last; ++o) {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        typedef float typeof_reduce_y1;
        typeof_reduce_y1 reduce_y1 = 0;
        typedef float typeof_reduce_y2;
        typeof_reduce_y2 reduce_y2 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;
#line 80 "kernel"
        }

        float16 tile_reduce_y0[4];
        float16 tile_reduce_y1[4];
        float16 tile_reduce_y2[4];
        {
            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = 0;
            typedef float16 typeof_reduce_y1;
            typeof_reduce_y1 reduce_y1 = 0;
            typedef float16 typeof_reduce_y2;
            typeof_reduce_y2 reduce_y2 = 0;
            {
#line 1 "snippet:init"
reduce_y0 = 0; reduce_y1 = 0; reduce_y2 = 0;
#line 96 "kernel"
            }

            #pragma unroll
            for (int u = 0; u < 4; ++u) {
                tile_reduce_y0[u] = reduce_y0;
                tile_reduce_y1[u] = reduce_y1;
                tile_reduce_y2[u] = reduce_y2;
            }
        }

        {
            index_t e = 0;
            const index_t stop = cp_n;
            index_t reduced_rest = split;
            const index_t at_r0 = reduced_rest;

            const index_t x0_at = x0_start + at_k0 * x0_k0 + at_r0 * x0_r0;

            for (; e + 64 <= stop; e += 64) {
                #pragma unroll
                for (int u = 0; u < 4; ++u) {
                    const index_t at = e + (u * 1 + lane) * 16;
                    typedef float16 typeof_reduce_y0;
                    typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                    typedef float16 typeof_reduce_y1;
                    typeof_reduce_y1 reduce_y1 = tile_reduce_y1[u];
                    typedef float16 typeof_reduce_y2;
                    typeof_reduce_y2 reduce_y2 = tile_reduce_y2[u];
                    typedef float16 typeof_x0;
                    const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
                    typedef float16 typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0;
#line 132 "kernel"
                    }
                    {
#line 1 "snippet:step"
reduce_y2 += 1;
typeof_reduce_y0 delta = y0 - reduce_y0;
reduce_y0 += delta / reduce_y2;
reduce_y1 += delta * (y0 - reduce_y0);
#line 140 "kernel"
                    }

                    tile_reduce_y0[u] = reduce_y0;
                    tile_reduce_y1[u] = reduce_y1;
                    tile_reduce_y2[u] = reduce_y2;

                }

            }
            for (; e + 16 <= stop; e += 16) {
                const int u = 0;
                const index_t at = e + lane * 16;
                typedef float16 typeof_reduce_y0;
                typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
                typedef float16 typeof_reduce_y1;
                typeof_reduce_y1 reduce_y1 = tile_reduce_y1[u];
                typedef float16 typeof_reduce_y2;
                typeof_reduce_y2 reduce_y2 = tile_reduce_y2[u];
                typedef float16 typeof_x0;
                const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
                typedef float16 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 166 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y2 += 1;
typeof_reduce_y0 delta = y0 - reduce_y0;
reduce_y0 += delta / reduce_y2;
reduce_y1 += delta * (y0 - reduce_y0);
#line 174 "kernel"
                }

                tile_reduce_y0[u] = reduce_y0;
                tile_reduce_y1[u] = reduce_y1;
                tile_reduce_y2[u] = reduce_y2;

            }
            // What fills no vector.
            for (e += lane; e < stop; e += 1) {
                typedef float typeof_x0;
                const typeof_x0 x0 = (float)x0_memory[x0_at + e];
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:expr"
y0 = x0;
#line 191 "kernel"
                }
                {
#line 1 "snippet:step"
reduce_y2 += 1;
typeof_reduce_y0 delta = y0 - reduce_y0;
reduce_y0 += delta / reduce_y2;
reduce_y1 += delta * (y0 - reduce_y0);
#line 199 "kernel"
                }

            }
        }

        {
            #pragma unroll
            for (int u = 1; u < 4; ++u)
            {
                float16 vector_reduce_y0 = tile_reduce_y0[u];
                float16 vector_reduce_y1 = tile_reduce_y1[u];
                float16 vector_reduce_y2 = tile_reduce_y2[u];
                float lanes_reduce_y0[16];
                vstore16(vector_reduce_y0, 0, lanes_reduce_y0);
                float lanes_reduce_y1[16];
                vstore16(vector_reduce_y1, 0, lanes_reduce_y1);
                float lanes_reduce_y2[16];
                vstore16(vector_reduce_y2, 0, lanes_reduce_y2);
                for (int l = 0; l < 16; ++l)
                    take_partial(&reduce_y0, &reduce_y1, &reduce_y2, lanes_reduce_y0[l], lanes_reduce_y1[l], lanes_reduce_y2[l]);

            }
            const float16 vector_reduce_y0 = tile_reduce_y0[0];
            const float16 vector_reduce_y1 = tile_reduce_y1[0];
            const float16 vector_reduce_y2 = tile_reduce_y2[0];
            float lanes_reduce_y0[16];
            vstore16(vector_reduce_y0, 0, lanes_reduce_y0);
            float lanes_reduce_y1[16];
            vstore16(vector_reduce_y1, 0, lanes_reduce_y1);
            float lanes_reduce_y2[16];
            vstore16(vector_reduce_y2, 0, lanes_reduce_y2);
            for (int l = 0; l < 16; ++l)
                take_partial(&reduce_y0, &reduce_y1, &reduce_y2, lanes_reduce_y0[l], lanes_reduce_y1[l], lanes_reduce_y2[l]);

        }
        {
            reduce_y0_memory[split * outputs + o] = reduce_y0;
            reduce_y1_memory[split * outputs + o] = reduce_y1;
            reduce_y2_memory[split * outputs + o] = reduce_y2;

        }
        ++at_k0;

    }
}
