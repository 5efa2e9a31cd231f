/* Forward convolution and input gradient. The work is cut into tiles of 4 output channels x 4 output pixels, numbered
 * with the channels fastest; each core takes a contiguous range and packs, for 64 terms at a time, the inputs of its 4
 * pixels. */
#include "tl_gather.h"

enum { SLACK = 8 * 4 };

/* Four output pixels: where they are read and written, and the taps of a block with the pixels that each hits. */
typedef struct {
    tl_panel_out out;
    int at[4];          /* element of channel 0 that tap (0, 0) reads; outside the image for some border pixels */
    int row[4], col[4]; /* the same position as a row and a column */
    float *pack;        /* [TL_KC][4], and SLACK on either side */
    int *table; /* [taps], or [TL_KC] from the block's first tap on: byte offset << 4 | mask of the pixels inside */
    int full;   /* all taps are inside for all pixels */
    int side_by_side; /* the pixels read neighbours */
    int patch;        /* the same for a 3 x 3 kernel that reaches out of the image by at most one column */
} pixels;

/* The pixels whose position at[j] + shift lies within the extent, one bit each. */
static int inside(const int *at, int shift, int extent, int cols)
{
    int mask = 0;
    for (int j = 0; j < cols; ++j)
        mask |= ((unsigned)(at[j] + shift) < (unsigned)extent) << j;
    return mask;
}

/* The entries of taps first .. first + TL_KC - 1, beginning anew after the last tap. */
static void build_part(const tl_gather *g, pixels *px, int first)
{
    int ty = first / g->x.taps, tx = first % g->x.taps;
    for (int i = 0; i < TL_KC; ++i) {
        const int dy = ty * g->y.tap_in, dx = tx * g->x.tap_in;
        const int mask =
            inside(px->row, dy, g->y.extent, px->out.cols) & inside(px->col, dx, g->x.extent, px->out.cols);
        px->table[i] = (dy * g->in_p.h + dx) * 64 + mask;
        if (++tx == g->x.taps)
            tx = 0, ++ty;
        if (ty == g->y.taps)
            ty = 0;
    }
    px->full = 0;
}

/* The first row of the table holds the masks of the columns until all other rows are done. */
static void build_masked(const tl_gather *g, const pixels *px)
{
    const int taps = g->x.taps;
    for (int tx = 0; tx < taps; ++tx)
        px->table[tx] = tx * g->x.tap_in * 64 + inside(px->col, tx * g->x.tap_in, g->x.extent, px->out.cols);
    for (int ty = g->y.taps - 1; ty >= 0; --ty) {
        const int shift = ty * g->y.tap_in, mask = inside(px->row, shift, g->y.extent, px->out.cols);
        int *row = px->table + ty * taps;
        for (int tx = 0; tx < taps; ++tx)
            row[tx] = (px->table[tx] & (mask | ~63)) + shift * g->in_p.h * 64;
    }
}

/* The first column that a 3 x 3 patch of neighbours reads. */
static int patch_column(const tl_gather *g, const pixels *px)
{
    return px->col[0] + tl_min(0, 2 * g->x.tap_in);
}

static int is_patch(const tl_gather *g, const pixels *px)
{
    const int column = patch_column(g, px), dx = g->x.tap_in;
    return g->y.taps == 3 && g->x.taps == 3 && (dx == 1 || dx == -1) && px->side_by_side && px->out.cols == 4 &&
           px->row[3] == px->row[0] && column >= -1 && column + 6 <= g->x.extent + 1;
}

/* Consecutive panels away from the border share their table. */
static void build_table(const tl_gather *g, pixels *px)
{
    const int last_y = (g->y.taps - 1) * g->y.tap_in, last_x = (g->x.taps - 1) * g->x.tap_in, cols = px->out.cols;
    int full;
    px->patch = is_patch(g, px);
    if (px->patch || g->y.taps * g->x.taps == 0 || g->y.taps * g->x.taps > TL_KC)
        return;
    full = cols == 4 && (inside(px->col, 0, g->x.extent, 4) & inside(px->col, last_x, g->x.extent, 4) &
                         inside(px->row, 0, g->y.extent, 4) & inside(px->row, last_y, g->y.extent, 4)) == 15;
    if (!full || !px->full)
        build_masked(g, px);
    px->full = full;
}

