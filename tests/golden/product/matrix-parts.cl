// A product of matrices by matrix units, whose operands are read where they lie.
//
//                         columns: 64
//                    +------------------+
//     depth:  16     |  b               |      A work-group of 2 x 2 sub-groups of 32 work-items
//     steps          +------------------+      computes a tile, each of them 2 x 4 units of 16 x 8
//     +-------+      +------------------+      sums in registers. 3 stages of both operands are in
//     | a:    |      |   +---------+    |      local memory as they lie in global memory: while one is
//     | rows: |      |   |  32 x  32 |   |      multiplied, others are on their way.
//     |  64   |      |   +---------+    |
//     +-------+      +------------------+      Sums pass through local memory as well, to be stored as
//                                              vectors of columns.
typedef int index_t;

// Places are never negative, and an unsigned number is a shorter way to an address.
typedef uint place_t;
#define multiply_add(sums, a, b) __asm__ volatile( \
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 { %0, %1, %2, %3 }, { %4, %5, %6, %7 }, { %8, %9 }, { %0, %1, %2, %3 };" \
    : "+f"((sums)[0]), "+f"((sums)[1]), "+f"((sums)[2]), "+f"((sums)[3]) \
    : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#define load_matrices(words, from) __asm__ volatile( \
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0, %1, %2, %3 }, [%4];" \
    : "=r"((words)[0]), "=r"((words)[1]), "=r"((words)[2]), "=r"((words)[3]) \
    : "r"((uint)(ulong)(from)) : "memory")
#define load_transposed(words, from) __asm__ volatile( \
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0, %1, %2, %3 }, [%4];" \
    : "=r"((words)[0]), "=r"((words)[1]), "=r"((words)[2]), "=r"((words)[3]) \
    : "r"((uint)(ulong)(from)) : "memory")
#define copies_end() __asm__ volatile("cp.async.commit_group;" ::: "memory")
#define copies_wait(left) __asm__ volatile( \
    "cp.async.wait_group %0;" :: "n"(left) : "memory")
#define copy_4(to, from, whether) __asm__ volatile( \
    "cp.async.ca.shared.global [%0], [%1], 4, %2;" \
    :: "r"((uint)(ulong)(to)), "l"((ulong)(from)), "r"((whether) ? 4 : 0) : "memory")
#define copy_8(to, from, whether) __asm__ volatile( \
    "cp.async.ca.shared.global [%0], [%1], 8, %2;" \
    :: "r"((uint)(ulong)(to)), "l"((ulong)(from)), "r"((whether) ? 8 : 0) : "memory")
#define copy_16(to, from, whether) __asm__ volatile( \
    "cp.async.cg.shared.global [%0], [%1], 16, %2;" \
    :: "r"((uint)(ulong)(to)), "l"((ulong)(from)), "r"((whether) ? 16 : 0) : "memory")
// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int row_place(int line, int at)
{
    return line * 16 + (at / 4 ^ (line >> 1 & 3)) * 4 + at % 4;
}

#define load_rows(words, tile, line, step) load_row_words(words, memory, tile, line, step, lane)
static inline void load_row_words(uint *words, __local uint4 *memory, __local const uint *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along rows, then two along k.
    const int below = lane / 8 % 2, behind = lane / 16;
    const int at = row_place(line + below * 8 + lane % 8, step + behind * 4);
    load_matrices(words, (__local uint4 *)(tile + at));
}

// Lines hold steps of k. Chunks of 16 bytes take turns, so that those of eight lines lie in all banks.
static inline int column_place(int line, int at)
{
    return line * 16 + (at / 4 ^ (line >> 1 & 3)) * 4 + at % 4;
}

#define load_columns(words, tile, line, step) load_column_words(words, memory, tile, line, step, lane)
static inline void load_column_words(uint *words, __local uint4 *memory, __local const uint *tile, int line, int step, int lane)
{
    // Four matrices of eight lines: two along k, then two along columns, of two units.
    const int below = lane / 16, behind = lane / 8 % 2;
    const int at = column_place(line + below * 8 + lane % 8, step + behind * 4);
    load_matrices(words, (__local uint4 *)(tile + at));
}

static inline void take_parts(const uint *words, uint *large, uint *small, int count)
{
    #pragma unroll
    for (int n = 0; n < count; ++n) {
        const float value = as_float(words[n]);
        const uint whole = (words[n] + (isnan(value) ? 0 : 0x1000u)) & 0xffffe000u;
        const uint rest = as_uint(value - as_float(whole));
        large[n] = whole;
        small[n] = rest;
    }
}

#define row_tile(stage) ((__local uint *)memory + (stage) * 2048)
#define column_tile(stage) (row_tile(stage) + 1024)

