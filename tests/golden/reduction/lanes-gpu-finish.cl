typedef int index_t;

#define lowest_reduce_y0 -INFINITY
#define highest_reduce_y0 INFINITY

static inline __attribute__((overloadable)) void take_partial(
float *to_reduce_y0, const float other_y0)
{
    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = *to_reduce_y0;
    {
#line 1 "snippet:combine"
reduce_y0 += other_y0;
#line 15 "kernel"
    }
    *to_reduce_y0 = reduce_y0;
}

__kernel void reduction_finish(
    __global float *y0_memory,
    __global const float *reduce_y0_memory,
    const int length,
    const int outputs,
    const int splits,
    const int k0,
    const int y0_start,
    const int y0_k0)
{

    __local float local_reduce_y0[16];

    const index_t lane = (index_t)get_local_id(0);
    const index_t o = (index_t)get_group_id(0);
    index_t kept_rest = o;
    const index_t at_k0 = kept_rest;

    typedef float typeof_reduce_y0;
    typeof_reduce_y0 reduce_y0 = 0;
    {
#line 1 "snippet:init"
reduce_y0 = 0;
#line 43 "kernel"
    }

    for (index_t split = lane; split < splits; split += 16)
        take_partial(&reduce_y0, reduce_y0_memory[split * outputs + o]);

    local_reduce_y0[lane] = reduce_y0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int reach = 8; reach > 0; reach /= 2) {
        if (lane < reach) {
            take_partial(&reduce_y0, local_reduce_y0[lane + reach * 1]);
            local_reduce_y0[lane] = reduce_y0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    if (lane != 0)
        return;
    const index_t y0_at = y0_start + at_k0 * y0_k0;
    typedef float typeof_y0;
    typeof_y0 y0 = (float)reduce_y0;
    y0_memory[y0_at] = y0;

}