/* One kernel row of a patch: six neighbours serve three taps. */
static inline __attribute__((always_inline)) void patch_row(const float *p, int left, int right, int turned, float *dst)
{
    const float x0 = left ? 0.0f : p[0], x1 = p[1], x2 = p[2], x3 = p[3], x4 = p[4], x5 = right ? 0.0f : p[5];
    float *first = turned ? dst + 8 : dst, *last = turned ? dst : dst + 8;
    first[0] = x0, first[1] = x1, first[2] = x2, first[3] = x3;
    dst[4] = x1, dst[5] = x2, dst[6] = x3, dst[7] = x4;
    last[0] = x2, last[1] = x3, last[2] = x4, last[3] = x5;
}

/* Whole channels of a 3 x 3 patch; those that the block cuts spill over into the slack. */
static inline __attribute__((always_inline)) void gather_patch(const tl_gather *g, const pixels *px, const float *in,
                                                               int k, int kc, int turned)
{
    const int c = k / 9, column = patch_column(g, px), pitch = g->y.tap_in * g->in_p.h;
    const int left = column<0, right = column + 6> g->x.extent, at = px->at[0] - px->col[0] + column;
    int hit[3];
    for (int ty = 0; ty < 3; ++ty)
        hit[ty] = (unsigned)(px->row[0] + ty * g->y.tap_in) < (unsigned)g->y.extent;
    in += c * g->in_p.c + at;
    for (float *dst = px->pack - 4 * (k - 9 * c), *end = px->pack + 4 * kc; dst < end; in += g->in_p.c) {
        const float *p = in;
        for (int ty = 0; ty < 3; ++ty, p += pitch, dst += 12) {
            if (hit[ty] && (left || right))
                patch_row(p, left, right, turned, dst);
            else if (hit[ty])
                patch_row(p, 0, 0, turned, dst);
            else
                for (int i = 0; i < 12; i += 4)
                    dst[i] = dst[i + 1] = dst[i + 2] = dst[i + 3] = 0.0f;
        }
    }
}

/* Pixels p .. p + 3 in the order (n, row, column); those beyond the last repeat it and are masked out. */
static void locate(const tl_gather *g, int p, pixels *px)
{
    int x = p % g->x.count, y = p / g->x.count % g->y.count, n = p / g->x.count / g->y.count;
    for (int j = 0; j < 4; ++j) {
        px->row[j] = g->y.in0 + y * g->y.in_step;
        px->col[j] = g->x.in0 + x * g->x.in_step;
        px->at[j] = n * g->in_p.n + px->row[j] * g->in_p.h + px->col[j];
        px->out.c_n[j] = n * g->out_p.n + (g->y.out0 + y * g->y.out_step) * g->out_p.h + g->x.out0 + x * g->x.out_step;
        px->out.i_n[j] = 0;
        if (j + 1 >= px->out.cols)
            continue;
        if (++x == g->x.count)
            x = 0, ++y;
        if (y == g->y.count)
            y = 0, ++n;
    }
    px->side_by_side = px->at[3] == px->at[0] + 3 && px->at[1] == px->at[0] + 1 && px->at[2] == px->at[0] + 2;
    px->out.dense = px->out.c_n[3] == px->out.c_n[0] + 3 && px->out.c_n[1] == px->out.c_n[0] + 1;
}

static float load(const float *base, int bytes)
{
    return *(const float *)((const char *)base + bytes);
}

/* Taps table[0 .. count) of one channel; `in` is that channel of batch item 0. */
static void gather_masked(const pixels *px, const float *in, const int *table, int count, float *dst)
{
    const float *in0 = in + px->at[0], *in1 = in + px->at[1], *in2 = in + px->at[2], *in3 = in + px->at[3];
    for (; count > 0; --count, dst += 4) {
        const int entry = *table++, off = entry >> 4;
        if ((entry & 15) == 15) {
            dst[0] = load(in0, off), dst[1] = load(in1, off), dst[2] = load(in2, off), dst[3] = load(in3, off);
        } else if ((entry & 15) == 0) {
            dst[0] = dst[1] = dst[2] = dst[3] = 0.0f;
        } else {
            dst[0] = entry & 1 ? load(in0, off) : 0.0f;
            dst[1] = entry & 2 ? load(in1, off) : 0.0f;
            dst[2] = entry & 4 ? load(in2, off) : 0.0f;
            dst[3] = entry & 8 ? load(in3, off) : 0.0f;
        }
    }
}

