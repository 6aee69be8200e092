// A matrix product without local memory and without barriers: a sub-group of 16 lanes computes a
// tile of 16 x 32, and passes the factors of its rows from lane to lane.
//
//                        columns: 32
//                      +----+----+         A lane keeps 2 of the columns of every row: 32 sums
//         depth: 16    | b: lanes|         in registers. Of 16 steps of k,
//                      +----+----+         b: a vector of 16 lanes is 16 columns of a step;
//        +----------+  +----+----+         a: one is 16 steps of a row.
//   rows | a        |  |         |         Factor (row, step) of a is the value of one lane for
//     16 |          |  |   sums  |         all: lane `step` of vector `row`.
//        +----------+  +----+----+
//
// Rows are the lanes of what is gathered, columns the outputs. 8 sub-groups that follow each
// other are a work-group: they take neighbouring tiles of what is gathered, so that b comes from
// the cache. Places are in bytes: one number, added to the start of memory, is an address.
typedef int index_t;

typedef uint place_t;
#ifdef cl_intel_subgroups
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define from_lane(value, lane) intel_sub_group_shuffle(value, (uint)(lane))
#else
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#define from_lane(value, lane) sub_group_shuffle(value, (uint)(lane))
#endif

static inline float x_at(__global const float *memory, place_t place)
{
    __global const float *x_memory = (__global const float *)((__global const char *)memory + place);
    return (float)x_memory[0];
}
// Every lane reads one of neighbouring elements, by the address of the first.
static inline float block_at(__global const float *memory, place_t place)
{
    return as_float(intel_sub_group_block_read((__global const uint *)((__global const char *)memory + place)));
}
static inline void multiply_step(float sum[16][2], const float *x_values, const float *w_values, int step)
{
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        const float factor = from_lane(x_values[i], step);
        #pragma unroll
        for (int v = 0; v < 2; ++v)
            sum[i][v] = factor * w_values[v] + sum[i][v];
    }
}

