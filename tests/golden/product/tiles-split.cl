// A matrix product whose operands are read where they lie: one is gathered from an array, as the
// windows of a convolution are, or is simply a matrix.
//
//                         columns: 128
//                    +------------------+
//     depth: 16      |  b               |      A work-group of 8 x 32 work-items computes a tile
//     steps          +------------------+      of 32 rows x 128 columns. 16 steps of k at a
//     +-------+      +------------------+      time, it copies its parts of both operands to local
//     | a:    |      |      +--+        |      memory, and every work-item multiplies what it needs
//     | rows: |      |      |  |  4     |      of them into 4 x 4 sums in registers.
//     |  32   |      |      +--+        |
//     |       |      |        4         |      There are two tiles of each: while one is multiplied,
//     +-------+      +------------------+      the next is on its way from global memory, through
//                                              registers, to the other.
//
// Rows are the outputs, columns the lanes of what is gathered: columns lie side by side in the result.
// Lanes and steps of k are numbers of up to three digits: (image, y, x) of a pixel, (y, x,
// channel) of a window's element. Element (lane, depth) of the gathered operand lies at the sum of
// their places and, where windows may leave the array, of their rows and columns of a plane, outside
// of which it is 0.
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
static inline __attribute__((overloadable)) float4 cp_max(float4 a, float4 b)
{
    return max(a, b);
}
#undef max
#define max(a, b) ({ \
    __auto_type cp_in_a = (a); \
    __auto_type cp_in_b = (b); \
    typedef __typeof__(cp_in_a + cp_in_b) cp_type; \
    cp_max((cp_type)cp_in_a, (cp_type)cp_in_b); })