__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void matmul(
    __global const uint *x_memory,
    __global const uint *w_memory,
    __global float *y0_memory,
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
    __local uint4 memory[1536];

    const int item = get_local_id(0);
    const int lane = item % 32;
    const int first_row = item / 64 * 32;
    const int first_column = item / 32 % 2 * 32;
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
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int unit = item + n * 128;
        const int k = unit % 4 * 4;
        const int lane = unit / 4;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(lane_tile * 64 + lane, lanes - 1);
        index_t digit_2;
        digit_2 = number;
        x_places[n] = x_start + group * x_group + digit_2 * x_lane_2;
        x_places[n] += k * x_step;
    }
    index_t w_places[2];
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const int unit = item + n * 128;
        const int k = unit % 4 * 4;
        const int lane = unit / 4;
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(output_tile * 64 + lane, outputs - 1);
        w_places[n] = w_start + group * w_group + number * w_output;
        w_places[n] += k * w_step;
    }
    float sums[2][4][4];
    #pragma unroll
    for (int i = 0; i < 2; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element)
                sums[i][j][element] = 0;

    if (begin < end) {
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 128;
            const int k = number % 4 * 4, lane_at = number / 4;
            const place_t place = x_places[n] + begin * x_step;
            copy_16((__local uint4 *)(row_tile(0) + row_place(lane_at, k)), (__global const uint4 *)(x_memory + place), 1);
        }
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 128;
            const int k = number % 4 * 4, lane_at = number / 4;
            const place_t place = w_places[n] + begin * w_step;
            copy_16((__local uint4 *)(column_tile(0) + column_place(lane_at, k)), (__global const uint4 *)(w_memory + place), 1);
        }
    }
    copies_end();
    if (begin + 16 < end) {
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 128;
            const int k = number % 4 * 4, lane_at = number / 4;
            const place_t place = x_places[n] + (begin + 16) * x_step;
            copy_16((__local uint4 *)(row_tile(1) + row_place(lane_at, k)), (__global const uint4 *)(x_memory + place), 1);
        }
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int number = item + n * 128;
            const int k = number % 4 * 4, lane_at = number / 4;
            const place_t place = w_places[n] + (begin + 16) * w_step;
            copy_16((__local uint4 *)(column_tile(1) + column_place(lane_at, k)), (__global const uint4 *)(w_memory + place), 1);
        }
    }
    copies_end();
    int stage = 0, filled = 2;
    for (index_t from = begin; from < end; from += 16) {
        // All copies but for the last 1 stages' have ended, everybody's, and nobody reads the stage
        // before this one any more.
        copies_wait(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        const index_t next = from + 32;
        if (next < end) {
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int number = item + n * 128;
                const int k = number % 4 * 4, lane_at = number / 4;
                const place_t place = x_places[n] + next * x_step;
                copy_16((__local uint4 *)(row_tile(filled) + row_place(lane_at, k)), (__global const uint4 *)(x_memory + place), 1);
            }
            #pragma unroll
            for (int n = 0; n < 2; ++n) {
                const int number = item + n * 128;
                const int k = number % 4 * 4, lane_at = number / 4;
                const place_t place = w_places[n] + next * w_step;
                copy_16((__local uint4 *)(column_tile(filled) + column_place(lane_at, k)), (__global const uint4 *)(w_memory + place), 1);
            }
        }
        copies_end();
        #pragma unroll
        for (int k = 0; k < 16; k += 8) {
            uint a[8], b[8];
            uint large_a[8], large_b[8], small_a[8], small_b[8];
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                load_rows(a + i * 4, row_tile(stage), first_row + i * 16, k);
            take_parts(a, large_a, small_a, 8);
            #pragma unroll
            for (int j = 0; j < 4; j += 2)
                load_columns(b + j * 2, column_tile(stage), first_column + j * 8, k);
            take_parts(b, large_b, small_b, 8);
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) {
                    multiply_add(sums[i][j], small_a + i * 4, large_b + j * 2);
                    multiply_add(sums[i][j], large_a + i * 4, small_b + j * 2);
                    multiply_add(sums[i][j], large_a + i * 4, large_b + j * 2);
                }
        }
        stage = stage == 2 ? 0 : stage + 1;
        filled = filled == 2 ? 0 : filled + 1;
    }
    copies_wait(0);

    const index_t rows = lanes;
    const index_t columns = outputs;
    __local float *stored = (__local float *)memory;
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        // A row of units of every sub-group.
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            #pragma unroll
            for (int element = 0; element < 4; ++element)
                stored[(first_row / 2 + lane / 4 + element / 2 * 8) * 68 + first_column + j * 8 + lane % 4 * 2 + element % 2] = sums[i][j][element];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int number = item; number < 512; number += 128) {
            const int line = number / 16;
            const index_t row = lane_tile * 64 + line / 16 * 32 + i * 16 + line % 16;
            const index_t column = output_tile * 64 + number % 16 * 4;
            if (row < rows) {
                float4 values = *(__local const float4 *)(stored + line * 68 + number % 16 * 4);
                if (!all(isfinite(values))) {
                    float again[4];
                    vstore4(values, 0, again);
                    for (int c = 0; c < 4; ++c) {
                        if (isfinite(again[c]))
                            continue;
                        const index_t last = min(column + c, columns - 1);
                        index_t digit_2;
                        digit_2 = row;
                        const index_t x_at = x_start + group * x_group + digit_2 * x_lane_2;
                        const index_t w_at = w_start + group * w_group + last * w_output;
                        again[c] = 0;
                        for (index_t k = begin; k < end; ++k) {
                            again[c] += as_float(x_memory[x_at + k * x_step]) * as_float(w_memory[w_at + k * w_step]);
                        }
                    }
                    values = vload4(0, again);
                }
                index_t digit_2;
                digit_2 = row;
                const index_t y0_row = y0_start + group * y0_group + digit_2 * y0_lane_2;
                if (column + 4 <= columns) {
                    const int c = 0;
                    float4 y0 = values;
                    vstore4(y0, 0, y0_memory + y0_row + (column + c) * y0_output);
                } else
                {
                    float elements[4];
                    vstore4(values, 0, elements);
                    #pragma unroll
                    for (int c = 0; c < 4; ++c)
                        if (column + c < columns) {
                            float y0 = elements[c];
                            y0_memory[y0_row + (column + c) * y0_output] = y0;
                        }
                }
            }
        }
    }
}
