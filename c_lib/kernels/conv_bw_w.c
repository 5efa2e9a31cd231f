/* Weight gradient: w[co][ci][ky][kx] = sum over the flat index (n, oy, ox) of y * x. Tiles of 4 output channels x 4
 * kernel columns (ci, ky, kx), channels fastest; each core takes a contiguous range and packs, for 64 terms at a time,
 * the inputs that its 4 kernel columns meet. dL/dy is read where it lies. */
#include "tl_gather.h"

/* One kernel column: the outputs ox of a row that it meets inside the image, and where. */
typedef struct {
    int base;   /* element of x that output (n, oy, ox) = 0 meets; maybe outside */
    int row;    /* its image row */
    int lo, hi; /* outputs lo .. hi - 1 of a row are inside */
} column;

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static column column_of(const tl_conv2d *a, int group, int index)
{
    const int kx = index % a->kw, ky = index / a->kw % a->kh, c = index / a->kw / a->kh;
    const int left = kx * a->dil_w - a->pad_w, top = ky * a->dil_h - a->pad_h, s = a->stride_w;
    column at = {(group * a->ci + c) * a->xp.c + top * a->xp.h + left, top, 0, 0};
    at.lo = left >= 0 ? 0 : clamp((-left + s - 1) / s, 0, a->wo);
    at.hi = left >= a->wd ? at.lo : clamp((a->wd - 1 - left) / s + 1, at.lo, a->wo);
    return at;
}

/* dst[4*i] = what outputs ox .. ox + run - 1 of one row meet; `from` belongs to output 0. */
static void pack_row(const tl_conv2d *a, const column *at, const float *from, int inside, int ox, int run, float *dst)
{
    const int end = ox + run, lo = inside ? clamp(at->lo, ox, end) : end, hi = inside ? clamp(at->hi, lo, end) : end;
    const int s = a->stride_w;
    from += lo * s;
    for (; ox < lo; ++ox, dst += 4)
        *dst = 0.0f;
    for (; s == 1 && ox + 4 <= hi; ox += 4, dst += 16, from += 4)
        dst[0] = from[0], dst[4] = from[1], dst[8] = from[2], dst[12] = from[3];
    for (; ox < hi; ++ox, dst += 4, from += s)
        *dst = *from;
    for (; ox < end; ++ox, dst += 4)
        *dst = 0.0f;
}

static void pack_column(const tl_conv2d *a, const column *at, int k, int kc, float *dst)
{
    int ox = k % a->wo, oy = k / a->wo % a->ho, n = k / a->wo / a->ho;
    for (int done = 0, run; done < kc; done += run, dst += 4 * run) {
        const int row = at->row + oy * a->stride_h;
        run = tl_min(a->wo - ox, kc - done);
        pack_row(a, at, a->x + at->base + n * a->xp.n + oy * a->stride_h * a->xp.h, (unsigned)row < (unsigned)a->h, ox,
                 run, dst);
        ox = 0;
        if (++oy == a->ho)
            oy = 0, ++n;
    }
}

/* dL/dy of a channel group: the output rows of an image may follow each other without a gap, and the images too. */
typedef struct {
    const float *y;
    int run; /* contiguous outputs */
    int all; /* every block is contiguous */
} outputs;

static outputs outputs_of(const tl_conv2d *a, int group)
{
    const int whole = a->yp.h == a->wo, size = a->ho * a->wo;
    return (outputs){a->y + group * a->co * a->yp.c, whole ? size : a->wo, whole && (a->n == 1 || size % TL_KC == 0)};
}

static int output_at(const tl_conv2d *a, int k)
{
    return k / a->wo / a->ho * a->yp.n + k / a->wo % a->ho * a->yp.h + k % a->wo;
}

/* Channels first .. end - 1 over one block, tile by tile if dL/dy is not contiguous over it. */
static void multiply(const tl_conv2d *a, const outputs *from, int first, int end, const float *pack, int k, int kc,
                     tl_panel_out *out)
{
    out->row = first, out->row_end = end;
    if (from->all) {
        tl_tile_rows(out, from->y + output_at(a, k) + first * a->yp.c, a->yp.c, pack, 4, kc);
        return;
    }
    for (; out->row < end; out->row += 4) {
        out->row_end = tl_min(end, out->row + 4);
        out->resume = 0;
        for (int done = 0, run; done < kc; done += run) {
            run = tl_min(from->run - (k + done) % from->run, kc - done);
            out->pause = done + run < kc;
            tl_tile_rows(out, from->y + output_at(a, k + done) + out->row * a->yp.c, a->yp.c, pack + 4 * done, 4, run);
            out->resume = 1;
        }
    }
}

/* Channel tiles first .. last - 1 of four kernel columns. */
static void panel(const tl_conv2d *a, int group, int index, int first, int last, float *pack)
{
    const int taps = a->kh * a->kw, terms = a->n * a->ho * a->wo;
    const outputs from = outputs_of(a, group);
    float tile[16];
    tl_panel_out out;
    column at[4];
    out.c = a->w + group * a->co * a->w_co, out.c_m = a->w_co, out.init = NULL;
    out.resume = out.pause = 0, out.tile = tile;
    out.cols = tl_min(4, a->ci * taps - index);
    for (int j = 0; j < 4; ++j) {
        const int column = index + tl_min(j, out.cols - 1);
        at[j] = column_of(a, group, column);
        out.c_n[j] = column / taps * a->w_ci + column % taps;
    }
    out.dense = out.c_n[3] == out.c_n[0] + 3;
    for (int k = 0; k < terms; k += TL_KC) {
        const int kc = tl_min(TL_KC, terms - k);
        for (int j = 0; j < 4; ++j)
            pack_column(a, &at[j], k, kc, pack + j);
        out.first = k == 0 && !a->accumulate;
        multiply(a, &from, 4 * first, tl_min(a->co, 4 * last), pack, k, kc, &out);
    }
}

void tl_conv2d_bw_w_f32(const tl_conv2d *a)
{
    const int tiles = (a->co + 3) / 4, panels = (a->ci * a->kh * a->kw + 3) / 4;
    float *pack = (float *)a->scratch + tl_core_id() * TL_PANEL;
    int lo, hi;
    if (a->ci == 1 && a->co < 4) {
        tl_depthwise_bw_w(a);
        return;
    }
    tl_split_among(tl_team(a->team), a->groups * panels * tiles, 1, &lo, &hi);
    while (lo < hi) {
        const int at = lo / tiles, first = lo % tiles, last = tl_min(tiles, first + hi - lo);
        panel(a, at / panels, at % panels * 4, first, last, pack);
        lo += last - first;
    }
}
