typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, const float other_y0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 15 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reduction(
    __global float *y0_memory,
    __global const float *x0_memory,
    const int n,
    const int length,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int y0_start,
    const int y0_step,
    const int y0_column)
{

    const index_t band = (index_t)get_group_id(0);
    const index_t split = (index_t)get_group_id(1);
    const index_t begin = split * chunk * 3;
    const index_t end = min(begin + chunk * 3, length * 3);

    const index_t x0_at = x0_start;
    float16 tile_reduce_y0[3];
    {
        typedef float16 typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 50 "kernel"
        }

        #pragma unroll
        for (int u = 0; u < 3; ++u) {
            tile_reduce_y0[u] = reduce_y0;
        }
    }

    index_t e = begin;
    for (; e + 48 <= end; e += 48) {
        #pragma unroll
        for (int u = 0; u < 3; ++u) {
            const index_t at = e + u * 16;

            typedef float16 typeof_reduce_y0;
            typeof_reduce_y0 reduce_y0 = tile_reduce_y0[u];
            typedef float16 typeof_x0;
            const typeof_x0 x0 = vload16(0, x0_memory + x0_at + at);
            typedef float16 typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0;
#line 74 "kernel"
            }
            {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 79 "kernel"
            }

            tile_reduce_y0[u] = reduce_y0;

        }
    }
    float done_reduce_y0[48];
    #pragma unroll
    for (int u = 0; u < 3; ++u) {
        vstore16(tile_reduce_y0[u], u, done_reduce_y0);
    }
    for (index_t c = 0; c < 3; ++c) {
        typedef float typeof_reduce_y0;
        typeof_reduce_y0 reduce_y0 = 0;
        {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 97 "kernel"
        }

        // The last rows fill no tile.
        for (index_t f = e + c; f < end; f += 3) {
            typedef float typeof_x0;
            const typeof_x0 x0 = (float)x0_memory[x0_at + f];
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0;
#line 109 "kernel"
            }
            {
#line 1 "snippet:step"
reduce_y0 += y0;
#line 114 "kernel"
            }

        }
        for (int t = c; t < 48; t += 3)
            take_partial(&reduce_y0, done_reduce_y0[t]);
        const index_t o = band * 3 + c;
        const index_t y0_at = y0_start + c * y0_column;
        typedef float typeof_y0;
        typeof_y0 y0 = (float)reduce_y0;
        y0_memory[y0_at] = y0;

    }
}
