// Packs an operand of a matrix product: tiles of 64 lanes, in which the lanes of one step of
// k lie side by side, so that the product reads it from the first to the last element.
//
//     tile 0: depth 0: lane 0 ... 63 | depth 1: lane 0 ... 63 | ...       tile 1: ...
//
// Lanes that are not there are the last one, so that strings see no others.
typedef int index_t;

__kernel void kernel_sum_pack(
    __global const float *x_memory,
    __global float *packed,
    const int lanes,
    const int tiles,
    const int depth,
    const int depth_padded,
    const int depth_1,
    const int depth_2,
    const int run,
    const int x_start,
    const int x_depth_0,
    const int x_depth_1,
    const int x_depth_2,
    const int x_group,
    const int x_lane)
{
    const index_t from = (index_t)get_global_id(0) * run;
    const index_t group = (index_t)get_global_id(2);
    if (from >= depth_padded)
        return;
    const index_t stop = min(from + run, depth_padded);
    index_t rest = from;
    index_t digit_2 = rest % depth_2;
    rest /= depth_2;
    index_t digit_1 = rest % depth_1;
    index_t digit_0 = rest / depth_1;
    for (index_t k = from; k < stop; ++k) {
        const index_t line = x_start + group * x_group
            + digit_0 * x_depth_0 + digit_1 * x_depth_1 + digit_2 * x_depth_2;
        for (index_t tile = 0; tile < tiles; ++tile)
        {
            const index_t place = line + tile * 64 * x_lane;
            __global float *to = packed + ((group * tiles + tile) * depth_padded + k) * 64;
            const int inside = k < depth ? min((index_t)64, lanes - tile * 64) : 0;
            if (inside == 64) {
                #pragma unroll
                for (int l = 0; l < 64; ++l)
                    to[l] = (float)x_memory[place + l];
            } else {
                for (int at = 0; at < 64; ++at) {
                    const int l = min(at, inside - 1);
                    to[at] = (float)x_memory[place + l * x_lane];
                }
            }
        }
        if (++digit_2 == depth_2) {
            digit_2 = 0;
            if (++digit_1 == depth_1) {
                digit_1 = 0;
                ++digit_0;
            }
        }
    }
}
