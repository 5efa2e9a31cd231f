/* Maxima over windows of neighbouring taps, numbered in a byte; each core takes whole rows of outputs. */
#include "tl_pool_rows.h"

INLINE void challenge(float v, int tap, float *best, int *won)
{
    if (v <= *best)
        return;
    if (v > *best || v != v) { /* a NaN stays, and is no less than anything */
        *best = v;
        *won = tap;
    }
}

typedef struct {
    int rows, width, pitch, kw, tap; /* the taps that there are, and the number of the first */
} taps;

/* `rows` and `width` may be literals. */
INLINE void maxima(float *y, uint8_t *won, int n, const float *x, int stride, const taps *w, int rows, int width)
{
    const int pitch = w->pitch, kw = w->kw, first = w->tap;
    for (int i = 0; i < n; i++, x += stride) {
        const float *row = x;
        float best = x[0];
        int at = first, tap = first;
        for (int k = 1; k < width; k++)
            challenge(row[k], at + k, &best, &tap);
        for (int r = 1; r < rows; r++) {
            row += pitch;
            at += kw;
            for (int k = 0; k < width; k++)
                challenge(row[k], at + k, &best, &tap);
        }
        y[i] = best;
        won[i] = (uint8_t)tap;
    }
}

APART void some_maxima(float *y, uint8_t *won, int n, const float *x, int stride, const taps *w)
{
    if (w->width == 2 && w->rows == 2)
        maxima(y, won, n, x, stride, w, 2, 2);
    else if (w->width == 3)
        maxima(y, won, n, x, stride, w, w->rows, 3);
    else
        maxima(y, won, n, x, stride, w, w->rows, w->width);
}

void tl_maxpool2d_fw_rows_f32(const tl_pool2d *a)
{
    const axis columns = columns_of(a, 0);
    int lo, hi;
    TL_PROMISE(a->tap_bytes == 1 && a->dil_h == 1 && a->dil_w == 1);
    tl_split(a->planes * a->ho, 1, &lo, &hi);
    int plane = lo / a->ho, oy = lo - plane * a->ho;
    for (; lo < hi; lo++) {
        const int top = oy * a->stride_h - a->pad_h, k0 = first_tap(top), k1 = last_tap(top, a->kh, a->h);
        const float *x = a->x + plane * a->xp.plane + (top + k0) * a->xp.row - a->pad_w;
        float *y = a->y + plane * a->yp.plane + oy * a->yp.row;
        uint8_t *won = (uint8_t *)a->tap + plane * a->tp.plane + oy * a->tp.row;
        taps w = {.rows = k1 - k0, .pitch = a->xp.row, .kw = a->kw};
        for (int ox = 0, n; ox < a->wo; ox += n) {
            const int start = ox * columns.stride, c0 = first_tap(start - a->pad_w);
            n = run_from(&columns, ox, a->wo);
            w.width = last_tap(start - a->pad_w, a->kw, a->wd) - c0;
            w.tap = k0 * a->kw + c0;
            some_maxima(y + ox, won + ox, n, x + start + c0, columns.stride, &w);
        }
        if (++oy == a->ho) {
            oy = 0;
            plane++;
        }
    }
}
