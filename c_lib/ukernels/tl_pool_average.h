/* Averages over windows, forward; internal to c_lib/kernels. */
#ifndef TL_POOL_AVERAGE_H
#define TL_POOL_AVERAGE_H
#include "tl_window.h"

/* x[0] + .. + x[n-1], n >= 1, in blocks. */
INLINE float add_row(const float *x, int n, float total)
{
    if (n == 2)
        return total + (x[0] + x[1]);
    if (n == 3)
        return total + (x[0] + x[1] + x[2]);
    for (int from = 0; from < n; from += TL_KC) {
        float sum = x[from];
        int to = smaller(n, from + TL_KC);
        for (int i = from + 1; i < to; i++)
            sum += x[i];
        total += sum;
    }
    return total;
}

APART void average_run(float *y, int n, const float *x, int stride, int rows, int columns, int pitch, float inverse)
{
    for (int i = 0; i < n; i++, x += stride) {
        float sum = 0.0f;
        const float *row = x;
        for (int ky = 0; ky < rows; ky++, row += pitch)
            sum = add_row(row, columns, sum);
        y[i] = sum * inverse;
    }
}

INLINE void average_forward(const tl_pool2d *a, int adaptive)
{
    axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    reciprocal scale = {0, 0.0f};
    int lo, hi;
    tl_split(a->planes * a->ho * a->wo, 1, &lo, &hi);
    while (lo < hi) {
        part p = part_at(lo, hi, a->ho, a->wo);
        window r = window_at(&rows, p.row);
        int count = counted(&rows, p.row, r.start);
        int x = p.plane * a->xp.plane + (r.start + r.k0) * a->xp.row;
        float *y = a->y + p.plane * a->yp.plane + p.row * a->yp.row;
        for (int ox = p.from, n; ox < p.to; ox += n) {
            window c = window_at(&columns, ox);
            float inverse = inverse_of(&scale, count * counted(&columns, ox, c.start));
            n = run_from(&columns, ox, p.to);
            average_run(y + ox, n, a->x + x + c.start + c.k0, columns.stride, r.k1 - r.k0, c.k1 - c.k0, a->xp.row,
                        inverse);
        }
        lo += p.to - p.from;
    }
}
#endif
