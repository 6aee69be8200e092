typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void group(
    __global float *out_memory,
    __global float *kept_1_memory,
    __global const float *moving_0_memory,
    __global const float *still_0_memory,
    __global const float *extra_0_memory,
    const float values_w0,
    const float each_w0,
    const int groups,
    const int inner_groups,
    const int groups_an_item,
    const int rows,
    const int n,
    const int rows_a_chain,
    const int out_start,
    const int out_outer,
    const int out_group,
    const int out_row,
    const int kept_1_start,
    const int kept_1_outer,
    const int kept_1_group,
    const int moving_0_start,
    const int moving_0_outer,
    const int moving_0_group,
    const int moving_0_row,
    const int still_0_start,
    const int still_0_outer,
    const int still_0_group,
    const int extra_0_start,
    const int extra_0_outer,
    const int extra_0_group,
    const int extra_0_row)
{
    const index_t first = (index_t)get_group_id(0) * groups_an_item;
    const index_t last = min(first + groups_an_item, groups);
    for (index_t number = first; number < last; ++number) {
        const index_t outer = number / inner_groups, group = number % inner_groups;
        const index_t out_begin = out_start + outer * out_outer + group * out_group;
        const index_t moving_0_begin = moving_0_start + outer * moving_0_outer + group * moving_0_group;
        const float still_0 = (float)still_0_memory[still_0_start + outer * still_0_outer + group * still_0_group];
        const index_t extra_0_begin = extra_0_start + outer * extra_0_outer + group * extra_0_group;
        float total_0 = 0;
        float total_1 = 0;
        for (index_t chain = 0; chain < rows; chain += rows_a_chain) {
            float16 sum_0[4];
            float4 rest_0_4 = 0;
            float rest_0_1 = 0;
            #pragma unroll
            for (int u = 0; u < 4; ++u)
                sum_0[u] = 0;
            float16 sum_1[4];
            float4 rest_1_4 = 0;
            float rest_1_1 = 0;
            #pragma unroll
            for (int u = 0; u < 4; ++u)
                sum_1[u] = 0;
            for (index_t row = chain; row < min(chain + rows_a_chain, rows); ++row) {
                const index_t moving_0_at = moving_0_begin + row * moving_0_row;

                index_t e = 0;
                for (; e + 64 <= n; e += 64) {
                    #pragma unroll
                    for (int u = 0; u < 4; ++u) {
                        const index_t at = e + u * 16;
                        typedef float16 typeof_x0;
                        const float16 x0 = vload16(0, moving_0_memory + moving_0_at + at);
                        typedef float16 typeof_x1;
                        const float16 x1 = still_0;
                        typedef float16 typeof_y0;
                        typeof_y0 y0 = 0;
                        typedef float16 typeof_y1;
                        typeof_y1 y1 = 0;
                        {
#line 1 "snippet:sums"
y0 = x0 - x1; y1 = y0 * y0;
#line 79 "kernel"
                        }

                        sum_0[u] += y0;
                        sum_1[u] += y1;
                    }
                }
                for (; e + 16 <= n; e += 16) {
                    typedef float16 typeof_x0;
                    const float16 x0 = vload16(0, moving_0_memory + moving_0_at + e);
                    typedef float16 typeof_x1;
                    const float16 x1 = still_0;
                    typedef float16 typeof_y0;
                    typeof_y0 y0 = 0;
                    typedef float16 typeof_y1;
                    typeof_y1 y1 = 0;
                    {
#line 1 "snippet:sums"
y0 = x0 - x1; y1 = y0 * y0;
#line 98 "kernel"
                    }

                    sum_0[0] += y0;
                    sum_1[0] += y1;
                }
                for (; e + 4 <= n; e += 4) {
                    typedef float4 typeof_x0;
                    const float4 x0 = vload4(0, moving_0_memory + moving_0_at + e);
                    typedef float4 typeof_x1;
                    const float4 x1 = still_0;
                    typedef float4 typeof_y0;
                    typeof_y0 y0 = 0;
                    typedef float4 typeof_y1;
                    typeof_y1 y1 = 0;
                    {
#line 1 "snippet:sums"
y0 = x0 - x1; y1 = y0 * y0;
#line 116 "kernel"
                    }

                    rest_0_4 += y0;
                    rest_1_4 += y1;
                }
                for (; e + 1 <= n; e += 1) {
                    typedef float typeof_x0;
                    const float x0 = (float)moving_0_memory[moving_0_at + e];
                    typedef float typeof_x1;
                    const float x1 = still_0;
                    typedef float typeof_y0;
                    typeof_y0 y0 = 0;
                    typedef float typeof_y1;
                    typeof_y1 y1 = 0;
                    {
#line 1 "snippet:sums"
y0 = x0 - x1; y1 = y0 * y0;
#line 134 "kernel"
                    }

                    rest_0_1 += y0;
                    rest_1_1 += y1;
                }
            }
            {
                #pragma unroll
                for (int u = 1; u < 4; ++u)
                    sum_0[0] += sum_0[u];
                float elements[16];
                vstore16(sum_0[0], 0, elements);
                vstore4(vload4(0, elements) + rest_0_4, 0, elements);
                elements[0] += rest_0_1;
                #pragma unroll
                for (int half_ = 8; half_ > 0; half_ /= 2)
                    #pragma unroll
                    for (int l = 0; l < half_; ++l)
                        elements[l] += elements[l + half_];
                total_0 += elements[0];
            }
            {
                #pragma unroll
                for (int u = 1; u < 4; ++u)
                    sum_1[0] += sum_1[u];
                float elements[16];
                vstore16(sum_1[0], 0, elements);
                vstore4(vload4(0, elements) + rest_1_4, 0, elements);
                elements[0] += rest_1_1;
                #pragma unroll
                for (int half_ = 8; half_ > 0; half_ /= 2)
                    #pragma unroll
                    for (int l = 0; l < half_; ++l)
                        elements[l] += elements[l + half_];
                total_1 += elements[0];
            }
        }
        float value_0;
        float value_1;
        {
            typedef float typeof_x0;
            const float x0 = total_0;
            typedef float typeof_x1;
            const float x1 = total_1;
            typedef float typeof_x2;
            const float x2 = still_0;
            typedef float typeof_w0;
            const typeof_w0 w0 = values_w0;
            typedef float typeof_y0;
            typeof_y0 y0 = 0;
            typedef float typeof_y1;
            typeof_y1 y1 = 0;
            {
#line 1 "snippet:values"
y0 = x0 * w0 + x2; y1 = rsqrt(x1 * w0);
#line 190 "kernel"
            }

            value_0 = y0;
            value_1 = y1;
        }
        kept_1_memory[kept_1_start + outer * kept_1_outer + group * kept_1_group] = value_1;
        for (index_t row = 0; row < rows; ++row) {
            const index_t out_at = out_begin + row * out_row;
            const index_t moving_0_at = moving_0_begin + row * moving_0_row;
            const index_t extra_0_at = extra_0_begin + row * extra_0_row;

            index_t e = 0;
            for (; e + 16 <= n; e += 16) {
                typedef float16 typeof_x0;
                const float16 x0 = vload16(0, moving_0_memory + moving_0_at + e);
                typedef float16 typeof_x1;
                const float16 x1 = value_0;
                typedef float16 typeof_x2;
                const float16 x2 = value_1;
                typedef float16 typeof_x3;
                const float16 x3 = vload16(0, extra_0_memory + extra_0_at + e);
                typedef float typeof_w0;
                const typeof_w0 w0 = each_w0;
                typedef float16 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:each"
y0 = (x0 - x1) * x2 + x3 * w0;
#line 219 "kernel"
                }

                vstore16(y0, 0, out_memory + out_at + e);
            }
            for (; e + 4 <= n; e += 4) {
                typedef float4 typeof_x0;
                const float4 x0 = vload4(0, moving_0_memory + moving_0_at + e);
                typedef float4 typeof_x1;
                const float4 x1 = value_0;
                typedef float4 typeof_x2;
                const float4 x2 = value_1;
                typedef float4 typeof_x3;
                const float4 x3 = vload4(0, extra_0_memory + extra_0_at + e);
                typedef float typeof_w0;
                const typeof_w0 w0 = each_w0;
                typedef float4 typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:each"
y0 = (x0 - x1) * x2 + x3 * w0;
#line 240 "kernel"
                }

                vstore4(y0, 0, out_memory + out_at + e);
            }
            for (; e + 1 <= n; e += 1) {
                typedef float typeof_x0;
                const float x0 = (float)moving_0_memory[moving_0_at + e];
                typedef float typeof_x1;
                const float x1 = value_0;
                typedef float typeof_x2;
                const float x2 = value_1;
                typedef float typeof_x3;
                const float x3 = (float)extra_0_memory[extra_0_at + e];
                typedef float typeof_w0;
                const typeof_w0 w0 = each_w0;
                typedef float typeof_y0;
                typeof_y0 y0 = 0;
                {
#line 1 "snippet:each"
y0 = (x0 - x1) * x2 + x3 * w0;
#line 261 "kernel"
                }

                out_memory[out_at + e] = y0;
            }
        }
    }
}
