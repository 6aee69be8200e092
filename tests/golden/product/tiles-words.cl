// A matrix product whose operands are read where they lie: one is gathered from an array, as the
// windows of a convolution are, or is simply a matrix.
//
//                         columns: 64
//                    +------------------+
//     depth: 16      |  b               |      A work-group of 32 x 8 work-items computes a tile
//     steps          +------------------+      of 128 rows x 64 columns. 16 steps of k at a
//     +-------+      +------------------+      time, it copies its parts of both operands to local
//     | a:    |      |      +--+        |      memory, and every work-item multiplies what it needs
//     | rows: |      |      |  |  4     |      of them into 4 x 8 sums in registers.
//     | 128   |      |      +--+        |
//     |       |      |        8         |      There are two tiles of each: while one is multiplied,
//     +-------+      +------------------+      the next is on its way from global memory, through
//                                              registers, to the other.
//
// Rows are the lanes of what is gathered, columns the outputs: columns lie side by side in the result.
// Lanes and steps of k are numbers of up to three digits: (image, y, x) of a pixel, (y, x,
// channel) of a window's element. Element (lane, depth) of the gathered operand lies at the sum of
// their places and, where windows may leave the array, of their rows and columns of a plane, outside
// of which it is 0.
typedef int index_t;

#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
#define dot_of_words(a, b) ((int)dot_4x8packed_ss_int(as_uint(a), as_uint(b)))
#else
static inline int dot_of_words(int a, int b)
{
    const char4 p = as_char4(a);
    const char4 q = as_char4(b);
    return p.s0 * q.s0 + p.s1 * q.s1 + p.s2 * q.s2 + p.s3 * q.s3;
}
#endif
static inline int4 add_words(int a, int4 b, int4 sum)
{
    return sum + (int4)(dot_of_words(a, b.s0), dot_of_words(a, b.s1), dot_of_words(a, b.s2), dot_of_words(a, b.s3));
}

