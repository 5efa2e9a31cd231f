/* Gradient of maxima over windows that lie side by side, their taps numbered in a byte: zeros, and what each window's
 * winner gets. */
#include "tl_pool_rows.h"

/* `kw` may be a literal. */
INLINE void winners(float *x, int pitch, const float *g, const uint8_t *tap, int n, int kw)
{
    for (int ox = 0; ox < n; ox++, x += kw) {
        int row = tap[ox] / kw;
        x[row * pitch + tap[ox] - row * kw] = g[ox];
    }
}

APART void some_winners(float *x, int pitch, const float *g, const uint8_t *tap, int n, int kw)
{
    if (kw == 2)
        winners(x, pitch, g, tap, n, 2);
    else if (kw == 3)
        winners(x, pitch, g, tap, n, 3);
    else
        winners(x, pitch, g, tap, n, kw);
}

APART void clear_rows(float *x, int pitch, int rows, int columns)
{
    for (; rows > 0; rows--, x += pitch)
        zeros(x, 0, columns);
}

void tl_maxpool2d_bw_tiled_f32(const tl_pool2d *a)
{
    int lo, hi;
    TL_PROMISE(a->tap_bytes == 1 && a->dil_h == 1 && a->dil_w == 1 && side_by_side(a));
    tl_split(a->planes * a->ho, 1, &lo, &hi);
    int plane = lo / a->ho, oy = lo - plane * a->ho;
    for (; lo < hi; lo++) {
        const int top = oy * a->kh, bottom = oy + 1 == a->ho ? a->h : top + a->kh;
        float *x = a->x + plane * a->xp.plane + top * a->xp.row;
        const float *g = a->y + plane * a->yp.plane + oy * a->yp.row;
        const uint8_t *tap = (const uint8_t *)a->tap + plane * a->tp.plane + oy * a->tp.row;
        clear_rows(x, a->xp.row, bottom - top, a->wd);
        some_winners(x, a->xp.row, g, tap, a->wo, a->kw);
        if (++oy == a->ho) {
            oy = 0;
            plane++;
        }
    }
}
