// A product of matrices by matrix units, whose operands are read where they lie.
//
//                         columns: 32
//                    +------------------+
//     depth:  16     |  b               |      A work-group of 1 x 2 sub-groups of 32 work-items
//     steps          +------------------+      computes a tile, each of them 1 x 2 units of 16 x 8
//     +-------+      +------------------+      sums in registers. 2 stages of both operands are in
//     | a:    |      |   +---------+    |      local memory as they lie in global memory: while one is
//     | rows: |      |   |  16 x  16 |   |      multiplied, others are on their way.
//     |  16   |      |   +---------+    |
//     +-------+      +------------------+      Sums pass through local memory as well, to be stored as
//                                              vectors of columns.
typedef int index_t;

// Places are never negative, and an unsigned number is a shorter way to an address.
typedef uint place_t;
// The unit is emulated: its work-items exchange fragments through local memory.
#define multiply_add(sums, a, b) multiply_exchanged(sums, a, b, exchange + item / 32 * 192, lane)
static inline void multiply_exchanged(float *sums, const uint *a, const uint *b, __local uint *exchange, int lane)
{
    __local ushort *left = (__local ushort *)exchange, *right = left + 256;
    for (int element = 0; element < 8; ++element)
        left[(lane / 4 + element / 2 % 2 * 8) * 16 + lane % 4 * 2 + element % 2 + element / 4 * 8] = (ushort)(a[element / 2] >> element % 2 * 16);
    for (int element = 0; element < 4; ++element)
        right[(lane / 4) * 16 + lane % 4 * 2 + element % 2 + element / 2 * 8] = (ushort)(b[element / 2] >> element % 2 * 16);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int element = 0; element < 4; ++element) {
        float sum = 0;  // a unit adds its own steps up first
        for (int k = 0; k < 16; ++k)
            sum += vload_half(0, (__local const half *)(left + (lane / 4 + element / 2 * 8) * 16 + k))
                * vload_half(0, (__local const half *)(right + (lane % 4 * 2 + element % 2) * 16 + k));
        sums[element] += sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}
#define load_matrices(words, from) load_exchanged(words, (int)((from) - memory), 0, memory, exchange, item)
#define load_transposed(words, from) load_exchanged(words, (int)((from) - memory), 1, memory, exchange, item)
static inline void load_exchanged(uint *words, int chunk, int transposed, __local const uint4 *memory, __local uint *exchange, int item)
{
    exchange[item] = chunk;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int lane = item % 32;
    __local const uint *lines = exchange + item / 32 * 32;
    for (int n = 0; n < 4; ++n)
        if (transposed) {
            const uint low = ((__local const ushort *)(memory + lines[n * 8 + lane % 4 * 2]))[lane / 4];
            const uint high = ((__local const ushort *)(memory + lines[n * 8 + lane % 4 * 2 + 1]))[lane / 4];
            words[n] = low | high << 16;
        } else {
            words[n] = ((__local const uint *)(memory + lines[n * 8 + lane / 4]))[lane % 4];
        }
    barrier(CLK_LOCAL_MEM_FENCE);
}
#define copy_4(to, from, whether) *(to) = (whether) ? *(from) : 0
#define copy_8(to, from, whether) *(to) = (whether) ? *(from) : (uint2)(0)
#define copy_16(to, from, whether) *(to) = (whether) ? *(from) : (uint4)(0)
#define copies_end()
#define copies_wait(left)

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int row_place(int line, int at)
{
    return line * 16 + (at / 8 ^ (line >> 2 & 1)) * 8 + at % 8;
}

#define load_rows(words, tile, line, step) load_row_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_row_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    // Four matrices of eight lines: two along rows, then two along k.
    const int below = lane / 8 % 2, behind = lane / 16;
    const int at = row_place(line + below * 8 + lane % 8, step + behind * 8);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int column_place(int line, int at)
{
    return line * 16 + (at / 8 ^ (line >> 2 & 1)) * 8 + at % 8;
}

#define load_columns(words, tile, line, step) load_column_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_column_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    // Four matrices of eight lines: two along k, then two along columns, of two units.
    const int below = lane / 16, behind = lane / 8 % 2;
    const int at = column_place(line + below * 8 + lane % 8, step + behind * 8);
    load_matrices(words, (__local uint4 *)(tile + at));
}

