typedef int index_t;

// Puts a result together from pieces, and a value between them. A work-item has `run` neighbouring elements, and
// writes whole vectors: those of one piece are copied, others are put together before.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void pieces(
    __global uint *y_memory,
    __global const uint *x0_memory,
    const uint value,
    const int size,
    const int run,
    const int n,
    const int y_start,
    const int n0,
    const int cut,
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
    index_t stop;
    bool wide;
    while (at >= start + n) {
        start += n;
        ++i0;
    }
    from = 0;
    stop = start + n;
    wide = true;
    const index_t x0_from = clamp(i0 + cut, (index_t)0, n);
    if (at < start + x0_to) {
        if (at >= start + x0_from) {
            from = x0_memory + x0_start + i0 * x0_s0 + (at - start);
            stop = start + x0_to;
            wide = false;
        } else {
            stop = min(stop, start + x0_from);
        }
    }

    while (at < last) {
        const index_t whole = (min(stop, last) - at) / 16 * 16;
        if (whole > 0) {
            for (index_t e = 0; e < whole && !from; e += 16) {
                vstore16((uint16)value, 0, y_memory + at + e);
            }
            for (index_t e = 0; e < whole && from; e += 16) {
                vstore16(vload16(0, from + e), 0, y_memory + at + e);
            }
            from += from ? whole : 0;
            at += whole;
            if (at == stop && at < last) {
                while (at >= start + n) {
                    start += n;
                    ++i0;
                }
                from = 0;
                stop = start + n;
                wide = true;
                const index_t x0_from = clamp(i0 + cut, (index_t)0, n);
                if (at < start + x0_to) {
                    if (at >= start + x0_from) {
                        from = x0_memory + x0_start + i0 * x0_s0 + (at - start);
                        stop = start + x0_to;
                        wide = false;
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
            if (!from)
                vstore16((uint16)value, 0, to);
            else if (left >= 16)
                vstore16(vload16(0, from), 0, to);
            else if (wide)
                vstore16(vload16(0, from + left - 16), 0, to + left - 16);
            else
                for (index_t e = 0; e < count; ++e)
                    to[e] = from[e];
            from += from ? count : 0;
            at += count;
            if (at == stop && at < last) {
                while (at >= start + n) {
                    start += n;
                    ++i0;
                }
                from = 0;
                stop = start + n;
                wide = true;
                const index_t x0_from = clamp(i0 + cut, (index_t)0, n);
                if (at < start + x0_to) {
                    if (at >= start + x0_from) {
                        from = x0_memory + x0_start + i0 * x0_s0 + (at - start);
                        stop = start + x0_to;
                        wide = false;
                    } else {
                        stop = min(stop, start + x0_from);
                    }
                }

            }

        }
        if (end - begin == 16) {
            vstore16(vload16(1, line), 0, y_memory + begin);
        } else {
            for (index_t e = begin; e < end; ++e)
                y_memory[e] = line[16 + e - begin];
        }
    }
}
