// Every element by itself, where an operand repeats along contiguous memory, as one value a channel
// does in channels-last images. Rows are not walked one by one: vectors run across their ends.
//
//     x0       | c0 c1 c2 | c0 c1 c2 | c0 c1 c2 | c0 c1 c2 | ...
//     vectors  |---- u = 0 ----|---- u = 1 ----|---- u = 2 ----|
//     x1       |- pattern[0] --|- pattern[1] --|- pattern[2] --|   3 vectors, then they repeat
//
// A run of `run` elements starts where the pattern does.
typedef int index_t;

__kernel void pointwise(
    __global float *y0_memory,
    __global const float *x0_memory,
    __global const float *x1_memory,
    const int n,
    const int rows,
    const int run,
    const int period,
    const int y0_start,
    const int x0_start,
    const int x1_start)
{
    index_t i = (index_t)get_global_id(0) * run;
    const index_t row = (index_t)get_global_id(1);
    if (i >= n || row >= rows)
        return;
    const index_t y0_row = y0_start;
    const index_t x0_row = x0_start;
    const index_t x1_row = x1_start;

    float16 x1_pattern[3];
    {
        float values[48];
        for (index_t t = 0, c = 0; t < 48; ++t) {
            values[t] = (float)x1_memory[x1_row + c];
            if (++c == period)
                c = 0;
        }
        #pragma unroll
        for (int u = 0; u < 3; ++u)
            x1_pattern[u] = vload16(u, values);
    }

    const index_t stop = min(i + run, n);
    for (; i + 48 <= stop; i += 48) {
        #pragma unroll
        for (int u = 0; u < 3; ++u) {
            const index_t e = i + u * 16;
            const float16 x0 = vload16(0, x0_memory + x0_row + e);
            typedef float16 typeof_x0;
            const float16 x1 = x1_pattern[u];
            typedef float16 typeof_x1;
            typedef float16 typeof_y0;
            typeof_y0 y0 = 0;
            {
#line 1 "snippet:expr"
y0 = x0 + x1;
#line 59 "kernel"
            }
            vstore16(y0, 0, y0_memory + y0_row + e);

        }
    }
    // The last elements fill no pattern.
    for (; i < stop; ++i) {
        const float x0 = (float)x0_memory[x0_row + i];
        typedef float typeof_x0;
        const float x1 = (float)x1_memory[x1_row + i % period];
        typedef float typeof_x1;
        typedef float typeof_y0;
        typeof_y0 y0 = 0;
        {
#line 1 "snippet:expr"
y0 = x0 + x1;
#line 76 "kernel"
        }
        y0_memory[y0_row + i] = y0;

    }
}