/* The same for pixels that are inside with all taps. */
static void gather_full(const pixels *px, const float *in, const int *table, int count, float *dst)
{
    const float *in0 = in + px->at[0], *in1 = in + px->at[1], *in2 = in + px->at[2], *in3 = in + px->at[3];
    for (; count > 0; --count, dst += 4) {
        const int off = *table++ >> 4;
        dst[0] = load(in0, off), dst[1] = load(in1, off), dst[2] = load(in2, off), dst[3] = load(in3, off);
    }
}

/* The same for neighbours. */
static void gather_neighbours(const float *in, const int *table, int count, float *dst)
{
    for (; count > 0; --count, dst += 4) {
        const float *from = (const float *)((const char *)in + (*table++ >> 4));
        dst[0] = from[0], dst[1] = from[1], dst[2] = from[2], dst[3] = from[3];
    }
}

/* The inputs of terms k .. k + kc - 1 of the flat index (channel, ty, tx). */
static __attribute__((noinline)) void gather(const tl_gather *g, pixels *px, const float *in, int k, int kc)
{
    const int taps = g->y.taps * g->x.taps, c = k / taps;
    float *dst = px->pack;
    if (px->patch) {
        if (g->x.tap_in < 0)
            gather_patch(g, px, in, k, kc, 1);
        else
            gather_patch(g, px, in, k, kc, 0);
        return;
    }
    in += c * g->in_p.c;
    if (taps > TL_KC)
        build_part(g, px, k - c * taps);
    for (int tap = k - c * taps, done = 0; done < kc; tap = 0, in += g->in_p.c) {
        const int run = tl_min(taps - tap, kc - done), *table = px->table + (taps > TL_KC ? done : tap);
        if (!px->full)
            gather_masked(px, in, table, run, dst);
        else if (!px->side_by_side)
            gather_full(px, in, table, run, dst);
        else
            gather_neighbours(in + px->at[0], table, run, dst);
        done += run, dst += 4 * run;
    }
}

/* 1 x 1 kernels over neighbouring pixels read the input where it lies. */
static int in_place(const tl_gather *g, const pixels *px)
{
    return g->y.taps * g->x.taps == 1 && px->full && px->side_by_side;
}

/* Rows first .. end - 1 over one block with rows of w where they lie; tile by tile if channels do not follow each
 * other. */
static void multiply_rows(const tl_gather *g, const float *w, int first, int end, const float *b, int b_k, int k,
                          int kc, tl_panel_out *out)
{
    const int taps = g->y.taps * g->x.taps;
    out->row = first, out->row_end = end;
    if (g->w_chan == taps || kc == 0) {
        tl_tile_rows(out, w + first * g->w_row + k, g->w_row, b, b_k, kc);
        return;
    }
    for (; out->row < end; out->row += 4) {
        out->row_end = tl_min(end, out->row + 4);
        out->resume = 0;
        for (int done = 0, run; done < kc; done += run) {
            const int c = (k + done) / taps, tap = (k + done) % taps;
            run = tl_min(taps - tap, kc - done);
            out->pause = done + run < kc;
            tl_tile_rows(out, w + out->row * g->w_row + c * g->w_chan + tap, g->w_row, b + done * b_k, b_k, run);
            out->resume = 1;
        }
    }
}

/* 1 x 1 kernels whose output channels lie side by side: the input gradient. */
static int columns_in_place(const tl_gather *g)
{
    return g->w_row == 1 && g->w_chan != 1 && g->y.taps * g->x.taps == 1 && g->rows % 4 == 0;
}

