/* Weight gradient: w[co][ci][ky][kx] = sum over (n, oy, ox) of y * x; internal to c_lib/kernels. Tiles of 4 output
 * channels x 4 kernel columns (ci, ky, kx), channels fastest; each core takes a contiguous range and packs, block by
 * block of the outputs, the inputs that its 4 kernel columns meet. dL/dy is read where it lies. Scratch: a panel a
 * core. */
#ifndef TL_CONV_BW_W_H
#define TL_CONV_BW_W_H
#include "tl_columns.h" /* first: it sets how the whole file is compiled */
#include "tl_promise.h"

#define TL_BW_W static inline __attribute__((always_inline))

/* Channels first .. end - 1 over a block that begins at `from`, tile by tile: dL/dy is contiguous along rows. */
static inline void tl_multiply_runs(const tl_conv2d *a, const float *y, tl_output from, int first, int end,
                                    const float *pack, int kc, tl_panel_out *out)
{
    for (out->row = first; out->row < end; out->row += 4) {
        tl_output at = from;
        out->row_end = tl_min(end, out->row + 4);
        out->resume = 0;
        for (int done = 0, run; done < kc; done += run) {
            const float *here = y + at.n * a->yp.n + at.oy * a->yp.h + at.ox;
            run = tl_min(a->wo - at.ox, kc - done);
            out->pause = done + run < kc;
            tl_tile_rows(out, here + out->row * a->yp.c, a->yp.c, pack + 4 * done, 4, run);
            out->resume = 1;
            tl_output_skip(a, run, &at);
        }
    }
}

/* Channel tiles first .. last - 1 of four kernel columns. dense, a literal: the planes of dL/dy are contiguous. */
TL_BW_W void tl_bw_w_panel(const tl_conv2d *a, int group, int index, int first, int last, float *pack, int dense)
{
    const tl_blocks blocks = tl_blocks_of(a);
    const float *y = a->y + group * a->co * a->yp.c;
    float tile[16];
    tl_panel_out out;
    tl_column at[4];
    out.c = a->w + group * a->co * a->w_co, out.c_m = a->w_co, out.init = NULL;
    out.resume = out.pause = 0, out.tile = tile;
    tl_columns_of(a, group, index, &out, at);
    tl_output from = {0, 0, 0};
    for (out.first = !a->accumulate; from.n < a->n; out.first = 0) {
        const int kc = tl_block_size(a, &blocks, &from), first_output = from.n * a->yp.n + from.oy * a->yp.h + from.ox;
        tl_output behind = from;
        for (int j = 0; j < 4; ++j) {
            behind = from;
            tl_column_pack(a, &at[j], &behind, kc, pack + j);
        }
        out.row = 4 * first, out.row_end = tl_min(a->co, 4 * last);
        if (dense)
            tl_tile_rows(&out, y + first_output + out.row * a->yp.c, a->yp.c, pack, 4, kc);
        else
            tl_multiply_runs(a, y, from, out.row, out.row_end, pack, kc, &out);
        from = behind;
    }
}

TL_BW_W void tl_conv_bw_w(const tl_conv2d *a, int dense)
{
    const int tiles = (a->co + 3) / 4, panels = (a->ci * a->kh * a->kw + 3) / 4;
    float *pack = (float *)a->scratch + tl_core_id() * TL_PANEL;
    int lo, hi;
    TL_PROMISE(!dense || a->ho == 1 || a->yp.h == a->wo);
    tl_split_among(tl_team(a->team), a->groups * panels * tiles, 1, &lo, &hi);
    while (lo < hi) {
        const int at = lo / tiles, first = lo % tiles, last = tl_min(tiles, first + hi - lo);
        tl_bw_w_panel(a, at / panels, at % panels * 4, first, last, pack, dense);
        lo += last - first;
    }
}

/* Channel tiles first .. last - 1 of four kernel columns over one block, into part[tile][16]. */
static inline void tl_bw_w_part(const tl_conv2d *a, int group, int index, int first, int last, tl_output from, int kc,
                                float *pack, float *part)
{
    float tile[16];
    tl_panel_out out;
    tl_column at[4];
    tl_columns_of(a, group, index, &out, at);
    for (int j = 0; j < 4; ++j) {
        tl_output behind = from;
        tl_column_pack(a, &at[j], &behind, kc, pack + j);
        out.c_n[j] = j;
    }
    out.c = part - 16 * first, out.c_m = 4, out.dense = out.first = 1, out.init = NULL;
    out.resume = out.pause = 0, out.tile = tile;
    out.row = 4 * first, out.row_end = tl_min(a->co, 4 * last);
    tl_tile_rows(&out, a->y + (group * a->co + out.row) * a->yp.c + from.n * a->yp.n + from.oy * a->yp.h + from.ox,
                 a->yp.c, pack, 4, kc);
}

/* Few tiles: each core takes blocks of them, which are then added in their order. The planes of dL/dy are contiguous.
 * Scratch: the panels, and 16 sums for each block of a tile. */
static inline void tl_conv_bw_w_split(const tl_conv2d *a)
{
    const tl_blocks blocks = tl_blocks_of(a);
    const int tiles = (a->co + 3) / 4, columns = a->ci * a->kh * a->kw, panels = (columns + 3) / 4;
    const int count = a->n * blocks.image, team = tl_team(a->team);
    float *pack = (float *)a->scratch + tl_core_id() * TL_PANEL, *parts = (float *)a->scratch + team * TL_PANEL;
    int lo, hi;
    TL_PROMISE(a->ho == 1 || a->yp.h == a->wo);
    tl_split_among(team, a->groups * panels * count * tiles, 1, &lo, &hi);
    while (lo < hi) {
        const int at = lo / tiles, first = lo % tiles, last = tl_min(tiles, first + hi - lo), panel = at / count;
        const tl_output from = tl_block_at(a, &blocks, at % count);
        tl_bw_w_part(a, panel / panels, panel % panels * 4, first, last, from, tl_block_size(a, &blocks, &from), pack,
                     parts + 16 * lo);
        lo += last - first;
    }
    tl_barrier();
    tl_split(a->groups * a->co * columns, 1, &lo, &hi);
    for (; lo < hi; ++lo) {
        const int o = lo / columns, n = lo - o * columns, group = o / a->co, m = o - group * a->co,
                  c = n / (a->kh * a->kw);
        const float *from = parts + ((group * panels + n / 4) * count * tiles + m / 4) * 16 + m % 4 * 4 + n % 4;
        float *to = a->w + o * a->w_co + c * a->w_ci + n - c * a->kh * a->kw, total = a->accumulate ? *to : 0.0f;
        for (int b = 0; b < count; ++b)
            total += from[16 * tiles * b];
        *to = total;
    }
}
#endif
