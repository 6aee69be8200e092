typedef int index_t;

#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#define prefetch_line(address) __builtin_prefetch(address)
#endif
#endif
#ifndef prefetch_line
#define prefetch_line(address)
#endif

// Winograd's convolution, the first of three kernels: transforms the input. A work-group takes
// 6 tiles and some blocks of channels; fused.cl.jinja has the picture.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd_input(
    __global const float *x_memory,
    __global float *transformed,
    const int x_start,
    const int x_group,
    const int x_image,
    const int x_row,
    const int x_channel,
    const int x_rows,
    const int x_columns,
    const int rows_before,
    const int columns_before,
    const int channels,
    const int channel_blocks,
    const int tile_lines,
    const int tile_columns,
    const int longest_run,
    const int line_pitch,
    const int v_element,
    const int x_column,
    const int tile_begin,
    const int tile_end,
    const int v_group,
    const int tiles_a_part,
    const int blocks_a_part)
{
    __local float lines[4096];
    const index_t group = get_group_id(2);
    __global float *V = transformed + group * v_group;
    const index_t tile_first = tile_begin + (index_t)get_group_id(0) * tiles_a_part;
    const index_t tile_last = min(tile_first + tiles_a_part, tile_end);
    const int block_first = get_group_id(1) * blocks_a_part;
    const int block_last = min(block_first + (int)blocks_a_part, (int)channel_blocks);
    for (index_t tile = tile_first; tile < tile_last;) {
        // A run of tiles in a line of tiles.
        const index_t above = tile / tile_columns;
        const int tile_column = tile - above * tile_columns;
        const index_t image = above / tile_lines;
        const int run = min(min((int)(tile_last - tile), tile_columns - tile_column), (int)longest_run);
        const int top = (int)(above - image * tile_lines) * 2 - rows_before;
        const int left = tile_column * 2 - columns_before;
        const int wide = run * 2 + 2;
        for (int block = block_first; block < block_last; ++block) {
            // The last block of channels ends with the last channel.
            const int channel = min(block * 16, channels - 16);
            const index_t x_at = x_start + group * x_group + image * x_image + channel * x_channel;
            // Rows outside are not read: of another row, that is there, nothing is taken.
            const bool inside_0 = (uint)(top + 0) < (uint)x_rows;
            const index_t x_0 = x_at + (inside_0 ? top + 0 : 0) * x_row;
            const bool inside_1 = (uint)(top + 1) < (uint)x_rows;
            const index_t x_1 = x_at + (inside_1 ? top + 1 : 0) * x_row;
            const bool inside_2 = (uint)(top + 2) < (uint)x_rows;
            const index_t x_2 = x_at + (inside_2 ? top + 2 : 0) * x_row;
            const bool inside_3 = (uint)(top + 3) < (uint)x_rows;
            const index_t x_3 = x_at + (inside_3 ? top + 3 : 0) * x_row;
            const index_t step_ahead = block + 1 < block_last ? 16 : 2 * x_row - channel;
            // Down the columns: what neighbouring tiles share is transformed once.
            for (int c = 0; c < wide; ++c) {
                const int x_c = left + c;
                if ((uint)x_c >= (uint)x_columns) {
                    vstore16((float16)0, 0 * line_pitch + c, lines);
                    vstore16((float16)0, 1 * line_pitch + c, lines);
                    vstore16((float16)0, 2 * line_pitch + c, lines);
                    vstore16((float16)0, 3 * line_pitch + c, lines);
                    continue;
                }
                const index_t at = x_c * x_column;
                // The next block of channels is on its way while this one is computed.
                prefetch_line(x_memory + x_0 + at + step_ahead);
                prefetch_line(x_memory + x_1 + at + step_ahead);
                prefetch_line(x_memory + x_2 + at + step_ahead);
                prefetch_line(x_memory + x_3 + at + step_ahead);
                const float16 d0 = inside_0 ? vload16(0, x_memory + x_0 + at) : (float16)0;
                const float16 d1 = inside_1 ? vload16(0, x_memory + x_1 + at) : (float16)0;
                const float16 d2 = inside_2 ? vload16(0, x_memory + x_2 + at) : (float16)0;
                const float16 d3 = inside_3 ? vload16(0, x_memory + x_3 + at) : (float16)0;
                const float16 v0 = d2 - d0;
                const float16 v1 = d1 + d2;
                const float16 v2 = d2 - d1;
                const float16 v3 = d3 - d1;
                vstore16(v0, 0 * line_pitch + c, lines);
                vstore16(v1, 1 * line_pitch + c, lines);
                vstore16(v2, 2 * line_pitch + c, lines);
                vstore16(v3, 3 * line_pitch + c, lines);
            }
            // Along the rows of every tile.
            int row = (int)(tile - tile_begin) / 6;
            int part = (int)(tile - tile_begin) - row * 6;
            for (int t = 0; t < run; ++t) {
                __global float *to = V + ((index_t)row * channel_blocks + block) * 96 + part * 16;
                for (int i = 0; i < 4; ++i) {
                    __local const float *line = lines + (i * line_pitch + t * 2) * 16;
                    const float16 d0 = vload16(0, line);
                    const float16 d1 = vload16(1, line);
                    const float16 d2 = vload16(2, line);
                    const float16 d3 = vload16(3, line);
                    const float16 v0 = d2 - d0;
                    const float16 v1 = d1 + d2;
                    const float16 v2 = d2 - d1;
                    const float16 v3 = d3 - d1;
                    vstore16(v0, 0, to + 0 * v_element);
                    vstore16(v1, 0, to + 1 * v_element);
                    vstore16(v2, 0, to + 2 * v_element);
                    vstore16(v3, 0, to + 3 * v_element);
                    to += 4 * v_element;
                }
                if (++part == 6) {
                    part = 0;
                    ++row;
                }
            }
        }
        tile += run;
    }

}
