/* The inputs that one column of a weight gradient meets, packed. */
#include "tl_conv_bw_w.h"

static int clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

tl_column tl_column_of(const tl_conv2d *a, int group, int index)
{
    const int kx = index % a->kw, ky = index / a->kw % a->kh, c = index / a->kw / a->kh;
    const int left = kx * a->dil_w - a->pad_w, top = ky * a->dil_h - a->pad_h, s = a->stride_w;
    tl_column at = {(group * a->ci + c) * a->xp.c + top * a->xp.h + left, top, 0, 0};
    at.lo = left >= 0 ? 0 : clamp((-left + s - 1) / s, 0, a->wo);
    at.hi = left >= a->wd ? at.lo : clamp((a->wd - 1 - left) / s + 1, at.lo, a->wo);
    return at;
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

void tl_column_pack(const tl_conv2d *a, const tl_column *at, int k, int kc, float *dst)
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
