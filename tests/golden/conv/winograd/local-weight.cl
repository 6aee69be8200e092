typedef int index_t;

// Transforms a weight for local.cl.jinja: G w G^T, 4 x 4 elements of 3 x 3 taps. A work-item takes
// one channel of one output; what is not there becomes 0.
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void conv2d_winograd_weight(
    __global const float *w_memory,
    __global float *packed,
    const int groups,
    const int strips,
    const int depth,
    const int channels,
    const int outputs,
    const int w_start,
    const int w_row,
    const int w_column,
    const int w_channel,
    const int w_group,
    const int w_output)
{
    const index_t item = get_global_id(0);
    const index_t above = item / 32;
    const index_t place = item - above * 32;
    const index_t channel = above % depth;
    const index_t strip = above / depth % strips;
    const index_t group = above / depth / strips;
    if (group >= groups)
        return;
    const index_t output = strip * 32 + place;
    const bool inside = channel < channels && output < outputs;
    const index_t w_at = w_start + min(channel, channels - 1) * w_channel + group * w_group + min(output, outputs - 1) * w_output;
    float taps[12];
    {
        const float g0 = inside ? (float)w_memory[w_at + 0 * w_row + 0 * w_column] : 0;
        const float g1 = inside ? (float)w_memory[w_at + 1 * w_row + 0 * w_column] : 0;
        const float g2 = inside ? (float)w_memory[w_at + 2 * w_row + 0 * w_column] : 0;
        const float g_e1 = g0 + g2;
        const float u1 = 0.5f * g1 + (0.5f * g_e1);
        const float u2 = -0.5f * g1 + (0.5f * g_e1);
        const float u0 = -g0;
        const float u3 = g2;
        taps[0] = u0;
        taps[3] = u1;
        taps[6] = u2;
        taps[9] = u3;
    }
    {
        const float g0 = inside ? (float)w_memory[w_at + 0 * w_row + 1 * w_column] : 0;
        const float g1 = inside ? (float)w_memory[w_at + 1 * w_row + 1 * w_column] : 0;
        const float g2 = inside ? (float)w_memory[w_at + 2 * w_row + 1 * w_column] : 0;
        const float g_e1 = g0 + g2;
        const float u1 = 0.5f * g1 + (0.5f * g_e1);
        const float u2 = -0.5f * g1 + (0.5f * g_e1);
        const float u0 = -g0;
        const float u3 = g2;
        taps[1] = u0;
        taps[4] = u1;
        taps[7] = u2;
        taps[10] = u3;
    }
    {
        const float g0 = inside ? (float)w_memory[w_at + 0 * w_row + 2 * w_column] : 0;
        const float g1 = inside ? (float)w_memory[w_at + 1 * w_row + 2 * w_column] : 0;
        const float g2 = inside ? (float)w_memory[w_at + 2 * w_row + 2 * w_column] : 0;
        const float g_e1 = g0 + g2;
        const float u1 = 0.5f * g1 + (0.5f * g_e1);
        const float u2 = -0.5f * g1 + (0.5f * g_e1);
        const float u0 = -g0;
        const float u3 = g2;
        taps[2] = u0;
        taps[5] = u1;
        taps[8] = u2;
        taps[11] = u3;
    }
    __global float *to = packed + above * 512 + place;
    {
        const float g0 = taps[0];
        const float g1 = taps[1];
        const float g2 = taps[2];
        const float g_e1 = g0 + g2;
        const float u1 = 0.5f * g1 + (0.5f * g_e1);
        const float u2 = -0.5f * g1 + (0.5f * g_e1);
        const float u0 = -g0;
        const float u3 = g2;
        to[0] = u0;
        to[32] = u1;
        to[64] = u2;
        to[96] = u3;
    }
    {
        const float g0 = taps[3];
        const float g1 = taps[4];
        const float g2 = taps[5];
        const float g_e1 = g0 + g2;
        const float u1 = 0.5f * g1 + (0.5f * g_e1);
        const float u2 = -0.5f * g1 + (0.5f * g_e1);
        const float u0 = -g0;
        const float u3 = g2;
        to[128] = u0;
        to[160] = u1;
        to[192] = u2;
        to[224] = u3;
    }
    {
        const float g0 = taps[6];
        const float g1 = taps[7];
        const float g2 = taps[8];
        const float g_e1 = g0 + g2;
        const float u1 = 0.5f * g1 + (0.5f * g_e1);
        const float u2 = -0.5f * g1 + (0.5f * g_e1);
        const float u0 = -g0;
        const float u3 = g2;
        to[256] = u0;
        to[288] = u1;
        to[320] = u2;
        to[352] = u3;
    }
    {
        const float g0 = taps[9];
        const float g1 = taps[10];
        const float g2 = taps[11];
        const float g_e1 = g0 + g2;
        const float u1 = 0.5f * g1 + (0.5f * g_e1);
        const float u2 = -0.5f * g1 + (0.5f * g_e1);
        const float u0 = -g0;
        const float u3 = g2;
        to[384] = u0;
        to[416] = u1;
        to[448] = u2;
        to[480] = u3;
    }
}
