// Packs an operand of a matrix product: tiles of 1 outputs, in which those of one step
// of k lie side by side. A work-item packs 8 steps of an output.
//
//     tile 0: depth 0: output 0 ... 0 | depth 1: output 0 ... 0 | ...       tile 1: ...
//
// Outputs and steps that are not there are 0.
typedef int index_t;

__kernel void conv2d_pack(
    __global const ushort *w_memory,
    __global ushort *packed,
    const int outputs,
    const int groups,
    const int output_tiles,
    const int depth,
    const int depth_padded,
    const int w_start,
    const int w_group,
    const int w_output,
    const int w_depth_0,
    const int w_depth_1,
    const int w_depth_2,
    const int depth_1,
    const int depth_2)
{
    index_t rest = (index_t)get_global_id(0);
    const index_t lane = rest % 1;
    rest /= 1;
    const index_t from = rest % (depth_padded / 8) * 8;
    rest /= depth_padded / 8;
    const index_t output_tile = rest % output_tiles;
    const index_t group = rest / output_tiles;
    if (group >= groups)
        return;
    const index_t number = min(output_tile * 1 + lane, outputs - 1);
    const bool there = output_tile * 1 + lane < outputs;
    const index_t start = w_start + group * w_group + number * w_output;
    index_t digit_0, digit_1, digit_2;
    {
        index_t rest = from;
        digit_2 = rest % depth_2;
        rest /= depth_2;
        digit_1 = rest % depth_1;
        rest /= depth_1;
        digit_0 = rest;
    }
    __global ushort *to = packed + ((group * output_tiles + output_tile) * depth_padded + from) * 1 + lane;
    for (int k = 0; k < 8; ++k) {
        const index_t place = start + digit_0 * w_depth_0 + digit_1 * w_depth_1 + digit_2 * w_depth_2;
        to[k * 1] = there && from + k < depth ? (ushort)w_memory[place] : 0;
        if (++digit_2 == depth_2) {
            digit_2 = 0;
            if (++digit_1 == depth_1) {
                digit_1 = 0;
                ++digit_0;
            }
        }
    }
}