#define row_tile(stage) ((__local ushort *)memory + (stage) * 768)
#define column_tile(stage) (row_tile(stage) + 256)

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void matmul(
    __global const ushort *x_memory,
    __global const ushort *w_memory,
    __global half *y0_memory,
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
    __local uint4 memory[192];
    __local uint exchange[384];

    const int item = get_local_id(0);
    const int lane = item % 32;
    const int first_row = item / 64 * 16;
    const int first_column = item / 32 % 2 * 16;
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

    index_t x_places[1];
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        const int unit = item + n * 64;
        const int k = unit % 4 * 4;
        const int lane = unit / 4;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(lane_tile * 16 + lane, lanes - 1);
        index_t digit_2;
        digit_2 = number;
        x_places[n] = x_start + group * x_group + digit_2 * x_lane_2;
        x_places[n] += k * x_step;
    }
    index_t w_places[2];
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int unit = item + n * 64;
        const int k = unit % 4 * 4;
        const int lane = unit / 4;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(output_tile * 32 + lane, outputs - 1);
        w_places[n] = w_start + group * w_group + number * w_output;
        w_places[n] += k * w_step;
    }
    float sums[1][2][4];
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 2; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element)
                sums[i][j][element] = 0;

    if (begin < end) {
        #pragma unroll
        for (int n = 0; n < 1; ++n) {
            const int number = item + n * 64;
            const int k = number % 4 * 4, lane_at = number / 4;
            const place_t place = x_places[n] + begin * x_step;
            // No branch: what is outside reads the first element there is, and takes 0 instead.
            const int inside = (begin + k < end);
            copy_8((__local uint2 *)(row_tile(0) + row_place(lane_at, k)), (__global const uint2 *)(x_memory + (inside ? place : 0)), inside);
        }
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 64;
            const int k = number % 4 * 4, lane_at = number / 4;
            const place_t place = w_places[n] + begin * w_step;
            // No branch: what is outside reads the first element there is, and takes 0 instead.
            const int inside = (begin + k < end);
            copy_8((__local uint2 *)(column_tile(0) + column_place(lane_at, k)), (__global const uint2 *)(w_memory + (inside ? place : 0)), inside);
        }
    }
    copies_end();
    int stage = 0, filled = 1;
    for (index_t from = begin; from < end; from += 16) {
        // All copies but for the last 0 stages' have ended, everybody's, and nobody reads the stage
        // before this one any more.
        copies_wait(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        const index_t next = from + 16;
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 1; ++n) {
                const int number = item + n * 64;
                const int k = number % 4 * 4, lane_at = number / 4;
                const place_t place = x_places[n] + next * x_step;
                // No branch: what is outside reads the first element there is, and takes 0 instead.
                const int inside = (next + k < end);
                copy_8((__local uint2 *)(row_tile(filled) + row_place(lane_at, k)), (__global const uint2 *)(x_memory + (inside ? place : 0)), inside);
            }
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int number = item + n * 64;
                const int k = number % 4 * 4, lane_at = number / 4;
                const place_t place = w_places[n] + next * w_step;
                // No branch: what is outside reads the first element there is, and takes 0 instead.
                const int inside = (next + k < end);
                copy_8((__local uint2 *)(column_tile(filled) + column_place(lane_at, k)), (__global const uint2 *)(w_memory + (inside ? place : 0)), inside);
            }
        }
        copies_end();
        #pragma unroll
        for (int k = 0; k < 16; k += 16) {
            uint a[4], b[4];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_rows(a + i * 4, row_tile(stage), first_row + i * 16, k);
            #pragma unroll
            for (int j = 0; j < 2; j += 2)
                load_columns(b + j * 2, column_tile(stage), first_column + j * 8, k);
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    multiply_add(sums[i][j], a + i * 4, b + j * 2);
                }
        }
        stage = stage == 1 ? 0 : stage + 1;
        filled = filled == 1 ? 0 : filled + 1;
    }
    copies_wait(0);

    const index_t rows = lanes;
    const index_t columns = outputs;
    __local float *stored = (__local float *)memory;
    #pragma unroll
    for (int i = 0; i < 1; ++i) {
        // A row of units of every sub-group.
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int j = 0; j < 2; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element)
                stored[(first_row / 1 + lane / 4 + element / 2 * 8) * 36 + first_column + j * 8 + lane % 4 * 2 + element % 2] = sums[i][j][element];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int number = item; number < 128; number += 64) {
            const int line = number / 8;
            const index_t row = lane_tile * 16 + line / 16 * 16 + i * 16 + line % 16;
            const index_t column = output_tile * 32 + number % 8 * 4;
            if (row < rows) {
                float4 values = *(__local const float4 *)(stored + line * 36 + number % 8 * 4);
                index_t digit_2;
                digit_2 = row;
                const index_t y0_row = y0_start + group * y0_group + digit_2 * y0_lane_2;
                if (column + 4 <= columns) {
                    const int c = 0;
                    float4 y0 = values;
                    vstore_half4(y0, 0, y0_memory + y0_row + (column + c) * y0_output);
                } else
                {
                    float elements[4];
                    vstore4(values, 0, elements);
                    #pragma unroll
                    for (int c = 0; c < 4; ++c)
                        if (column + c < columns) {
                            float y0 = elements[c];
                            vstore_half(y0, 0, y0_memory + y0_row + (column + c) * y0_output);
                        }
                }
            }
        }
    }
}
