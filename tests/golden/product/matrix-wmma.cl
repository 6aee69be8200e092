// A product of matrices by matrix units, whose operands are read where they lie.
//
//                         columns: 32
//                    +------------------+
//     depth:  64     |  b               |      A work-group of 1 x 1 sub-groups of 32 work-items
//     steps          +------------------+      computes a tile, each of them 1 x 2 units of 16 x 16
//     +-------+      +------------------+      sums in registers. 2 stages of both operands are in
//     | a:    |      |   +---------+    |      local memory as they lie in global memory: while one is
//     | rows: |      |   |  16 x  32 |   |      multiplied, others are on their way.
//     |  16   |      |   +---------+    |
//     +-------+      +------------------+      Sums pass through local memory as well, to be stored as
//                                              vectors of columns.
typedef int index_t;

// Places are never negative, and an unsigned number is a shorter way to an address.
typedef uint place_t;
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half of_unit __attribute__((ext_vector_type(16)));
typedef union { uint words[8]; of_unit vector; } unit_words;
static inline void multiply_add(float *sums, const uint *a, const uint *b)
{
    unit_words left, right;
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        left.words[n] = a[n];
        right.words[n] = b[n];
    }
    vstore8(__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(left.vector, right.vector, vload8(0, sums)), 0, sums);
}
// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int row_place(int line, int at)
{
    return line * 64 + (at / 8 ^ (line & 7)) * 8 + at % 8;
}

#define load_rows(words, tile, line, step) load_row_words(words, memory, tile, line, step, lane)
static inline void load_row_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int element = n * 8;
        const int at = row_place(line + lane % 16, step + element);
        vstore4(*(__local const uint4 *)(tile + at), n, words);
    }
}

// Lines hold lanes of a step of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int column_place(int line, int at)
{
    return line * 32 + (at / 8 ^ (line >> 1 & 3)) * 8 + at % 8;
}

#define load_columns(words, tile, line, step) load_column_words(words, memory, tile, line, step, lane)
static inline void load_column_words(uint *words, __local uint4 *memory, __local const ushort *tile, int line, int step, int lane)
{
    #pragma unroll
    for (int n = 0; n < 8; ++n)
        words[n] = 0;
    #pragma unroll
    for (int element = 0; element < 16; ++element) {
        const int lines = line + lane % 16, steps = step + element;
        const uint value = tile[column_place(steps, lines)];
        words[element / 2] |= value << element % 2 * 16;
    }
}

#define row_tile(stage) ((__local ushort *)memory + (stage) * 3072)
#define column_tile(stage) (row_tile(stage) + 1024)

__kernel __attribute__((reqd_work_group_size(32, 1, 1))) void matmul(
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
    __local uint4 memory[768];

    const int item = get_local_id(0);
    const int lane = item % 32;
    const int first_row = item / 32 * 16;
    const int first_column = item / 32 % 1 * 32;
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

    index_t x_places[4];
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int unit = item + n * 32;
        const int k = unit % 8 * 8;
        const int lane = unit / 8;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(lane_tile * 16 + lane, lanes - 1);
        index_t digit_2;
        digit_2 = number;
        x_places[n] = x_start + group * x_group + digit_2 * x_lane_2;
        x_places[n] += k * x_step;
    }
    index_t w_places[8];
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        const int unit = item + n * 32;
        const int k = unit / 4;
        const int lane = unit % 4 * 8;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(output_tile * 32 + lane, outputs - 8);
        w_places[n] = w_start + group * w_group + number * w_output;
        w_places[n] += k * w_step;
    }
    uint4 x_next[4];
    uint4 w_next[8];
    float sums[1][2][8];
    #pragma unroll
    for (int i = 0; i < 1; ++i)
        #pragma unroll
        for (int j = 0; j < 2; ++j)
            #pragma unroll
            for (int element = 0; element < 8; ++element)
                sums[i][j][element] = 0;

    if (begin < end) {
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int number = item + n * 32;
            const int k = number % 8 * 8, lane_at = number / 8;
            const place_t place = x_places[n] + begin * x_step;
            x_next[n] = *(__global const uint4 *)(x_memory + place);
        }
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            const int number = item + n * 32;
            const int k = number / 4, lane_at = number % 4 * 8;
            const place_t place = w_places[n] + begin * w_step;
            w_next[n] = *(__global const uint4 *)(w_memory + place);
        }
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            const int number = item + n * 32;
            const int k = number % 8 * 8, lane_at = number / 8;
            *(__local uint4 *)(row_tile(0) + row_place(lane_at, k)) = x_next[n];
        }
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
            const int number = item + n * 32;
            const int k = number / 4, lane_at = number % 4 * 8;
            *(__local uint4 *)(column_tile(0) + column_place(k, lane_at)) = w_next[n];
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int stage = 0;
    for (index_t from = begin; from < end; from += 64) {
        const index_t next = from + 64;
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int number = item + n * 32;
                const int k = number % 8 * 8, lane_at = number / 8;
                const place_t place = x_places[n] + next * x_step;
                x_next[n] = *(__global const uint4 *)(x_memory + place);
            }
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                const int number = item + n * 32;
                const int k = number / 4, lane_at = number % 4 * 8;
                const place_t place = w_places[n] + next * w_step;
                w_next[n] = *(__global const uint4 *)(w_memory + place);
            }
        }
        #pragma unroll 1
        for (int k = 0; k < 64; k += 16) {
            uint a[8], b[8];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_rows(a + i * 8, row_tile(stage), first_row + i * 16, k);
            load_columns(b, column_tile(stage), first_column + 0, k);
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                multiply_add(sums[i][0], a + i * 8, b);
            load_columns(b, column_tile(stage), first_column + 16, k);
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                multiply_add(sums[i][1], a + i * 8, b);
        }
        stage ^= 1;
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int number = item + n * 32;
                const int k = number % 8 * 8, lane_at = number / 8;
                *(__local uint4 *)(row_tile(stage) + row_place(lane_at, k)) = x_next[n];
            }
            #pragma unroll
            for (int n = 0; n < 8; ++n) {
                const int number = item + n * 32;
                const int k = number / 4, lane_at = number % 4 * 8;
                *(__local uint4 *)(column_tile(stage) + column_place(k, lane_at)) = w_next[n];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

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
            for (int element = 0; element < 8; ++element)
                stored[(first_row / 1 + element * 2 + lane / 16) * 36 + first_column + j * 16 + lane % 16] = sums[i][j][element];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int number = item; number < 128; number += 32) {
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