// Places are never negative, and an unsigned number is a shorter way to an address.
typedef uint place_t;
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void matmul(
    __global const int *x_memory,
    __global const int *w_memory,
    __global char *y0_memory,
    const int lanes,
    const int outputs,
    const int groups,
    const int splits,
    const int lane_tiles,
    const int output_tiles,
    const int depth,
    const int chunk,
    const int x_start,
    const int x_group,
    const int w_start,
    const int w_group,
    const int w_output,
    const int x_lane_2,
    const int x_step,
    const int w_step,
    const int y0_start,
    const int y0_group,
    const int y0_output,
    const int y0_lane_2)
{
    // A step of k is a vector longer than the tile, so that neighbouring steps begin in
    // different banks of local memory: whoever reads along depth writes across it.
    __local int4 row_tiles[1056];
    __local int4 column_tiles[544];

    const int item = get_local_id(0);
    const int item_x = item % 8;
    const int item_y = item / 8;
    // Neighbouring groups share lanes, the larger operand as a rule: it comes from the cache then.
    index_t rest = (index_t)get_group_id(0);
    const index_t output_tile = rest % output_tiles;
    rest /= output_tiles;
    const index_t lane_tile = rest % lane_tiles;
    rest /= lane_tiles;
    const index_t group = rest % groups;
    const index_t split = rest / groups;
    const index_t begin = split * chunk;
    const index_t end = min(begin + chunk, depth);

    index_t x_places[2];
    int4 x_next[2];
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int unit = item + n * 256;
        const int k = unit % 4 * 4;
        const int lane = unit / 4;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(lane_tile * 128 + lane, lanes - 1);
        index_t digit_2;
        digit_2 = number;
        x_places[n] = x_start + group * x_group + digit_2 * x_lane_2;
        x_places[n] += k * x_step;
    }
    index_t w_places[1];
    int4 w_next[1];
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        const int unit = item + n * 256;
        const int k = unit % 4 * 4;
        const int lane = unit / 4;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(output_tile * 64 + lane, outputs - 1);
        w_places[n] = w_start + group * w_group + number * w_output;
        w_places[n] += k * w_step;
    }
    int4 sum[4][2];
    #pragma unroll
    for (int j = 0; j < 4; ++j)
        #pragma unroll
        for (int v = 0; v < 2; ++v)
            sum[j][v] = 0;

    if (begin < end) {
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int unit = item + n * 256;
            const int k = unit % 4 * 4;
            const int lane = unit / 4;
            const place_t place = x_places[n] + begin * x_step;
            x_next[n] = *(__global const int4 *)(x_memory + place);
        }
        #pragma unroll
        for (int n = 0; n < 1; ++n) {
            const int unit = item + n * 256;
            const int k = unit % 4 * 4;
            const int lane = unit / 4;
            const place_t place = w_places[n] + begin * w_step;
            w_next[n] = *(__global const int4 *)(w_memory + place);
        }
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int unit = item + n * 256;
            const int k = unit % 4 * 4;
            const int lane = unit / 4;
            __local int *to = (__local int *)row_tiles + (0 * 16 + k) * 132 + lane;
            to[0] = x_next[n].s0;
            to[132] = x_next[n].s1;
            to[2 * 132] = x_next[n].s2;
            to[3 * 132] = x_next[n].s3;
        }
        #pragma unroll
        for (int n = 0; n < 1; ++n) {
            const int unit = item + n * 256;
            const int k = unit % 4 * 4;
            const int lane = unit / 4;
            __local int *to = (__local int *)column_tiles + (0 * 16 + k) * 68 + lane;
            to[0] = w_next[n].s0;
            to[68] = w_next[n].s1;
            to[2 * 68] = w_next[n].s2;
            to[3 * 68] = w_next[n].s3;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    int buffer = 0;
    for (index_t from = begin; from < end; from += 16) {
        const index_t next = from + 16;
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int unit = item + n * 256;
                const int k = unit % 4 * 4;
                const int lane = unit / 4;
                const place_t place = x_places[n] + next * x_step;
                x_next[n] = *(__global const int4 *)(x_memory + place);
            }
            #pragma unroll
            for (int n = 0; n < 1; ++n) {
                const int unit = item + n * 256;
                const int k = unit % 4 * 4;
                const int lane = unit / 4;
                const place_t place = w_places[n] + next * w_step;
                w_next[n] = *(__global const int4 *)(w_memory + place);
            }
        }

        // Work-items side by side take vectors side by side, so every bank is read once.
        __local const int4 *a = row_tiles + buffer * 528 + item_y;
        __local const int4 *b = column_tiles + buffer * 272 + item_x;
        #pragma unroll 4
        for (int k = 0; k < 16; ++k) {
            int factors[4];
            #pragma unroll
            for (int v = 0; v < 1; ++v)
                vstore4(a[k * 33 + v * 32], v, factors);
            int4 vectors[2];
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                vectors[v] = b[k * 17 + v * 8];
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                #pragma unroll
                for (int v = 0; v < 2; ++v)
                    sum[j][v] = add_words(factors[j], vectors[v], sum[j][v]);
        }

        buffer ^= 1;
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int unit = item + n * 256;
                const int k = unit % 4 * 4;
                const int lane = unit / 4;
                __local int *to = (__local int *)row_tiles + (buffer * 16 + k) * 132 + lane;
                to[0] = x_next[n].s0;
                to[132] = x_next[n].s1;
                to[2 * 132] = x_next[n].s2;
                to[3 * 132] = x_next[n].s3;
            }
            #pragma unroll
            for (int n = 0; n < 1; ++n) {
                const int unit = item + n * 256;
                const int k = unit % 4 * 4;
                const int lane = unit / 4;
                __local int *to = (__local int *)column_tiles + (buffer * 16 + k) * 68 + lane;
                to[0] = w_next[n].s0;
                to[68] = w_next[n].s1;
                to[2 * 68] = w_next[n].s2;
                to[3 * 68] = w_next[n].s3;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    const index_t rows = lanes;
    const index_t columns = outputs;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        const index_t row = lane_tile * 128 + item_y * 4 + j / 4 * 128 + j % 4;
        if (row < rows) {
            index_t digit_2;
            digit_2 = row;
            const index_t y0_row = y0_start + group * y0_group + digit_2 * y0_lane_2;
            #pragma unroll
            for (int v = 0; v < 2; ++v) {
                const index_t column = output_tile * 64 + (item_x + v * 8) * 4;
                const int4 values = sum[j][v];
                if (column + 4 <= columns) {
                    const int c = 0;
                    int4 y0 = values;
                    vstore4(convert_char4(y0), 0, y0_memory + y0_row + (column + c) * y0_output);
                } else
                {
                    int elements[4];
                    vstore4(values, 0, elements);
                    #pragma unroll
                    for (int c = 0; c < 4; ++c)
                        if (column + c < columns) {
                            int y0 = elements[c];
                            y0_memory[y0_row + (column + c) * y0_output] = y0;
                        }
                }
            }
        }
    }
}
