// Adds up what the splits of a matrix product's depth gave, tile by tile, and stores it.
//
//     partial: split 0: tile 0 | tile 1 | ...      split 1: tile 0 | tile 1 | ...
typedef int index_t;

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void matmul_finish(
    __global const float *partial,
    __global float *y0_memory,
    const int lanes,
    const int lane_1,
    const int lane_2,
    const int outputs,
    const int tiles,
    const int packed_tiles,
    const int groups,
    const int splits,
    const int y0_start,
    const int y0_group,
    const int y0_channel,
    const int y0_0,
    const int y0_1,
    const int y0_2)
{
    const index_t first = (index_t)get_group_id(0);
    const index_t other = (index_t)get_group_id(1);
    const index_t group = (index_t)get_group_id(2);
    const int count = 1;
    const int tile = 0;
    const index_t y0_at = y0_start + group * y0_group;
    index_t y0_places[13];
    {
        index_t number = first * 13;
        index_t digit_2 = number % lane_2;
        number /= lane_2;
        index_t digit_1 = number % lane_1;
        index_t digit_0 = number / lane_1;
        for (int lane = 0; lane < count * 13; ++lane) {
            // Lanes past the end copy the last one, and are never stored.
            y0_places[lane] = digit_0 * y0_0 + digit_1 * y0_1 + digit_2 * y0_2;
            if (first * 13 + lane + 1 >= lanes)
                continue;
            if (++digit_2 == lane_2) {
                digit_2 = 0;
                if (++digit_1 == lane_1) {
                    digit_1 = 0;
                    ++digit_0;
                }
            }
        }
    }

    do { // once: storing whole vectors leaves it early
        float16 sum[13][2];
        #pragma unroll
        for (int j = 0; j < 13; ++j)
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                sum[j][v] = 0;
        for (index_t split = 0; split < splits; ++split) {
            const index_t number = ((split * groups + group) * tiles + first) * packed_tiles + other;
            __global const float *kept = partial + number * 416;
            #pragma unroll
            for (int j = 0; j < 13; ++j)
                #pragma unroll
                for (int v = 0; v < 2; ++v)
                    sum[j][v] += vload16(j * 2 + v, kept);
        }
        const index_t column = other * 32;
        const int rows_left = min((index_t)13, lanes - first * 13);
        const int columns_left = min((index_t)32, outputs - column);
        if (columns_left >= 32) {
            #pragma unroll
            for (int j = 0; j < 13; ++j)
                if (j < rows_left) {
                    #pragma unroll
                    for (int v = 0; v < 2; ++v) {
                        const int c = v * 16;
                        float16 y0 = sum[j][v];
                        vstore16(y0, 0, y0_memory + y0_at + y0_places[tile * 13 + j] + (column + c) * y0_channel);
                    }
                }
            continue;
        }
        // At the edges, and where columns do not lie side by side: element by element.
        float elements[416];
        #pragma unroll
        for (int j = 0; j < 13; ++j)
            #pragma unroll
            for (int v = 0; v < 2; ++v)
                vstore16(sum[j][v], j * 2 + v, elements);
        for (int j = 0; j < rows_left; ++j) {
            int c = 0;
            for (; c + 16 <= columns_left; c += 16) {
                float16 y0 = vload16(0, elements + j * 32 + c);
                vstore16(y0, 0, y0_memory + y0_at + y0_places[tile * 13 + j] + (column + c) * y0_channel);
            }
            for (; c < columns_left; ++c) {
                float y0 = elements[j * 32 + c];
                y0_memory[y0_at + y0_places[tile * 13 + j] + (column + c) * y0_channel] = y0;
            }
        }

    } while (false);
}
