/* Averages over windows that have all their taps; each core takes whole rows of outputs. */
#include "tl_pool_average.h"

/* One row of outputs; extents of a window may be literals. */
INLINE void means(float *y, int n, const float *x, int stride, int kh, int kw, int pitch, float inverse)
{
    for (int i = 0; i < n; i++, x += stride) {
        float sum = 0.0f;
        for (int r = 0; r < kh; r++)
            sum = add_row(x + r * pitch, kw, sum);
        y[i] = sum * inverse;
    }
}

APART void some_means(float *y, int n, const float *x, int stride, int kh, int kw, int pitch, float inverse)
{
    if (kh == 2 && kw == 2)
        means(y, n, x, stride, 2, 2, pitch, inverse);
    else if (kh == 3 && kw == 3)
        means(y, n, x, stride, 3, 3, pitch, inverse);
    else
        means(y, n, x, stride, kh, kw, pitch, inverse);
}

void tl_avgpool2d_fw_whole_f32(const tl_pool2d *a)
{
    const float inverse = 1.0f / (float)(a->divisor ? a->divisor : a->kh * a->kw);
    int lo, hi;
    TL_PROMISE(columns_of(a, 0).whole0 == 0 && columns_of(a, 0).whole1 >= a->wo && a->pad_h <= 0);
    tl_split(a->planes * a->ho, 1, &lo, &hi);
    int plane = lo / a->ho, oy = lo - plane * a->ho;
    for (; lo < hi; lo++) {
        const float *x = a->x + plane * a->xp.plane + (oy * a->stride_h - a->pad_h) * a->xp.row - a->pad_w;
        float *y = a->y + plane * a->yp.plane + oy * a->yp.row;
        some_means(y, a->wo, x, a->stride_w, a->kh, a->kw, a->xp.row, inverse);
        if (++oy == a->ho) {
            oy = 0;
            plane++;
        }
    }
}
