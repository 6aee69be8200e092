typedef int index_t;

// A streaming store: what is written here is too large to be found in a cache later. This needs a
// compiler that knows how, and an aligned address.
static inline __attribute__((overloadable)) void stream(__global uint *to, uint16 value)
{
#ifdef __has_builtin
#if __has_builtin(__builtin_nontemporal_store)
    if (((size_t)to & (sizeof(value) - 1)) == 0) {
        __builtin_nontemporal_store(value, (__global uint16 *)to);
        return;
    }
#endif
#endif
    vstore16(value, 0, to);
}

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define prefetch_line(address) __builtin_prefetch(address)
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#endif

// Puts a result together from pieces. A work-item has `run` neighbouring elements, and
// writes whole vectors: those of one piece are copied, others are put together before.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pieces(
    __global uint *y_memory,
    __global const uint *x1_memory,
    __global const uint *x0_memory,
    const int size,
    const int run,
    const int n,
    const int y_start,
    const int n0,
    const int x1_from,
    const int x1_to,
    const int x1_start,
    const int x1_s0,
    const int x0_from,
    const int x0_to,
    const int x0_start,
    const int x0_s0)
{
    y_memory += y_start;
    index_t at = (index_t)get_global_id(0) * run;
    const index_t last = min(at + run, size);
    const index_t row = at / n;
    index_t start = row * n;
    index_t i0 = row;
    // Room for a vector before and after: a part is written with what follows it, or what it follows.
    uint line[48] __attribute__((aligned(64)));
    __global const uint *from;
    index_t stop, step;
    bool wide;
    while (at >= start + n) {
        start += n;
        ++i0;
    }
    from = 0;
    stop = start + n;
    step = 0;
    wide = true;
    if (at < start + x1_to) {
        if (at >= start + x1_from) {
            from = x1_memory + x1_start + i0 * x1_s0 + (at - start - x1_from);
            stop = start + x1_to;
            step = x1_s0;
            wide = false;
        } else {
            stop = min(stop, start + x1_from);
        }
    }
    if (at < start + x0_to) {
        if (at >= start + x0_from) {
            from = x0_memory + x0_start + i0 * x0_s0 + (at - start - x0_from);
            stop = start + x0_to;
            step = x0_s0;
        } else {
            stop = min(stop, start + x0_from);
        }
    }

    while (at < last) {
        const index_t whole = (min(stop, last) - at) / 16 * 16;
        if (whole > 0) {
            for (index_t e = 0; e < whole; e += 16) {
                prefetch_line(from + e + 1024);
                stream(y_memory + at + e, vload16(0, from + e));
            }
            from += whole;
            at += whole;
            if (at == stop && at < last) {
                while (at >= start + n) {
                    start += n;
                    ++i0;
                }
                from = 0;
                stop = start + n;
                step = 0;
                wide = true;
                if (at < start + x1_to) {
                    if (at >= start + x1_from) {
                        from = x1_memory + x1_start + i0 * x1_s0 + (at - start - x1_from);
                        stop = start + x1_to;
                        step = x1_s0;
                        wide = false;
                    } else {
                        stop = min(stop, start + x1_from);
                    }
                }
                if (at < start + x0_to) {
                    if (at >= start + x0_from) {
                        from = x0_memory + x0_start + i0 * x0_s0 + (at - start - x0_from);
                        stop = start + x0_to;
                        step = x0_s0;
                    } else {
                        stop = min(stop, start + x0_from);
                    }
                }

            }

            continue;
        }
        const index_t begin = at, end = min(at + 16, last);
        while (at < end) {
            const index_t left = stop - at, count = min(stop, end) - at;
            uint *const to = line + 16 + (at - begin);
            prefetch_line(from + max((index_t)1024, step));
            if (left >= 16)
                vstore16(vload16(0, from), 0, to);
            else if (wide)
                vstore16(vload16(0, from + left - 16), 0, to + left - 16);
            else
                for (index_t e = 0; e < count; ++e)
                    to[e] = from[e];
            from += count;
            at += count;
            if (at == stop && at < last) {
                while (at >= start + n) {
                    start += n;
                    ++i0;
                }
                from = 0;
                stop = start + n;
                step = 0;
                wide = true;
                if (at < start + x1_to) {
                    if (at >= start + x1_from) {
                        from = x1_memory + x1_start + i0 * x1_s0 + (at - start - x1_from);
                        stop = start + x1_to;
                        step = x1_s0;
                        wide = false;
                    } else {
                        stop = min(stop, start + x1_from);
                    }
                }
                if (at < start + x0_to) {
                    if (at >= start + x0_from) {
                        from = x0_memory + x0_start + i0 * x0_s0 + (at - start - x0_from);
                        stop = start + x0_to;
                        step = x0_s0;
                    } else {
                        stop = min(stop, start + x0_from);
                    }
                }

            }

        }
        if (end - begin == 16) {
            stream(y_memory + begin, vload16(1, line));
        } else {
            for (index_t e = begin; e < end; ++e)
                y_memory[e] = line[16 + e - begin];
        }
    }
}