/* Output channel tiles first .. last - 1 (relative to channel row0) of one panel, terms k0 .. k1 - 1.
 * weights: [tile][TL_KC][4] of those terms and channels packed by the team, or NULL to read w. */
static void panel(const tl_gather *g, int group, pixels *px, int row0, int first, int last, int k0, int k1,
                  const float *weights)
{
    const float *in = g->in + group * g->chans * g->in_p.c, *w = g->w + group * g->w_group;
    const int direct = in_place(g, px), b_k = direct ? g->in_p.c : 4;
    int k = k0;
    do {
        const int kc = tl_min(TL_KC, k1 - k);
        const float *b = direct ? in + px->at[0] + k * b_k : px->pack;
        if (!direct && kc > 0)
            gather(g, px, in, k, kc);
        px->out.first = k == 0 && !g->accumulate;
        px->out.row = row0 + 4 * first, px->out.row_end = tl_min(g->rows, row0 + 4 * last);
        if (weights)
            tl_tile_panel(&px->out, weights + first * TL_PANEL, TL_PANEL, 4, b, b_k, kc);
        else if (columns_in_place(g))
            tl_tile_panel(&px->out, w + k * g->w_chan + px->out.row, 4, g->w_chan, b, b_k, kc);
        else
            multiply_rows(g, w, px->out.row, px->out.row_end, b, b_k, k, kc, &px->out);
        k += TL_KC;
    } while (k < k1);
}

/* This core's share of the tiles of groups group .. group + groups - 1 and `tiles` channel tiles from row0 on. */
static void share(const tl_gather *g, int group, int groups, int row0, int tiles, int k0, int k1, float *own,
                  const float *weights)
{
    const int total = g->n * g->y.count * g->x.count, panels = (total + 3) / 4;
    int lo, hi;
    pixels px;
    px.pack = own + SLACK, px.table = (int *)(own + SLACK + TL_PANEL + SLACK), px.full = 0;
    px.out.tile = own, /* the slack before the panel is free while tiles are computed */
        px.out.resume = px.out.pause = 0;
    tl_split_among(g->team, groups * panels * tiles, 1, &lo, &hi);
    while (lo < hi) {
        const int at = lo / tiles, first = lo % tiles, last = tl_min(tiles, first + hi - lo), of = group + at / panels;
        px.out.cols = tl_min(4, total - at % panels * 4);
        px.out.c = g->out + of * g->rows * g->out_p.c;
        px.out.c_m = g->out_p.c;
        px.out.init = g->bias ? g->bias + of * g->rows : NULL;
        px.out.i_m = 1;
        locate(g, at % panels * 4, &px);
        build_table(g, &px);
        panel(g, of, &px, row0, first, last, k0, k1, weights);
        lo += last - first;
    }
}

/* dst[kc][4] = the weights of terms k .. k + kc - 1 for channels row .. row + 3; missing ones repeat the last. */
static void pack_tile(const tl_gather *g, const float *w, int row, int k, int kc, float *dst)
{
    const int taps = g->y.taps * g->x.taps, c = k / taps, step = g->x.tap_step;
    const float *w0 = w + row * g->w_row, *w1 = row + 1 < g->rows ? w0 + g->w_row : w0;
    const float *w2 = row + 2 < g->rows ? w1 + g->w_row : w1, *w3 = row + 3 < g->rows ? w2 + g->w_row : w2;
    int ty = (k - c * taps) / g->x.taps, tx = (k - c * taps) % g->x.taps;
    for (int chan = c * g->w_chan; kc > 0; tx = 0) {
        const int run = tl_min(g->x.taps - tx, kc);
        int at = chan + (g->y.tap0 + ty * g->y.tap_step) * g->kw + g->x.tap0 + tx * step;
        for (int i = 0; i < run; ++i, dst += 4, at += step)
            dst[0] = w0[at], dst[1] = w1[at], dst[2] = w2[at], dst[3] = w3[at];
        kc -= run;
        if (++ty == g->y.taps)
            ty = 0, chan += g->w_chan;
    }
}

