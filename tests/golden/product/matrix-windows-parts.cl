// A product of matrices by matrix units, whose operands are read where they lie.
//
//                         columns: 32
//                    +------------------+
//     depth:   8     |  b               |      A work-group of 1 x 2 sub-groups of 32 work-items
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
    __local uint *left = (__local uint *)exchange, *right = left + 128;
    for (int element = 0; element < 4; ++element)
        left[(lane / 4 + element / 1 % 2 * 8) * 8 + lane % 4 * 1 + 0 + element / 2 * 4] = (uint)(a[element / 1] >> element % 1 * 32);
    for (int element = 0; element < 2; ++element)
        right[(lane / 4) * 8 + lane % 4 * 1 + 0 + element / 1 * 4] = (uint)(b[element / 1] >> element % 1 * 32);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int element = 0; element < 4; ++element) {
        float sum = 0;  // a unit adds its own steps up first
        for (int k = 0; k < 8; ++k)
            sum += as_float(*(left + (lane / 4 + element / 2 * 8) * 8 + k) & 0xffffe000u)
                * as_float(*(right + (lane % 4 * 2 + element % 2) * 8 + k) & 0xffffe000u);
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
    return line * 8 + (at / 4 ^ (line >> 2 & 1)) * 4 + at % 4;
}

#define load_rows(words, tile, line, step) load_row_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_row_words(uint *words, __local uint4 *memory, __local const uint *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    // Four matrices of eight lines: two along rows, then two along k.
    const int below = lane / 8 % 2, behind = lane / 16;
    const int at = row_place(line + below * 8 + lane % 8, step + behind * 4);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold lanes of a step of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int column_place(int line, int at)
{
    return line * 32 + (at / 4 ^ (line & 7)) * 4 + at % 4;
}

#define load_columns(words, tile, line, step) load_column_words(words, memory, tile, line, step, lane, exchange, item)
static inline void load_column_words(uint *words, __local uint4 *memory, __local const uint *tile, int line, int step, int lane, __local uint *exchange, int item)
{
    #pragma unroll
    for (int n = 0; n < 2; ++n)
        words[n] = 0;
    #pragma unroll
    for (int element = 0; element < 2; ++element) {
        const int lines = line + lane / 4, steps = step + lane % 4 * 1 + 0 + element / 1 * 4;
        const uint value = tile[column_place(steps, lines)];
        words[element / 1] |= value << element % 1 * 32;
    }
}

static inline void take_parts(const uint *words, uint *large, int count)
{
    #pragma unroll
    for (int n = 0; n < count; ++n) {
        const float value = as_float(words[n]);
        const uint whole = (words[n] + (isnan(value) ? 0 : 0x1000u)) & 0xffffe000u;
        large[n] = whole;
    }
}

