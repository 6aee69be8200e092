// Packs an operand of a matrix product: tiles of 64 lanes, in which the lanes of one step of
// k lie side by side, so that the product reads it from the first to the last element.
//
//     tile 0: depth 0: lane 0 ... 63 | depth 1: lane 0 ... 63 | ...       tile 1: ...
//
// Lanes that are not there are the last one, so that strings see no others.
// Steps of k lie side by side in the operand: squares of 16 x 16 are transposed, so that a line
// of memory is read once.
typedef int index_t;

static inline float16 pick0(const float16 a, const float16 b)
{
    return (float16)(a.s0, a.s2, a.s4, a.s6, a.s8, a.sa, a.sc, a.se, b.s0, b.s2, b.s4, b.s6, b.s8, b.sa, b.sc, b.se);
}
static inline float16 pick1(const float16 a, const float16 b)
{
    return (float16)(a.s1, a.s3, a.s5, a.s7, a.s9, a.sb, a.sd, a.sf, b.s1, b.s3, b.s5, b.s7, b.s9, b.sb, b.sd, b.sf);
}

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
    const index_t tile = (index_t)get_global_id(1);
    index_t rest = from;
    index_t digit_2 = rest % depth_2;
    rest /= depth_2;
    index_t digit_1 = rest % depth_1;
    index_t digit_0 = rest / depth_1;
    for (index_t k = from; k < stop; ++k) {
        const index_t line = x_start + group * x_group
            + digit_0 * x_depth_0 + digit_1 * x_depth_1 + digit_2 * x_depth_2;
        {
            const index_t place = line + tile * 64 * x_lane;
            __global float *to = packed + ((group * tiles + tile) * depth_padded + k) * 64;
            const int inside = k < depth ? min((index_t)64, lanes - tile * 64) : 0;
            if (inside == 64 && digit_2 + 16 <= depth_2 && k + 16 <= stop) {
                for (int l = 0; l < 64; l += 16) {
                    const float16 v0 = vload16(0, x_memory + place + (l + 0) * x_lane);
                    const float16 v1 = vload16(0, x_memory + place + (l + 1) * x_lane);
                    const float16 v2 = vload16(0, x_memory + place + (l + 2) * x_lane);
                    const float16 v3 = vload16(0, x_memory + place + (l + 3) * x_lane);
                    const float16 v4 = vload16(0, x_memory + place + (l + 4) * x_lane);
                    const float16 v5 = vload16(0, x_memory + place + (l + 5) * x_lane);
                    const float16 v6 = vload16(0, x_memory + place + (l + 6) * x_lane);
                    const float16 v7 = vload16(0, x_memory + place + (l + 7) * x_lane);
                    const float16 v8 = vload16(0, x_memory + place + (l + 8) * x_lane);
                    const float16 v9 = vload16(0, x_memory + place + (l + 9) * x_lane);
                    const float16 v10 = vload16(0, x_memory + place + (l + 10) * x_lane);
                    const float16 v11 = vload16(0, x_memory + place + (l + 11) * x_lane);
                    const float16 v12 = vload16(0, x_memory + place + (l + 12) * x_lane);
                    const float16 v13 = vload16(0, x_memory + place + (l + 13) * x_lane);
                    const float16 v14 = vload16(0, x_memory + place + (l + 14) * x_lane);
                    const float16 v15 = vload16(0, x_memory + place + (l + 15) * x_lane);
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

                    vstore16(v64, 0, to + 0 + l);
                    vstore16(v66, 0, to + 64 + l);
                    vstore16(v68, 0, to + 128 + l);
                    vstore16(v70, 0, to + 192 + l);
                    vstore16(v72, 0, to + 256 + l);
                    vstore16(v74, 0, to + 320 + l);
                    vstore16(v76, 0, to + 384 + l);
                    vstore16(v78, 0, to + 448 + l);
                    vstore16(v65, 0, to + 512 + l);
                    vstore16(v67, 0, to + 576 + l);
                    vstore16(v69, 0, to + 640 + l);
                    vstore16(v71, 0, to + 704 + l);
                    vstore16(v73, 0, to + 768 + l);
                    vstore16(v75, 0, to + 832 + l);
                    vstore16(v77, 0, to + 896 + l);
                    vstore16(v79, 0, to + 960 + l);
                }
                k += 15;
                digit_2 += 15;
            } else
            if (inside == 64) {
                #pragma unroll
                for (int l = 0; l < 64; ++l)
                    to[l] = (float)x_memory[place + l * x_lane];
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
