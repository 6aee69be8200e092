typedef int index_t;

static inline float16 pick0(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s2, a.s4, a.s6, a.s8, a.sa, a.sc, a.se, b.s0, b.s2, b.s4, b.s6, b.s8, b.sa, b.sc, b.se);
}
static inline float16 pick1(const float16 a, const float16 b)
{
    return (float16)(a.s1, a.s3, a.s5, a.s7, a.s9, a.sb, a.sd, a.sf, b.s1, b.s3, b.s5, b.s7, b.s9, b.sb, b.sd, b.sf);
}

// Transforms a weight: G w G^T, 6 x 6 elements of 3 x 3 taps. A work-item transforms some
// channels of a strip of 64 outputs.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd_weight(
    __global const float *w_memory,
    __global float *packed,
    const int channels,
    const int channels_a_part,
    const int outputs,
    const int w_start,
    const int w_row,
    const int w_column,
    const int w_channel,
    const int w_group,
    const int w_output,
    const int w_end,
    const int u_element,
    const int u_strip,
    const int u_group)
{
    const index_t strip = get_group_id(1), group = get_group_id(2);
    const index_t channel_first = (index_t)get_group_id(0) * channels_a_part;
    const index_t channel_last = min(channel_first + channels_a_part, channels);
    __global float *target = packed + group * u_group + strip * u_strip + channel_first * 64;
    const index_t w_first = w_start + group * w_group;
    for (index_t some = channel_first; some < channel_last; some += 1) {
        for (int v = 0; v < 4; ++v) {
            const index_t column = strip * 64 + v * 16;
            float taps[144];
            {
                const index_t channel = some;
                const int k = 0;
                // The taps of an output lie side by side.
                const index_t at = channel * w_channel;
                const index_t last = min(column + 15, outputs - 1);
                if (w_first + at + max(column * w_output, last * w_output) + 16 <= w_end) {
                    {
                        const float16 v0 = vload16(0, w_memory + w_first + min(column + 0, outputs - 1) * w_output + at);
                        const float16 v1 = vload16(0, w_memory + w_first + min(column + 1, outputs - 1) * w_output + at);
                        const float16 v2 = vload16(0, w_memory + w_first + min(column + 2, outputs - 1) * w_output + at);
                        const float16 v3 = vload16(0, w_memory + w_first + min(column + 3, outputs - 1) * w_output + at);
                        const float16 v4 = vload16(0, w_memory + w_first + min(column + 4, outputs - 1) * w_output + at);
                        const float16 v5 = vload16(0, w_memory + w_first + min(column + 5, outputs - 1) * w_output + at);
                        const float16 v6 = vload16(0, w_memory + w_first + min(column + 6, outputs - 1) * w_output + at);
                        const float16 v7 = vload16(0, w_memory + w_first + min(column + 7, outputs - 1) * w_output + at);
                        const float16 v8 = vload16(0, w_memory + w_first + min(column + 8, outputs - 1) * w_output + at);
                        const float16 v9 = vload16(0, w_memory + w_first + min(column + 9, outputs - 1) * w_output + at);
                        const float16 v10 = vload16(0, w_memory + w_first + min(column + 10, outputs - 1) * w_output + at);
                        const float16 v11 = vload16(0, w_memory + w_first + min(column + 11, outputs - 1) * w_output + at);
                        const float16 v12 = vload16(0, w_memory + w_first + min(column + 12, outputs - 1) * w_output + at);
                        const float16 v13 = vload16(0, w_memory + w_first + min(column + 13, outputs - 1) * w_output + at);
                        const float16 v14 = vload16(0, w_memory + w_first + min(column + 14, outputs - 1) * w_output + at);
                        const float16 v15 = vload16(0, w_memory + w_first + min(column + 15, outputs - 1) * w_output + at);
                        const float16 v16 = pick0(v0, v1);
                        const float16 v17 = pick1(v0, v1);
                        const float16 v18 = pick0(v2, v3);
                        const float16 v19 = pick1(v2, v3);
                        const float16 v20 = pick0(v4, v5);
                        const float16 v21 = pick1(v4, v5);
                        const float16 v22 = pick0(v6, v7);
                        const float16 v23 = pick1(v6, v7);
                        const float16 v24 = pick0(v8, v9);
                        const float16 v25 = pick1(v8, v9);
                        const float16 v26 = pick0(v10, v11);
                        const float16 v27 = pick1(v10, v11);
                        const float16 v28 = pick0(v12, v13);
                        const float16 v29 = pick1(v12, v13);
                        const float16 v30 = pick0(v14, v15);
                        const float16 v31 = pick1(v14, v15);
                        const float16 v32 = pick0(v16, v18);
                        const float16 v33 = pick1(v16, v18);
                        const float16 v34 = pick0(v20, v22);
                        const float16 v35 = pick1(v20, v22);
                        const float16 v36 = pick0(v24, v26);
                        const float16 v37 = pick1(v24, v26);
                        const float16 v38 = pick0(v28, v30);
                        const float16 v39 = pick1(v28, v30);
                        const float16 v40 = pick0(v17, v19);
                        const float16 v41 = pick1(v17, v19);
                        const float16 v42 = pick0(v21, v23);
                        const float16 v43 = pick1(v21, v23);
                        const float16 v44 = pick0(v25, v27);
                        const float16 v45 = pick1(v25, v27);
                        const float16 v46 = pick0(v29, v31);
                        const float16 v47 = pick1(v29, v31);
                        const float16 v48 = pick0(v32, v34);
                        const float16 v49 = pick1(v32, v34);
                        const float16 v50 = pick0(v36, v38);
                        const float16 v51 = pick1(v36, v38);
                        const float16 v52 = pick0(v40, v42);
                        const float16 v53 = pick1(v40, v42);
                        const float16 v54 = pick0(v44, v46);
                        const float16 v55 = pick1(v44, v46);
                        const float16 v56 = pick0(v33, v35);
                        const float16 v57 = pick1(v33, v35);
                        const float16 v58 = pick0(v37, v39);
                        const float16 v59 = pick1(v37, v39);
                        const float16 v60 = pick0(v41, v43);
                        const float16 v61 = pick1(v41, v43);
                        const float16 v62 = pick0(v45, v47);
                        const float16 v63 = pick1(v45, v47);
                        const float16 v64 = pick0(v48, v50);
                        const float16 v65 = pick1(v48, v50);
                        const float16 v66 = pick0(v52, v54);
                        const float16 v67 = pick1(v52, v54);
                        const float16 v68 = pick0(v56, v58);
                        const float16 v69 = pick1(v56, v58);
                        const float16 v70 = pick0(v60, v62);
                        const float16 v71 = pick1(v60, v62);
                        const float16 v72 = pick0(v49, v51);
                        const float16 v73 = pick1(v49, v51);
                        const float16 v74 = pick0(v53, v55);
                        const float16 v75 = pick1(v53, v55);
                        const float16 v76 = pick0(v57, v59);
                        const float16 v77 = pick1(v57, v59);
                        const float16 v78 = pick0(v61, v63);
                        const float16 v79 = pick1(v61, v63);

                        vstore16(v64, 0, taps);
                        vstore16(v66, 1, taps);
                        vstore16(v68, 2, taps);
                        vstore16(v70, 3, taps);
                        vstore16(v72, 4, taps);
                        vstore16(v74, 5, taps);
                        vstore16(v76, 6, taps);
                        vstore16(v78, 7, taps);
                        vstore16(v65, 8, taps);
                    }

                } else {
                    for (int e = 0; e < 16; ++e) {
                        const index_t place = w_first + channel * w_channel + min(column + e, outputs - 1) * w_output;
                        for (int i = 0; i < 3; ++i)
                            for (int j = 0; j < 3; ++j)
                                taps[(i * 3 + j) * 16 + e] = (float)w_memory[place + i * w_row + j * w_column];
                    }

                }
                float16 t0_0;
                float16 t1_0;
                float16 t2_0;
                float16 t3_0;
                float16 t4_0;
                float16 t5_0;
                {
                    const float16 g0 = vload16(k * 9 + 0, taps);
                    const float16 g1 = vload16(k * 9 + 3, taps);
                    const float16 g2 = vload16(k * 9 + 6, taps);
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
                    const float16 g0 = vload16(k * 9 + 1, taps);
                    const float16 g1 = vload16(k * 9 + 4, taps);
                    const float16 g2 = vload16(k * 9 + 7, taps);
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
                    const float16 g0 = vload16(k * 9 + 2, taps);
                    const float16 g1 = vload16(k * 9 + 5, taps);
                    const float16 g2 = vload16(k * 9 + 8, taps);
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
                __global float *to = target + (channel - channel_first) * 64 + v * 16;
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
    }

}