#define row_tile(stage) ((__local uint *)memory + (stage) * 384)
#define column_tile(stage) (row_tile(stage) + 128)

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void conv2d(
    __global const uint *x_memory,
    __global const uint *w_memory,
    __global float *y0_memory,
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
    const int x_leap_0,
    const int x_leap_1,
    const int x_leap_2,
    const int y0_start,
    const int y0_group,
    const int y0_output,
    const int y0_lane_1,
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

    index_t x_places[4];
    int x_rows[4], x_columns[4];
    #pragma unroll
    for (int n = 0; n < 4; ++n) {
        const int unit = item + n * 64;
        const int k = unit / 32;
        const int lane = unit % 32;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(lane_tile * 32 + lane, lanes - 1);
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
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        const int unit = item + n * 64;
        const int k = unit % 2 * 4;
        const int lane = unit / 2;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(output_tile * 16 + lane, outputs - 1);
        w_places[n] = w_start + group * w_group + number * w_output;
        w_places[n] += k * w_step;
    }
    index_t x_digit_0, x_digit_1, x_digit_2;
    {
        index_t rest = begin + item / 32;
        x_digit_2 = rest % depth_2;
        rest /= depth_2;
        x_digit_1 = rest % depth_1;
        rest /= depth_1;
        x_digit_0 = rest;
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
        for (int n = 0; n < 4; ++n) {
            const int number = item + n * 64;
            const int k = number / 32, lane_at = number % 32;
            const place_t place = x_places[n] + x_digit_0 * x_depth_0 + x_digit_1 * x_depth_1 + x_digit_2 * x_depth_2;
            // No branch: what is outside reads the first element there is, and takes 0 instead.
            const int inside = ((uint)(x_rows[n] + x_digit_0 * row_depth_0 + x_digit_1 * row_depth_1 + x_digit_2 * row_depth_2) < (uint)height)
                & ((uint)(x_columns[n] + x_digit_0 * column_depth_0 + x_digit_1 * column_depth_1 + x_digit_2 * column_depth_2) < (uint)width);
            copy_4((__local uint *)(column_tile(0) + column_place(k, lane_at)), (__global const uint *)(x_memory + (inside ? place : 0)), inside);
            if (n % 1 == 0) {
                {
                    x_digit_2 += x_leap_2;
                    const index_t carry = x_digit_2 >= depth_2;
                    x_digit_2 -= carry ? depth_2 : 0;
                    x_digit_1 += x_leap_1 + carry;
                    const index_t next = x_digit_1 >= depth_1;
                    x_digit_1 -= next ? depth_1 : 0;
                    x_digit_0 += x_leap_0 + next;
                }
            }
        }
        #pragma unroll
        for (int n = 0; n < 1; ++n) {
            const int number = item + n * 64;
            if (number >= 32)
                continue;
            const int k = number % 2 * 4, lane_at = number / 2;
            const place_t place = w_places[n] + begin * w_step;
            copy_16((__local uint4 *)(row_tile(0) + row_place(lane_at, k)), (__global const uint4 *)(w_memory + place), 1);
        }
    }
    copies_end();
    int stage = 0, filled = 1;
    for (index_t from = begin; from < end; from += 8) {
        // All copies but for the last 0 stages' have ended, everybody's, and nobody reads the stage
        // before this one any more.
        copies_wait(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        const index_t next = from + 8;
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int number = item + n * 64;
                const int k = number / 32, lane_at = number % 32;
                const place_t place = x_places[n] + x_digit_0 * x_depth_0 + x_digit_1 * x_depth_1 + x_digit_2 * x_depth_2;
                // No branch: what is outside reads the first element there is, and takes 0 instead.
                const int inside = ((uint)(x_rows[n] + x_digit_0 * row_depth_0 + x_digit_1 * row_depth_1 + x_digit_2 * row_depth_2) < (uint)height)
                    & ((uint)(x_columns[n] + x_digit_0 * column_depth_0 + x_digit_1 * column_depth_1 + x_digit_2 * column_depth_2) < (uint)width);
                copy_4((__local uint *)(column_tile(filled) + column_place(k, lane_at)), (__global const uint *)(x_memory + (inside ? place : 0)), inside);
                if (n % 1 == 0) {
                    {
                        x_digit_2 += x_leap_2;
                        const index_t carry = x_digit_2 >= depth_2;
                        x_digit_2 -= carry ? depth_2 : 0;
                        x_digit_1 += x_leap_1 + carry;
                        const index_t next = x_digit_1 >= depth_1;
                        x_digit_1 -= next ? depth_1 : 0;
                        x_digit_0 += x_leap_0 + next;
                    }
                }
            }
            #pragma unroll
            for (int n = 0; n < 1; ++n) {
                const int number = item + n * 64;
                if (number >= 32)
                    continue;
                const int k = number % 2 * 4, lane_at = number / 2;
                const place_t place = w_places[n] + next * w_step;
                copy_16((__local uint4 *)(row_tile(filled) + row_place(lane_at, k)), (__global const uint4 *)(w_memory + place), 1);
            }
        }
        copies_end();
        #pragma unroll
        for (int k = 0; k < 8; k += 8) {
            uint a[4], b[4];
            uint large_a[4], large_b[4];
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                load_rows(a + i * 4, row_tile(stage), first_row + i * 16, k);
            take_parts(a, large_a, 4);
            #pragma unroll
            for (int j = 0; j < 2; j += 1)
                load_columns(b + j * 2, column_tile(stage), first_column + j * 8, k);
            take_parts(b, large_b, 4);
            #pragma unroll
            for (int i = 0; i < 1; ++i)
                #pragma unroll
                for (int j = 0; j < 2; ++j) {
                    multiply_add(sums[i][j], large_a + i * 4, large_b + j * 2);
                }
        }
        stage = stage == 1 ? 0 : stage + 1;
        filled = filled == 1 ? 0 : filled + 1;
    }
    copies_wait(0);

    const index_t rows = outputs;
    const index_t columns = lanes;
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
            const index_t row = output_tile * 16 + line / 16 * 16 + i * 16 + line % 16;
            const index_t column = lane_tile * 32 + number % 8 * 4;
            if (row < rows) {
                float4 values = *(__local const float4 *)(stored + line * 36 + number % 8 * 4);
                if (!all(isfinite(values))) {
                    float again[4];
                    vstore4(values, 0, again);
                    for (int c = 0; c < 4; ++c) {
                        if (isfinite(again[c]))
                            continue;
                        const index_t last = min(column + c, columns - 1);
                        index_t digit_1, digit_2;
                        {
                            index_t rest = last;
                            digit_2 = rest % lane_2;
                            rest /= lane_2;
                            digit_1 = rest;
                        }
                        const index_t x_at = x_start + group * x_group + digit_1 * x_lane_1 + digit_2 * x_lane_2;
                        const index_t w_at = w_start + group * w_group + row * w_output;
                        const int x_row = row_start + digit_1 * row_lane_1 + digit_2 * row_lane_2;
                        const int x_column = column_start + digit_1 * column_lane_1 + digit_2 * column_lane_2;
                        again[c] = 0;
                        for (index_t k = begin; k < end; ++k) {
                            index_t step_0, step_1, step_2;
                            {
                                index_t rest = k;
                                step_2 = rest % depth_2;
                                rest /= depth_2;
                                step_1 = rest % depth_1;
                                rest /= depth_1;
                                step_0 = rest;
                            }
                            const int inside = ((uint)(x_row + step_0 * row_depth_0 + step_1 * row_depth_1 + step_2 * row_depth_2) < (uint)height)
                                & ((uint)(x_column + step_0 * column_depth_0 + step_1 * column_depth_1 + step_2 * column_depth_2) < (uint)width);
                            again[c] += (inside ? as_float(x_memory[(inside ? x_at + step_0 * x_depth_0 + step_1 * x_depth_1 + step_2 * x_depth_2 : 0) ]) : 0) * as_float(w_memory[w_at + k * w_step]);
                        }
                    }
                    values = vload4(0, again);
                }
                const index_t y0_row = y0_start + group * y0_group + row * y0_output;
                index_t lane_at_1, lane_at_2;
                {
                    index_t rest = column;
                    lane_at_2 = rest % lane_2;
                    rest /= lane_2;
                    lane_at_1 = rest;
                }
                if (column + 4 <= columns && lane_at_2 + 4 <= lane_2) {
                    const int c = 0;
                    float4 y0 = values;
                    vstore4(y0, 0, y0_memory + y0_row + lane_at_1 * y0_lane_1 + lane_at_2 * y0_lane_2);
                } else
                {
                    float elements[4];
                    vstore4(values, 0, elements);
                    #pragma unroll
                    for (int c = 0; c < 4; ++c)
                        if (column + c < columns) {
                            float y0 = elements[c];
                            y0_memory[y0_row + lane_at_1 * y0_lane_1 + lane_at_2 * y0_lane_2] = y0;
                            if (++lane_at_2 == lane_2) {
                                lane_at_2 = 0;
                                ++lane_at_1;
                            }
                        }
                }
            }
        }
    }
}
