typedef int index_t;

// Takes elements of a source into a result where an index says, along an axis. A work-item has `run`
// neighbouring lines to itself, and takes their elements in in order:
//
//    index: 2 0 2     source: a b c     y[2] = y[2] a c, y[0] = y[0] b
__kernel void index_lines(
    __global half *y_memory,
    __global const long *index_memory,
    __global const half *source_memory,
    const int length,
    const int places,
    const int run,
    const int size_0,
    const int size_1,
    const int size_2,
    const int size_3,
    const int y_start,
    const int y_0,
    const int y_1,
    const int y_2,
    const int y_3,
    const int y_step,
    const int index_start,
    const int index_0,
    const int index_1,
    const int index_2,
    const int index_3,
    const int index_step,
    const int source_start,
    const int source_0,
    const int source_1,
    const int source_2,
    const int source_3,
    const int source_step)
{
    const index_t first = (index_t)get_global_id(0) * run;
    const index_t last = min(first + run, size_3);
    const index_t line = get_global_id(1);
    const index_t c2 = line % size_2, c1 = line / size_2 % size_1, c0 = line / size_2 / size_1;
    y_memory += y_start + c0 * y_0 + c1 * y_1 + c2 * y_2;
    index_memory += index_start + c0 * index_0 + c1 * index_1 + c2 * index_2;
    source_memory += source_start + c0 * source_0 + c1 * source_1 + c2 * source_2;
    for (index_t k = 0; k < length; ++k)
        for (index_t c = first; c < last; ++c) {
            const long named = (long)index_memory[k * index_step + c * index_3];
            const long place = named + (places & named >> 63);
            if ((ulong)place >= (ulong)places)
                continue; // out of bounds

            const index_t to = (index_t)place * y_step + c * y_3;
            const float v = (float)vload_half(0, source_memory + k * source_step + c * source_3);
            const float y = (float)vload_half(0, y_memory + to);
            vstore_half((v > y || v != v ? v : y), 0, y_memory + to);

        }
}
