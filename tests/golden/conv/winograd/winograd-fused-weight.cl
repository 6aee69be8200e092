typedef int index_t;

// Transforms a weight: G w G^T, 6 x 6 elements of 3 x 3 taps. A work-item transforms some
// channels of 16 outputs; outputs that are not there are 0.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd_weight(
    __global const float *x_memory,
    __global float *packed,
    const int channels,
    const int channels_a_part,
    const int outputs,
    const int x_start,
    const int x_row,
    const int x_column,
    const int x_channel,
    const int u_element,
    const int u_strip,
    const int u_group,
    const int x_group,
    const int x_output)
{
    const index_t vector = get_group_id(1), group = get_group_id(2);
    const index_t channel_first = (index_t)get_group_id(0) * channels_a_part;
    const index_t channel_last = min(channel_first + channels_a_part, channels);
    const index_t strip = vector / 2;
    const index_t first = vector * 16;
    for (index_t channel = channel_first; channel < channel_last; ++channel) {
        const index_t at = x_start + group * x_group + channel * x_channel;
        float taps[144];
        for (int e = 0; e < 16; ++e) {
            const index_t place = at + (first + e) * x_output;
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j)
                    taps[(i * 3 + j) * 16 + e] = first + e < outputs
                        ? (float)x_memory[place + i * x_row + j * x_column] : 0;
        }
        float16 t0_0;
        float16 t1_0;
        float16 t2_0;
        float16 t3_0;
        float16 t4_0;
        float16 t5_0;
        {
            const float16 g0 = vload16(0, taps);
            const float16 g1 = vload16(3, taps);
            const float16 g2 = vload16(6, taps);
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            t0_0 = u0;
            t1_0 = u1;
            t2_0 = u2;
            t3_0 = u3;
            t4_0 = u4;
            t5_0 = u5;
        }
        float16 t0_1;
        float16 t1_1;
        float16 t2_1;
        float16 t3_1;
        float16 t4_1;
        float16 t5_1;
        {
            const float16 g0 = vload16(1, taps);
            const float16 g1 = vload16(4, taps);
            const float16 g2 = vload16(7, taps);
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            t0_1 = u0;
            t1_1 = u1;
            t2_1 = u2;
            t3_1 = u3;
            t4_1 = u4;
            t5_1 = u5;
        }
        float16 t0_2;
        float16 t1_2;
        float16 t2_2;
        float16 t3_2;
        float16 t4_2;
        float16 t5_2;
        {
            const float16 g0 = vload16(2, taps);
            const float16 g1 = vload16(5, taps);
            const float16 g2 = vload16(8, taps);
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            t0_2 = u0;
            t1_2 = u1;
            t2_2 = u2;
            t3_2 = u3;
            t4_2 = u4;
            t5_2 = u5;
        }
        __global float *to = packed + group * u_group + strip * u_strip + channel * 32 + (vector - strip * 2) * 16;
        {
            const float16 g0 = t0_0;
            const float16 g1 = t0_1;
            const float16 g2 = t0_2;
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            vstore16(u0, 0, to + 0 * u_element);
            vstore16(u1, 0, to + 1 * u_element);
            vstore16(u2, 0, to + 2 * u_element);
            vstore16(u3, 0, to + 3 * u_element);
            vstore16(u4, 0, to + 4 * u_element);
            vstore16(u5, 0, to + 5 * u_element);
        }
        {
            const float16 g0 = t1_0;
            const float16 g1 = t1_1;
            const float16 g2 = t1_2;
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            vstore16(u0, 0, to + 6 * u_element);
            vstore16(u1, 0, to + 7 * u_element);
            vstore16(u2, 0, to + 8 * u_element);
            vstore16(u3, 0, to + 9 * u_element);
            vstore16(u4, 0, to + 10 * u_element);
            vstore16(u5, 0, to + 11 * u_element);
        }
        {
            const float16 g0 = t2_0;
            const float16 g1 = t2_1;
            const float16 g2 = t2_2;
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            vstore16(u0, 0, to + 12 * u_element);
            vstore16(u1, 0, to + 13 * u_element);
            vstore16(u2, 0, to + 14 * u_element);
            vstore16(u3, 0, to + 15 * u_element);
            vstore16(u4, 0, to + 16 * u_element);
            vstore16(u5, 0, to + 17 * u_element);
        }
        {
            const float16 g0 = t3_0;
            const float16 g1 = t3_1;
            const float16 g2 = t3_2;
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            vstore16(u0, 0, to + 18 * u_element);
            vstore16(u1, 0, to + 19 * u_element);
            vstore16(u2, 0, to + 20 * u_element);
            vstore16(u3, 0, to + 21 * u_element);
            vstore16(u4, 0, to + 22 * u_element);
            vstore16(u5, 0, to + 23 * u_element);
        }
        {
            const float16 g0 = t4_0;
            const float16 g1 = t4_1;
            const float16 g2 = t4_2;
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            vstore16(u0, 0, to + 24 * u_element);
            vstore16(u1, 0, to + 25 * u_element);
            vstore16(u2, 0, to + 26 * u_element);
            vstore16(u3, 0, to + 27 * u_element);
            vstore16(u4, 0, to + 28 * u_element);
            vstore16(u5, 0, to + 29 * u_element);
        }
        {
            const float16 g0 = t5_0;
            const float16 g1 = t5_1;
            const float16 g2 = t5_2;
            const float16 g_e1 = 2.56f * g0 + g2;
            const float16 u1 = -0.4302521f * g1 + (-0.26890758f * g_e1);
            const float16 u2 = -0.26890758f * g_e1 + (0.4302521f * g1);
            const float16 g_e3 = 0.44444445f * g0 + g2;
            const float16 u3 = 0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u4 = -0.17927171f * g1 + (0.26890758f * g_e3);
            const float16 u0 = 1.1377778f * g0;
            const float16 u5 = g2;
            vstore16(u0, 0, to + 30 * u_element);
            vstore16(u1, 0, to + 31 * u_element);
            vstore16(u2, 0, to + 32 * u_element);
            vstore16(u3, 0, to + 33 * u_element);
            vstore16(u4, 0, to + 34 * u_element);
            vstore16(u5, 0, to + 35 * u_element);
        }
    }
}
