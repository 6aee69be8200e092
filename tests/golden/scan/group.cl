// The 256 work-items of a group share a line: in every tile each takes 4 neighbours.
//
//     tile         | 0 0 0 0 | 1 1 1 1 | 2 2 2 2 | ...      work-items and their elements
//     totals       |    s0   |    s1   |    s2   | ...      scanned in local memory
//     results      what was before the tile, what work-items before this one sum up to, its own
typedef int index_t;

#define lowest_scan_y0 -INFINITY
#define highest_scan_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float *to_scan_y0, const float other_y0)
{
    typedef float typeof_scan_y0;
    typeof_scan_y0 scan_y0 = *to_scan_y0;
    {
#line 1 "snippet:combine"
scan_y0 += other_y0;
#line 20 "kernel"
    }
    *to_scan_y0 = scan_y0;
}

__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void scan(
    __global float *y0_memory,
    __global const float *x0_memory,
    const int n,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int k0,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int x0_k0,
    const int y0_start,
    const int y0_step,
    const int y0_column,
    const int y0_k0)
{

    __local float local_scan_y0[256];

    const index_t lane = (index_t)get_local_id(0);
    const index_t line = (index_t)get_group_id(0);
    const index_t piece = (index_t)get_group_id(1);
    const index_t begin = piece * chunk;
    const index_t end = min(begin + chunk, n);
    index_t kept_rest = line;
    const index_t at_k0 = kept_rest;

    const index_t x0_at = x0_start + at_k0 * x0_k0;
    const index_t y0_at = y0_start + at_k0 * y0_k0;
    float done_scan_y0;
    {
        typedef float typeof_scan_y0;
        typeof_scan_y0 scan_y0 = 0;
        {
#line 1 "snippet:init"
scan_y0 = 0;
#line 63 "kernel"
        }

        done_scan_y0 = scan_y0;
    }

    for (index_t base = begin; base < end; base += 1024) {
        {
            typedef float typeof_scan_y0;
            typeof_scan_y0 scan_y0 = 0;
            {
#line 1 "snippet:init"
scan_y0 = 0;
#line 76 "kernel"
            }

            for (int u = 0; u < 4; ++u) {
                const index_t e = base + lane * 4 + u;
                if (e < end) {
                    typedef float typeof_x0;
                    const typeof_x0 x0 = (float)x0_memory[x0_at + e * x0_step];
                    typedef float typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0;
#line 89 "kernel"
                    }
                    {
#line 1 "snippet:step"
scan_y0 += y0;
#line 94 "kernel"
                    }

                }
            }

            local_scan_y0[lane] = scan_y0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int reach = 1; reach < 256; reach *= 2) {
            float earlier_scan_y0 = local_scan_y0[lane < reach ? lane : lane - reach];
            barrier(CLK_LOCAL_MEM_FENCE);
            if (lane >= reach) {
                take_partial(&earlier_scan_y0, local_scan_y0[lane]);
                local_scan_y0[lane] = earlier_scan_y0;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        {
            float before_scan_y0 = done_scan_y0;
            if (lane > 0)
                take_partial(&before_scan_y0, local_scan_y0[lane - 1]);
            typedef float typeof_scan_y0;
            typeof_scan_y0 scan_y0 = 0;
            {
#line 1 "snippet:init"
scan_y0 = 0;
#line 121 "kernel"
            }

            for (int u = 0; u < 4; ++u) {
                const index_t e = base + lane * 4 + u;
                if (e < end) {
                    typedef float typeof_x0;
                    const typeof_x0 x0 = (float)x0_memory[x0_at + e * x0_step];

                    typedef float typeof_y0;
                    typeof_y0 y0 = 0;
                    {
#line 1 "snippet:expr"
y0 = x0;
#line 135 "kernel"
                    }
                    {
#line 1 "snippet:step"
scan_y0 += y0;
#line 140 "kernel"
                    }

                    {
                        float merged_scan_y0 = before_scan_y0;
                        take_partial(&merged_scan_y0, scan_y0);
                        {
                            const float result_scan_y0 = merged_scan_y0;
                            {
                                typedef float typeof_scan_y0;
                                const typeof_scan_y0 scan_y0 = result_scan_y0;
                                typedef float typeof_y0;
                                const typeof_y0 y0 = (float)scan_y0;
                                y0_memory[y0_at + e * y0_step] = y0;
                            }
                        }

                    }

                }
            }

        }
        take_partial(&done_scan_y0, local_scan_y0[255]);
        barrier(CLK_LOCAL_MEM_FENCE);  // the next tile uses the same local memory
    }
}