__kernel __attribute__((intel_reqd_sub_group_size(16))) __attribute__((reqd_work_group_size(128, 1, 1))) void conv2d(
    __global const float *x_memory,
    __global const float *packed,
    __global float *y0_memory,
    __global const float *bias_memory,
    __global const float *x0_memory,
    const int x_step,
    const int height,
    const int width,
    const int x_depth_0,
    const int x_depth_1,
    const int row_depth_0,
    const int row_depth_1,
    const int column_depth_0,
    const int column_depth_1,
    const int depth_1,
    const int depth_2,
    const int groups,
    const int lane_tiles,
    const int output_tiles,
    const int depth,
    const int chunk,
    const int depth_padded,
    const int x_start,
    const int x_group,
    const int x_lane_0,
    const int x_lane_1,
    const int x_lane_2,
    const int row_start,
    const int column_start,
    const int row_lane_0,
    const int row_lane_1,
    const int row_lane_2,
    const int column_lane_0,
    const int column_lane_1,
    const int column_lane_2,
    const int lanes,
    const int outputs,
    const int lane_1,
    const int lane_2,
    const int y0_start,
    const int y0_group,
    const int y0_output,
    const int y0_lane_0,
    const int y0_lane_1,
    const int y0_lane_2,
    const int bias_start,
    const int bias_group,
    const int bias_output,
    const int x0_start,
    const int x0_group,
    const int x0_output,
    const int x0_lane_0,
    const int x0_lane_1,
    const int x0_lane_2)
{
    const int lane = (int)get_sub_group_local_id();
    // All lanes have the same number, which compilers only know of what comes from one lane.
    const index_t sub_group = from_lane((index_t)get_sub_group_id(), 0);
    const index_t output_tile = (index_t)get_group_id(0);
    const index_t lane_tile = (index_t)get_group_id(1) * 8 + sub_group;
    const index_t group = (index_t)get_group_id(2) % groups;
    const index_t split = (index_t)get_group_id(2) / groups;
    if (lane_tile >= lane_tiles)
        return;
    const index_t begin = split * chunk;
    const index_t end = min(begin + chunk, depth);

    place_t x_places[1];
    int x_rows[1], x_columns[1];
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(lane_tile * 16 + n * 16 + lane, lanes - 1);
        index_t digit_0, digit_1, digit_2;
        {
            index_t rest = number;
            digit_2 = rest % lane_2;
            rest /= lane_2;
            digit_1 = rest % lane_1;
            rest /= lane_1;
            digit_0 = rest;
        }
        x_places[n] = x_start + group * x_group + digit_0 * x_lane_0 + digit_1 * x_lane_1 + digit_2 * x_lane_2;
        x_rows[n] = row_start + digit_0 * row_lane_0 + digit_1 * row_lane_1 + digit_2 * row_lane_2;
        x_columns[n] = column_start + digit_0 * column_lane_0 + digit_1 * column_lane_1 + digit_2 * column_lane_2;
    }
    place_t w_place = ((place_t)(group * output_tiles + output_tile) * depth_padded + begin) * 128;
    float sum[16][2];
    #pragma unroll
    for (int i = 0; i < 16; ++i)
        #pragma unroll
        for (int v = 0; v < 2; ++v)
            sum[i][v] = 0;

    index_t tap_0, tap_1, tap_2;
    {
        index_t rest = begin;
        tap_2 = rest % depth_2;
        rest /= depth_2;
        tap_1 = rest % depth_1;
        rest /= depth_1;
        tap_0 = rest;
    }
    index_t x_step_at = tap_2 * x_step;
    index_t stop = min(begin - tap_2 + depth_2, end);
    for (index_t from = begin; from < end;) {
        uint keep[1];
        int whole = 1;
        place_t x_from[1];
        #pragma unroll
        for (int n = 0; n < 1; ++n) {
            keep[n] = (uint)-(((uint)(x_rows[n] + tap_0 * row_depth_0 + tap_1 * row_depth_1) < (uint)height) & ((uint)(x_columns[n] + tap_0 * column_depth_0 + tap_1 * column_depth_1) < (uint)width));
            whole &= keep[n] != 0;
            // Outside, the first elements there are, which become 0.
            x_from[n] = keep[n] ? x_places[n] + tap_0 * x_depth_0 + tap_1 * x_depth_1 : 0;
        }
        whole = sub_group_all(whole);
        for (; from < stop; from += 16) {
            float x_values[16];
            {
                #pragma unroll
                for (int i = 0; i < 16; ++i)
                    x_values[i] = block_at(x_memory, from_lane(x_from[i / 16], i % 16) + (x_step_at));
            }
            if (!whole) {
                #pragma unroll
                for (int i = 0; i < 16; ++i)
                    x_values[i] = as_float(as_uint(x_values[i]) & from_lane(keep[i / 16], i % 16));
            }
            float w_values[2];
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 0);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 1);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 2);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 3);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 4);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 5);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 6);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 7);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 8);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 9);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 10);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 11);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 12);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 13);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 14);
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            multiply_step(sum, x_values, w_values, 15);
            x_step_at += 16 * x_step;
        }
        x_step_at = 0;
        stop = min(stop + depth_2, end);
        ++tap_1;
        if (tap_1 == depth_1) {
            tap_1 = 0;
            ++tap_0;
        }
    }

    const index_t first_row = lane_tile * 16, first_column = output_tile * 32;
    index_t y0_rows[1];
    index_t x0_rows[1];
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        const index_t number = min(first_row + n * 16 + lane, lanes - 1);
        index_t digit_0, digit_1, digit_2;
        {
            index_t rest = number;
            digit_2 = rest % lane_2;
            rest /= lane_2;
            digit_1 = rest % lane_1;
            rest /= lane_1;
            digit_0 = rest;
        }
        y0_rows[n] = digit_0 * y0_lane_0 + digit_1 * y0_lane_1 + digit_2 * y0_lane_2;
        x0_rows[n] = digit_0 * x0_lane_0 + digit_1 * x0_lane_1 + digit_2 * x0_lane_2;
    }
    index_t y0_columns[2];
    index_t bias_columns[2];
    index_t x0_columns[2];
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const index_t number = min(first_column + n * 16 + lane, outputs - 1);
        y0_columns[n] = y0_start + group * y0_group + number * y0_output;
        bias_columns[n] = bias_start + group * bias_group + number * bias_output;
        x0_columns[n] = x0_start + group * x0_group + number * x0_output;
    }
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        const index_t y0_row = from_lane(y0_rows[i / 16], i % 16);
        const index_t x0_row = from_lane(x0_rows[i / 16], i % 16);
        if (first_row + i < lanes) {
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                if (first_column + v * 16 + lane < outputs) {
                    float y0 = sum[i][v];
                    typedef float typeof_bias;
                    const typeof_bias bias = (float)bias_memory[(place_t)(bias_columns[v])];
                    typedef float typeof_x0;
                    const typeof_x0 x0 = (float)x0_memory[(place_t)(x0_row + x0_columns[v])];
                    y0 += bias;
                    typedef float typeof_y0;
                    {
#line 1 "snippet:epilogue"
y0 += x0;
#line 286 "kernel"
                    }
                    y0_memory[(place_t)(y0_row + y0_columns[v])] = y0;
                }
        }
    }
}
