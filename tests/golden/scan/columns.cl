// Neighbouring lines lie side by side: a work-item walks along 16 of them at once.
//
//     lines across >   | tile 0 | tile 1 | ... | what fills no tile, one by one |
//     elements v       |  16     |        |
//     every 512 of them partial results begin anew: sums of sums have smaller errors
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

static inline __attribute__((overloadable)) void take_partial(
float16 *to_scan_y0, const float16 other_y0)
{
    typedef float16 typeof_scan_y0;
    typeof_scan_y0 scan_y0 = *to_scan_y0;
    {
#line 1 "snippet:combine"
scan_y0 += other_y0;
#line 33 "kernel"
    }
    *to_scan_y0 = scan_y0;
}

__kernel void scan(
    __global float *y0_memory,
    __global const float *x0_memory,
    const int n,
    const int chunk,
    const int width,
    const int outputs,
    const int per_group,
    const int x0_start,
    const int x0_step,
    const int x0_column,
    const int y0_start,
    const int y0_step,
    const int y0_column)
{

    const index_t piece = (index_t)get_global_id(1);
    const index_t begin = piece * chunk;
    const index_t end = min(begin + chunk, n);
    const index_t tiles = width / 16 + width % 16;
    const index_t first = (index_t)get_global_id(0) * per_group;
    const index_t last = min(first + per_group, outputs / width * tiles);
    for (index_t tile = first; tile < last; ++tile) {
        const index_t outer = tile / tiles;
        const index_t t = tile - outer * tiles;

        if (t < width / 16) {
            const index_t c = t * 16;
            {
                float16 done_scan_y0;
                {
                    typedef float16 typeof_scan_y0;
                    typeof_scan_y0 scan_y0 = 0;
                    {
#line 1 "snippet:init"
scan_y0 = 0;
#line 74 "kernel"
                    }

                    done_scan_y0 = scan_y0;
                }

                index_t x0_at = x0_start + begin * x0_step;
                index_t y0_at = y0_start + begin * y0_step;
                for (index_t block = begin; block < end; block += 512) {
                    typedef float16 typeof_scan_y0;
                    typeof_scan_y0 scan_y0 = 0;
                    {
#line 1 "snippet:init"
scan_y0 = 0;
#line 88 "kernel"
                    }

                    const index_t stop = min(block + 512, end);
                    for (index_t i = block; i < stop; ++i) {
                        typedef float16 typeof_x0;
                        const typeof_x0 x0 = vload16(0, x0_memory + x0_at + c);

                        {
                            float16 merged_scan_y0 = done_scan_y0;
                            take_partial(&merged_scan_y0, scan_y0);
                            {
                                const float16 result_scan_y0 = merged_scan_y0;
                                {
                                    typedef float16 typeof_scan_y0;
                                    const typeof_scan_y0 scan_y0 = result_scan_y0;
                                    typedef float16 typeof_y0;
                                    const typeof_y0 y0 = scan_y0;
                                    vstore16(y0, 0, y0_memory + y0_at + c);
                                }
                            }

                        }

                        typedef float16 typeof_y0;
                        typeof_y0 y0 = 0;
                        {
#line 1 "snippet:expr"
y0 = x0;
#line 117 "kernel"
                        }
                        {
#line 1 "snippet:step"
scan_y0 += y0;
#line 122 "kernel"
                        }

                        x0_at += x0_step;
                        y0_at += y0_step;
                    }
                    take_partial(&done_scan_y0, scan_y0);
                }
            }

        } else {
            const index_t c = width - tiles + t;
            {
                float done_scan_y0;
                {
                    typedef float typeof_scan_y0;
                    typeof_scan_y0 scan_y0 = 0;
                    {
#line 1 "snippet:init"
scan_y0 = 0;
#line 142 "kernel"
                    }

                    done_scan_y0 = scan_y0;
                }

                index_t x0_at = x0_start + begin * x0_step;
                index_t y0_at = y0_start + begin * y0_step;
                for (index_t block = begin; block < end; block += 512) {
                    typedef float typeof_scan_y0;
                    typeof_scan_y0 scan_y0 = 0;
                    {
#line 1 "snippet:init"
scan_y0 = 0;
#line 156 "kernel"
                    }

                    const index_t stop = min(block + 512, end);
                    for (index_t i = block; i < stop; ++i) {
                        typedef float typeof_x0;
                        const typeof_x0 x0 = (float)x0_memory[x0_at + c];

                        {
                            float merged_scan_y0 = done_scan_y0;
                            take_partial(&merged_scan_y0, scan_y0);
                            {
                                const float result_scan_y0 = merged_scan_y0;
                                {
                                    typedef float typeof_scan_y0;
                                    const typeof_scan_y0 scan_y0 = result_scan_y0;
                                    typedef float typeof_y0;
                                    const typeof_y0 y0 = (float)scan_y0;
                                    y0_memory[y0_at + c] = y0;
                                }
                            }

                        }

                        typedef float typeof_y0;
                        typeof_y0 y0 = 0;
                        {
#line 1 "snippet:expr"
y0 = x0;
#line 185 "kernel"
                        }
                        {
#line 1 "snippet:step"
scan_y0 += y0;
#line 190 "kernel"
                        }

                        x0_at += x0_step;
                        y0_at += y0_step;
                    }
                    take_partial(&done_scan_y0, scan_y0);
                }
            }

        }
    }
}