// Places are never negative, and an unsigned number is a shorter way to an address.
typedef uint place_t;
// What a step of k adds to a place, and to the row and the column of a plane.
typedef struct __attribute__((aligned(16))) {
    index_t x;
    int row, column;
} step_t;

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void conv2d(
    __global const float *x_memory,
    __global const float *w_memory,
    __global float *partial,
    const int lanes,
    const int outputs,
    const int groups,
    const int splits,
    const int lane_2,
    const int lane_tiles,
    const int output_tiles,
    const int depth,
    const int chunk,
    const int x_start,
    const int x_group,
    const int w_start,
    const int w_group,
    const int w_output,
    const int x_lane_1,
    const int x_lane_2,
    const int w_step,
    const int height,
    const int width,
    const int row_start,
    const int column_start,
    const int row_lane_1,
    const int row_lane_2,
    const int column_lane_1,
    const int column_lane_2,
    const int depth_1,
    const int depth_2,
    const int x_depth_0,
    const int x_depth_1,
    const int x_depth_2,
    const int row_depth_0,
    const int row_depth_1,
    const int row_depth_2,
    const int column_depth_0,
    const int column_depth_1,
    const int column_depth_2,
    const int padded_rows,
    const int pitch)
{
    // A step of k is a vector longer than the tile, so that neighbouring steps begin in
    // different banks of local memory: whoever reads along depth writes across it.
    __local float4 row_tiles[288];
    __local float4 column_tiles[1056];
    __local step_t notes[256];

    const int item = get_local_id(0);
    const int item_x = item % 32;
    const int item_y = item / 32;
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

    index_t x_places[8];
    float x_next[8];
    int x_rows[8], x_columns[8];
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        const int unit = item + n * 256;
        const int k = unit / 128;
        const int lane = unit % 128;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(lane_tile * 128 + lane, lanes - 1);
        index_t digit_1, digit_2;
        {
            index_t rest = number;
            digit_2 = rest % lane_2;
            rest /= lane_2;
            digit_1 = rest;
        }
        x_places[n] = x_start + group * x_group + digit_1 * x_lane_1 + digit_2 * x_lane_2;
        x_rows[n] = row_start + digit_1 * row_lane_1 + digit_2 * row_lane_2;
        x_columns[n] = column_start + digit_1 * column_lane_1 + digit_2 * column_lane_2;
    }
    index_t w_places[1];
    float4 w_next[1];
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        const int unit = item + n * 256;
        const int k = unit % 4 * 4;
        const int lane = unit / 4;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(output_tile * 32 + lane, outputs - 1);
        w_places[n] = w_start + group * w_group + number * w_output;
        w_places[n] += k * w_step;
    }
    float4 sum[4][1];
    #pragma unroll
    for (int j = 0; j < 4; ++j)
        #pragma unroll
        for (int v = 0; v < 1; ++v)
            sum[j][v] = 0;

    // A work-item notes where one step of k lies: so it divides once for as many steps as there
    // are work-items, and reads of the others' notes.
    {
        index_t digit_0, digit_1, digit_2;
        {
            index_t rest = begin + item;
            digit_2 = rest % depth_2;
            rest /= depth_2;
            digit_1 = rest % depth_1;
            rest /= depth_1;
            digit_0 = rest;
        }
        __local step_t *step = notes + item;
        step->x = digit_0 * x_depth_0 + digit_1 * x_depth_1 + digit_2 * x_depth_2;
        step->row = digit_0 * row_depth_0 + digit_1 * row_depth_1 + digit_2 * row_depth_2;
        step->column = digit_0 * column_depth_0 + digit_1 * column_depth_1 + digit_2 * column_depth_2;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (begin < end) {
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            const int unit = item + n * 256;
            const int k = unit / 128;
            const int lane = unit % 128;
            const step_t step = notes[k];
            const place_t place = x_places[n] + step.x;
            // No branch: what is outside reads the first element there is, and takes 0 instead.
            const int inside = ((uint)(x_rows[n] + step.row) < (uint)height)
                & ((uint)(x_columns[n] + step.column) < (uint)width);
            const place_t safe = inside ? place : 0;
            const float value = (float)x_memory[safe];
            x_next[n] = inside ? value : 0;
        }
        #pragma unroll
        for (int n = 0; n < 1; ++n) {
            const int unit = item + n * 256;
            const int k = unit % 4 * 4;
            const int lane = unit / 4;
            if (unit >= 128)
                continue;
            const place_t place = w_places[n] + begin * w_step;
            w_next[n] = *(__global const float4 *)(w_memory + place);
        }
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            const int unit = item + n * 256;
            const int k = unit / 128;
            const int lane = unit % 128;
            __local float *to = (__local float *)column_tiles + (0 * 16 + k) * 132 + lane;
            *to = x_next[n];
        }
        #pragma unroll
        for (int n = 0; n < 1; ++n) {
            const int unit = item + n * 256;
            const int k = unit % 4 * 4;
            const int lane = unit / 4;
            if (unit >= 128)
                continue;
            __local float *to = (__local float *)row_tiles + (0 * 16 + k) * 36 + lane;
            to[0] = w_next[n].s0;
            to[36] = w_next[n].s1;
            to[2 * 36] = w_next[n].s2;
            to[3 * 36] = w_next[n].s3;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    int buffer = 0;
    for (index_t noted = begin; noted < end; noted += 256) {
        // Notes for the tiles that are read in this round: each one while the tile before it is
        // multiplied.
        {
            index_t digit_0, digit_1, digit_2;
            {
                index_t rest = noted + 16 + item;
                digit_2 = rest % depth_2;
                rest /= depth_2;
                digit_1 = rest % depth_1;
                rest /= depth_1;
                digit_0 = rest;
            }
            __local step_t *step = notes + item;
            step->x = digit_0 * x_depth_0 + digit_1 * x_depth_1 + digit_2 * x_depth_2;
            step->row = digit_0 * row_depth_0 + digit_1 * row_depth_1 + digit_2 * row_depth_2;
            step->column = digit_0 * column_depth_0 + digit_1 * column_depth_1 + digit_2 * column_depth_2;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const index_t stop = min(noted + 256, end);
        for (index_t from = noted; from < stop; from += 16) {
            const index_t next = from + 16;
            if (next < end) {
                #pragma unroll
                for (int n = 0; n < 8; ++n) {
                    const int unit = item + n * 256;
                    const int k = unit / 128;
                    const int lane = unit % 128;
                    const step_t step = notes[(from - noted) + k];
                    const place_t place = x_places[n] + step.x;
                    // No branch: what is outside reads the first element there is, and takes 0 instead.
                    const int inside = ((uint)(x_rows[n] + step.row) < (uint)height)
                        & ((uint)(x_columns[n] + step.column) < (uint)width);
                    const place_t safe = inside ? place : 0;
                    const float value = (float)x_memory[safe];
                    x_next[n] = inside ? value : 0;
                }
                #pragma unroll
                for (int n = 0; n < 1; ++n) {
                    const int unit = item + n * 256;
                    const int k = unit % 4 * 4;
                    const int lane = unit / 4;
                    if (unit >= 128)
                        continue;
                    const place_t place = w_places[n] + next * w_step;
                    w_next[n] = *(__global const float4 *)(w_memory + place);
                }
            }

            // Work-items side by side take vectors side by side, so every bank is read once.
            __local const float4 *a = row_tiles + buffer * 144 + item_y;
            __local const float4 *b = column_tiles + buffer * 528 + item_x;
            #pragma unroll 8
            for (int k = 0; k < 16; ++k) {
                float factors[4];
                #pragma unroll
                for (int v = 0; v < 1; ++v)
                    vstore4(a[k * 9 + v * 8], v, factors);
                float4 vectors[1];
                #pragma unroll
                for (int v = 0; v < 1; ++v)
                    vectors[v] = b[k * 33 + v * 32];
                #pragma unroll
                for (int j = 0; j < 4; ++j)
                    #pragma unroll
                    for (int v = 0; v < 1; ++v)
                        sum[j][v] = factors[j] * vectors[v] + sum[j][v];
            }

            buffer ^= 1;
            if (next < end) {
                #pragma unroll
                for (int n = 0; n < 8; ++n) {
                    const int unit = item + n * 256;
                    const int k = unit / 128;
                    const int lane = unit % 128;
                    __local float *to = (__local float *)column_tiles + (buffer * 16 + k) * 132 + lane;
                    *to = x_next[n];
                }
                #pragma unroll
                for (int n = 0; n < 1; ++n) {
                    const int unit = item + n * 256;
                    const int k = unit % 4 * 4;
                    const int lane = unit / 4;
                    if (unit >= 128)
                        continue;
                    __local float *to = (__local float *)row_tiles + (buffer * 16 + k) * 36 + lane;
                    to[0] = w_next[n].s0;
                    to[36] = w_next[n].s1;
                    to[2 * 36] = w_next[n].s2;
                    to[3 * 36] = w_next[n].s3;
                }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }

    const index_t rows = outputs;
    const index_t columns = lanes;
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        const index_t row = output_tile * 32 + item_y * 4 + j / 4 * 32 + j % 4;
        if (row < rows) {
            #pragma unroll
            for (int v = 0; v < 1; ++v) {
                const index_t column = lane_tile * 128 + (item_x + v * 32) * 4;
                const float4 values = sum[j][v];
                // Tiles at the edges are whole in the workspace.
                const index_t place = ((split * groups + group) * padded_rows + row) * pitch + column;
                *(__global float4 *)(partial + place) = values;
            }
        }
    }
}
