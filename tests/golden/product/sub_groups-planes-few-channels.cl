// A matrix product without local memory and without barriers: a sub-group of 16 lanes computes a
// tile of 32 x 16, and passes the factors of its rows from lane to lane.
//
//                        columns: 16
//                      +----+----+         A lane keeps 1 of the columns of every row: 32 sums
//         depth: 16    | b: lanes|         in registers. Of 16 steps of k,
//                      +----+----+         b: a vector of 16 lanes is 16 columns of a step;
//        +----------+  +----+----+         a: one is 16 rows of a step.
//   rows | a        |  |         |         Factor (row, step) of a is the value of one lane for
//     32 |          |  |   sums  |         all: lane `row` of vector `step`.
//        +----------+  +----+----+
//
// Rows are the outputs, columns the lanes of what is gathered. 8 sub-groups that follow each
// other are a work-group: they take neighbouring tiles of what is gathered, so that a comes from
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

__kernel __attribute__((intel_reqd_sub_group_size(16))) __attribute__((reqd_work_group_size(128, 1, 1))) void conv2d(
    __global const float *x_memory,
    __global const float *packed,
    __global float *y0_memory,
    const int height,
    const int width,
    const int x_depth_0,
    const int x_depth_1,
    const int x_depth_2,
    const int row_depth_0,
    const int row_depth_1,
    const int row_depth_2,
    const int column_depth_0,
    const int column_depth_1,
    const int column_depth_2,
    const int depth_1,
    const int depth_2,
    const int advance_0,
    const int advance_1,
    const int advance_2,
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
    const int y0_lane_2)
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
    float sum[32][1];
    #pragma unroll
    for (int i = 0; i < 32; ++i)
        #pragma unroll
        for (int v = 0; v < 1; ++v)
            sum[i][v] = 0;

    index_t step_0, step_1, step_2;
    {
        index_t rest = begin + lane;
        step_2 = rest % depth_2;
        rest /= depth_2;
        step_1 = rest % depth_1;
        rest /= depth_1;
        step_0 = rest;
    }
    for (index_t from = begin; from < end; from += 16) {
        const index_t step_x = step_0 * x_depth_0 + step_1 * x_depth_1 + step_2 * x_depth_2;
        const int step_row = step_0 * row_depth_0 + step_1 * row_depth_1 + step_2 * row_depth_2;
        const int step_column = step_0 * column_depth_0 + step_1 * column_depth_1 + step_2 * column_depth_2;
        for (int first = 0; first < 16; first += 1) {
            float w_values[2];
            vstore2(as_float2(intel_sub_group_block_read2((__global const uint *)((__global const char *)packed + w_place))), 0, w_values);
            w_place += 128;
            float x_values[1];
            #pragma unroll
            for (int k = 0; k < 1; ++k) {
                const uint there = (uint)-(from + first + k < end);
                #pragma unroll
                for (int n = 0; n < 1; ++n) {
                    const place_t place = x_places[n] + from_lane(step_x, first + k);
                    const uint inside = (uint)-(((uint)(x_rows[n] + from_lane(step_row, first + k)) < (uint)height) & ((uint)(x_columns[n] + from_lane(step_column, first + k)) < (uint)width)) & there;
                    x_values[k * 1 + n] = as_float(as_uint(x_at(x_memory, inside ? place : 0)) & inside);
                }
            }
            #pragma unroll
            for (int k = 0; k < 1; ++k)
                #pragma unroll
                for (int i = 0; i < 32; ++i) {
                    const float factor = from_lane(w_values[k * 2 + i / 16], i % 16);
                    #pragma unroll
                    for (int v = 0; v < 1; ++v)
                        sum[i][v] = factor * x_values[k * 1 + v] + sum[i][v];
                }
        }
        {
            step_2 += advance_2;
            const index_t carry = step_2 >= depth_2;
            step_2 -= carry ? depth_2 : 0;
            step_1 += advance_1 + carry;
            const index_t next = step_1 >= depth_1;
            step_1 -= next ? depth_1 : 0;
            step_0 += advance_0 + next;
        }
    }

    const index_t first_row = output_tile * 32, first_column = lane_tile * 16;
    index_t y0_rows[2];
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const index_t number = min(first_row + n * 16 + lane, outputs - 1);
        y0_rows[n] = y0_start + group * y0_group + number * y0_output;
    }
    index_t y0_columns[1];
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        const index_t number = min(first_column + n * 16 + lane, lanes - 1);
        index_t digit_0, digit_1, digit_2;
        {
            index_t rest = number;
            digit_2 = rest % lane_2;
            rest /= lane_2;
            digit_1 = rest % lane_1;
            rest /= lane_1;
            digit_0 = rest;
        }
        y0_columns[n] = digit_0 * y0_lane_0 + digit_1 * y0_lane_1 + digit_2 * y0_lane_2;
    }
    #pragma unroll
    for (int i = 0; i < 32; ++i) {
        const index_t y0_row = from_lane(y0_rows[i / 16], i % 16);
        if (first_row + i < outputs) {
            #pragma unroll
            for (int v = 0; v < 1; ++v)
                if (first_column + v * 16 + lane < lanes) {
                    float y0 = sum[i][v];
                    y0_memory[(place_t)(y0_row + y0_columns[v])] = y0;
                }
        }
    }
}
