/* The inputs that one column of a weight gradient meets, packed. */
#include "tl_conv_bw_w.h"

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Divisions are slow, and strides are mostly 1. */
static int quotient(int v, int by)
{
    return by == 1 ? v : v / by;
}

static tl_column column_of(const tl_conv2d *a, int channel, int ky, int kx)
{
    const int left = kx * a->dil_w - a->pad_w, top = ky * a->dil_h - a->pad_h, s = a->stride_w;
    tl_column at = {channel * a->xp.c + top * a->xp.h + left, top, 0, 0};
    at.lo = left >= 0 ? 0 : clamp(quotient(-left + s - 1, s), 0, a->wo);
    at.hi = left >= a->wd ? at.lo : clamp(quotient(a->wd - 1 - left, s) + 1, at.lo, a->wo);
    return at;
}

void tl_columns_of(const tl_conv2d *a, int group, int index, tl_panel_out *out, tl_column *at)
{
    const int taps = a->kh * a->kw;
    int c = quotient(index, taps), ky = quotient(index - c * taps, a->kw), kx = index - c * taps - ky * a->kw;
    out->cols = tl_min(4, a->ci * taps - index);
    for (int j = 0; j < 4; ++j) {
        TL_ONE_POINTER(j) /* not four copies of this loop */
        at[j] = column_of(a, group * a->ci + c, ky, kx);
        out->c_n[j] = c * a->w_ci + ky * a->kw + kx;
        if (j + 1 >= out->cols || ++kx < a->kw)
            continue;
        kx = 0;
        if (++ky == a->kh)
            ky = 0, ++c;
    }
    out->dense = out->c_n[3] == out->c_n[0] + 3;
}

/* dst[4*i] = what outputs ox .. ox + run - 1 of one row meet; `from` belongs to output 0. */
static void pack_row(const tl_conv2d *a, const tl_column *at, const float *from, int inside, int ox, int run,
                     float *dst)
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

void tl_column_pack(const tl_conv2d *a, const tl_column *at, tl_output *from, int kc, float *dst)
{
    tl_output o = *from;
    for (int run; kc > 0; kc -= run, dst += 4 * run) {
        const int row = at->row + o.oy * a->stride_h;
        run = tl_min(a->wo - o.ox, kc);
        pack_row(a, at, a->x + at->base + o.n * a->xp.n + o.oy * a->stride_h * a->xp.h, (unsigned)row < (unsigned)a->h,
                 o.ox, run, dst);
        tl_output_skip(a, run, &o);
    }
    *from = o;
}
