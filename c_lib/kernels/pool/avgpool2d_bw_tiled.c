/* Gradient of averages over windows that lie side by side. */
#include "tl_pool_rows.h"

/* Each gradient, divided, under all columns of its window; `kw` may be a literal. */
INLINE void shares(float *x, const float *g, int n, int kw, float inverse)
{
    for (int ox = 0; ox < n; ox++, x += kw) {
        const float share = g[ox] * inverse;
        for (int i = 0; i < kw; i++)
            x[i] = share;
    }
}

APART void some_shares(float *x, const float *g, int n, int kw, float inverse)
{
    if (kw == 2)
        shares(x, g, n, 2, inverse);
    else
        shares(x, g, n, kw, inverse);
}

void tl_avgpool2d_bw_tiled_f32(const tl_pool2d *a)
{
    const float inverse = 1.0f / (float)(a->divisor ? a->divisor : a->kh * a->kw);
    int lo, hi;
    TL_PROMISE(side_by_side(a));
    tl_split(a->planes * a->h, 1, &lo, &hi);
    int plane = lo / a->h, iy = lo - plane * a->h;
    for (; lo < hi; lo++) {
        const int oy = iy / a->kh, n = oy < a->ho ? a->wo : 0;
        float *x = a->x + plane * a->xp.plane + iy * a->xp.row;
        some_shares(x, a->y + plane * a->yp.plane + oy * a->yp.row, n, a->kw, inverse);
        zeros(x, n * a->kw, a->wd);
        if (++iy == a->h) {
            iy = 0;
            plane++;
        }
    }
}