/* This core's share of dst[tile][kc][4], by quarters of a block. */
static void pack_weights(const tl_gather *g, const float *w, int row0, int tiles, int k, int kc, float *dst)
{
    int lo, hi;
    tl_split(tiles * 4, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int tile = i / 4, from = i % 4 * (TL_KC / 4), count = tl_min(TL_KC / 4, kc - from);
        if (count > 0)
            pack_tile(g, w, row0 + 4 * tile, k + from, count, dst + tile * TL_PANEL + from * 4);
    }
}

/* Weights packed block by block, shared by the team. */
static __attribute__((noinline)) void run_packed(const tl_gather *g, float *own, float *shared)
{
    const int terms = g->chans * g->y.taps * g->x.taps;
    for (int group = 0; group < g->groups; ++group) {
        for (int row = 0; row < g->rows; row += g->packed_rows) {
            const int tiles = (tl_min(g->packed_rows, g->rows - row) + 3) / 4;
            for (int k = 0; k < terms; k += TL_KC) {
                const int k1 = tl_min(k + TL_KC, terms);
                pack_weights(g, g->w + group * g->w_group, row, tiles, k, k1 - k, shared);
                tl_barrier();
                share(g, group, 1, row, tiles, k, k1, own, shared);
                tl_barrier();
            }
        }
    }
}

/* One class of outputs. Room for packed weights, if any, comes after the cores' own. */
static void run(const tl_gather *g, int kernel_taps)
{
    const int terms = g->chans * g->y.taps * g->x.taps, floats = SLACK + TL_PANEL + SLACK + tl_min(kernel_taps, TL_KC);
    if (g->n * g->y.count * g->x.count == 0)
        return;
    if (g->rows * g->chans < 4) {
        tl_gather_depthwise(g);
        return;
    }
    float *own = (float *)g->scratch + tl_core_id() * floats, *shared = (float *)g->scratch + g->team * floats;
    if (!g->packed_rows || terms == 0 || columns_in_place(g))
        share(g, 0, g->groups, 0, (g->rows + 3) / 4, 0, terms, own, NULL);
    else
        run_packed(g, own, shared);
}

void tl_conv2d_fw_f32(const tl_conv2d *a)
{
    const tl_gather g = {.in = a->x,
                         .w = a->w,
                         .bias = a->bias,
                         .out = a->y,
                         .scratch = a->scratch,
                         .n = a->n,
                         .groups = a->groups,
                         .rows = a->co,
                         .chans = a->ci,
                         .w_group = a->co * a->w_co,
                         .w_row = a->w_co,
                         .w_chan = a->w_ci,
                         .kw = a->kw,
                         .in_p = a->xp,
                         .out_p = a->yp,
                         .accumulate = a->accumulate,
                         .team = tl_team(a->team),
                         .y = tl_axis_fw(a->h, a->ho, a->kh, a->stride_h, a->pad_h, a->dil_h),
                         .x = tl_axis_fw(a->wd, a->wo, a->kw, a->stride_w, a->pad_w, a->dil_w)};
    run(&g, a->kh * a->kw);
}

void tl_conv2d_bw_x_f32(const tl_conv2d *a)
{
    tl_gather g = {.in = a->y,
                   .w = a->w,
                   .bias = a->bias,
                   .out = a->x,
                   .scratch = a->scratch,
                   .n = a->n,
                   .groups = a->groups,
                   .rows = a->ci,
                   .chans = a->co,
                   .w_group = a->co * a->w_co,
                   .w_row = a->w_ci,
                   .w_chan = a->w_co,
                   .kw = a->kw,
                   .in_p = a->yp,
                   .out_p = a->xp,
                   .accumulate = a->accumulate,
                   .team = tl_team(a->team),
                   .packed_rows = tl_packed_rows(a)};
    for (int ry = 0; ry < a->stride_h && ry < a->h; ++ry) {
        g.y = tl_axis_bw(ry, a->h, a->ho, a->kh, a->stride_h, a->pad_h, a->dil_h);
        for (int rx = 0; rx < a->stride_w && rx < a->wd; ++rx) {
            g.x = tl_axis_bw(rx, a->wd, a->wo, a->kw, a->stride_w, a->pad_w, a->dil_w);
            run(&g, a->kh * a->kw);
        }
    }
}
