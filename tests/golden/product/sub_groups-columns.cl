// A matrix product without local memory and without barriers: a sub-group of 16 lanes computes a
// tile of 16 x 32, and passes the factors of its rows from lane to lane.
//
//                        columns: 32
//                      +----+----+         A lane keeps 2 of the columns of every row: 32 sums
//         depth: 16    | b: lanes|         in registers. Of 16 steps of k,
//                      +----+----+         b: a vector of 16 lanes is 16 columns of a step;
//        +----------+  +----+----+         a: one is 16 rows of a step.
//   rows | a        |  |         |         Factor (row, step) of a is the value of one lane for
//     16 |          |  |   sums  |         all: lane `row` of vector `step`.
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

__kernel __attribute__((intel_reqd_sub_group_size(16))) __attribute__((reqd_work_group_size(128, 1, 1))) void matmul(
    __global const float *x_memory,
    __global const float *packed,
    __global float *y0_memory,
    const int x_step,
    const int groups,
    const int lane_tiles,
    const int output_tiles,
    const int depth,
    const int chunk,
    const int depth_padded,
    const int x_start,
    const int x_group,
    const int x_lane_2,
    const int lanes,
    const int outputs,
    const int y0_start,
    const int y0_group,
    const int y0_output,
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
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        // Past the end the last ones are read again; their sums are never stored.
        const index_t number = min(lane_tile * 16 + n * 16 + lane, lanes - 1);
        index_t digit_2;
        digit_2 = number;
        x_places[n] = x_start + group * x_group + digit_2 * x_lane_2;
    }
    place_t w_place = ((place_t)(group * output_tiles + output_tile) * depth_padded + begin) * 128;
    float sum[16][2];
    #pragma unroll
    for (int i = 0; i < 16; ++i)
        #pragma unroll
        for (int v = 0; v < 2; ++v)
            sum[i][v] = 0;

    index_t tap_2;
    tap_2 = begin;
    index_t x_step_at = tap_2 * x_step;
    index_t stop = end;
    for (index_t from = begin; from < end;) {
        place_t x_from[1];
        #pragma unroll
        for (int n = 0; n < 1; ++n) {
            x_from[n] = x_places[n];
        }
        for (; from < stop; from += 16) {
            for (int first = 0; first < 16; first += 1) {
                float w_values[2];
                #pragma unroll
                for (int n = 0; n < 2; ++n)
                    w_values[n] = *(__global const float *)((__global const char *)packed + (w_place + (n * 16 + lane) * 4));
                w_place += 128;
                float x_values[1];
                #pragma unroll
                for (int k = 0; k < 1; ++k) {
                    const index_t step = x_step_at;
                    x_step_at += x_step;
                    #pragma unroll
                    for (int n = 0; n < 1; ++n) {
                        const float value = x_at(x_memory, x_from[n] + step);
                        x_values[k * 1 + n] = value;
                    }
                }
                #pragma unroll
                for (int k = 0; k < 1; ++k)
                    #pragma unroll
                    for (int i = 0; i < 16; ++i) {
                        const float factor = from_lane(x_values[k * 1 + i / 16], i % 16);
                        #pragma unroll
                        for (int v = 0; v < 2; ++v)
                            sum[i][v] = factor * w_values[k * 2 + v] + sum[i][v];
                    }
            }
        }
        x_step_at = 0;
    }

    const index_t first_row = lane_tile * 16, first_column = output_tile * 32;
    index_t y0_rows[1];
    #pragma unroll
    for (int n = 0; n < 1; ++n) {
        const index_t number = min(first_row + n * 16 + lane, lanes - 1);
        index_t digit_2;
        digit_2 = number;
        y0_rows[n] = digit_2 * y0_lane_2;
    }
    index_t y0_columns[2];
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
        const index_t number = min(first_column + n * 16 + lane, outputs - 1);
        y0_columns[n] = y0_start + group * y0_group + number * y0_output;
    }
    #pragma unroll
    for (int i = 0; i < 16; ++i) {
        const index_t y0_row = from_lane(y0_rows[i / 16], i % 16);
        if (first_row + i < lanes) {
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                if (first_column + v * 16 + lane < outputs) {
                    float y0 = sum[i][v];
                    y0_memory[(place_t)(y0_row + y0_columns[v])] = y0;
                }
        }
    }
}
