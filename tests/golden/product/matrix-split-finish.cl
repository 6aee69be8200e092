// Adds up what the splits of a matrix product's depth gave, and stores it: a vector of 4 columns a
// work-item, and the splits always in the same order.
//
//     partial: split 0: group 0: row 0 | row 1 | ...      split 1: ...      each row `pitch` long
typedef int index_t;

__kernel void matmul_finish(
    __global const float *partial,
    __global half *y0_memory,
    const int lanes,
    const int outputs,
    const int groups,
    const int splits,
    const int padded_rows,
    const int pitch,
    const int y0_start,
    const int y0_group,
    const int y0_output,
    const int y0_lane_2)
{
    const index_t rows = lanes;
    const index_t columns = outputs;
    index_t rest = (index_t)get_global_id(0);
    const index_t column = rest % (pitch / 4) * 4;
    rest /= pitch / 4;
    const index_t row = rest % rows;
    const index_t group = rest / rows;
    if (group >= groups || column >= columns)
        return;
    float4 values = 0;
    for (index_t split = 0; split < splits; ++split) {
        const index_t place = ((split * groups + group) * padded_rows + row) * pitch + column;
        values += *(__global const float4 *)(partial + place);
    }
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
