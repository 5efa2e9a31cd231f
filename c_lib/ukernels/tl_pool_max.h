/* Maxima over windows, forward; internal to c_lib/kernels. */
#ifndef TL_POOL_MAX_H
#define TL_POOL_MAX_H
#include "tl_pool_element.h"
#include "tl_window.h"

INLINE void store_tap(void *taps, int bytes, int at, int tap)
{
    if (bytes == 1)
        ((uint8_t *)taps)[at] = (uint8_t)tap;
    else if (bytes == 2)
        ((uint16_t *)taps)[at] = (uint16_t)tap;
    else
        ((uint32_t *)taps)[at] = (uint32_t)tap;
}

INLINE void take(float v, int tap, float *best, int *won)
{
    if (v <= *best)
        return;
    if (*best != *best && v == v) /* a NaN stays */
        return;
    *best = v;
    *won = tap;
}

/* The maximum over `rows` x `columns` taps, of which x is number `tap`; whole rows of taps are `kw` apart. */
INLINE float window_max(const element *x, int rows, int columns, int step_h, int step_w, int tap, int kw, int *won)
{
    float best = -__builtin_inff();
    *won = tap;
    for (; rows > 0; rows--, x += step_h, tap += kw) {
        take(WIDENED(x[0]), tap, &best, won);
        if (columns == 2) {
            take(WIDENED(x[step_w]), tap + 1, &best, won);
        } else if (columns == 3) {
            take(WIDENED(x[step_w]), tap + 1, &best, won);
            take(WIDENED(x[2 * step_w]), tap + 2, &best, won);
        } else {
            const element *v = x;
            for (int i = 1; i < columns; i++)
                take(WIDENED(*(v += step_w)), tap + i, &best, won);
        }
    }
    return best;
}

/* `n` outputs of one row from output `at` on, whose windows lie `stride` apart and hold as many taps. */
APART void max_run(const tl_pool2d *a, int at, int tap_at, int n, const element *x, int stride, int rows, int columns,
                   int step_h, int step_w, int tap)
{
    element *y = a->READ(y) + at;
    void *taps = a->tap;
    int bytes = a->tap_bytes, kw = a->kw;
    for (int i = 0; i < n; i++, x += stride) {
        int won;
        y[i] = NARROWED(window_max(x, rows, columns, step_h, step_w, tap, kw, &won));
        store_tap(taps, bytes, tap_at + i, won);
    }
}

INLINE void max_forward(const tl_pool2d *a, int adaptive)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    int lo, hi, step_w = adaptive ? 1 : a->dil_w, step_h = adaptive ? 1 : a->dil_h;
    tl_split(a->planes * a->ho * a->wo, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->ho, a->wo);
        window r = window_at(&rows, p.row);
        int x = p.plane * a->xp.plane + (r.start + r.k0 * step_h) * a->xp.row;
        int y = p.plane * a->yp.plane + p.row * a->yp.row, tap = p.plane * a->tp.plane + p.row * a->tp.row;
        for (int ox = p.from, n; ox < p.to; ox += n) {
            window c = window_at(&columns, ox);
            int height = c.k0 < c.k1 ? r.k1 - r.k0 : 0;
            n = run_from(&columns, ox, p.to);
            max_run(a, y + ox, tap + ox, n, a->READ(x) + x + c.start + c.k0 * step_w, columns.stride, height,
                    c.k1 - c.k0, step_h * a->xp.row, step_w, r.k0 * a->kw + c.k0);
        }
        lo += p.to - p.from;
    }
}
#endif
