/* Pooling and its gradients, one element at a time, on one core: what every kernel of them gives, bit by bit. */
#include "tl_pool.h"

enum { BLOCK = 64 };

/* Rows or columns: inputs, outputs, and how windows lie on them. */
typedef struct {
    int in, out, k, stride, pad, dil, count0, count1, adaptive;
} axis;

static axis rows_of(const tl_pool2d *a, int adaptive)
{
    return (axis){a->h, a->ho, a->kh, a->stride_h, a->pad_h, a->dil_h, a->count_h0, a->count_h1, adaptive};
}

static axis columns_of(const tl_pool2d *a, int adaptive)
{
    return (axis){a->wd, a->wo, a->kw, a->stride_w, a->pad_w, a->dil_w, a->count_w0, a->count_w1, adaptive};
}

static int start_of(axis s, int o)
{
    return s.adaptive ? o * s.in / s.out : o * s.stride - s.pad;
}

static int taps_of(axis s, int o)
{
    return s.adaptive ? ((o + 1) * s.in + s.out - 1) / s.out - start_of(s, o) : s.k;
}

static int input_of(axis s, int o, int tap)
{
    return start_of(s, o) + tap * (s.adaptive ? 1 : s.dil);
}

static int exists(axis s, int i)
{
    return i >= 0 && i < s.in;
}

/* Which tap of window o input i is, or -1. */
static int tap_of(axis s, int o, int i)
{
    for (int tap = 0; tap < taps_of(s, o); tap++)
        if (input_of(s, o, tap) == i)
            return tap;
    return -1;
}

/* The first window that ends behind input i. */
static int first_at(axis s, int i)
{
    int o = 0;
    while (o < s.out && input_of(s, o, taps_of(s, o) - 1) < i)
        o++;
    return o;
}

static int counted(axis s, int o)
{
    const int start = start_of(s, o), end = start + s.k;
    if (s.adaptive)
        return taps_of(s, o);
    return (end < s.count1 ? end : s.count1) - (start > s.count0 ? start : s.count0);
}

static float inverse(const tl_pool2d *a, axis rows, axis columns, int oy, int ox)
{
    return 1.0f / (float)(a->divisor ? a->divisor : counted(rows, oy) * counted(columns, ox));
}

static unsigned load_tap(const tl_pool2d *a, int at)
{
    const uint8_t *bytes = (const uint8_t *)a->tap + at * a->tap_bytes;
    unsigned tap = 0;
    for (int k = a->tap_bytes - 1; k >= 0; k--)
        tap = tap << 8 | bytes[k];
    return tap;
}

static void store_tap(const tl_pool2d *a, int at, unsigned tap)
{
    for (int k = 0; k < a->tap_bytes; k++)
        ((uint8_t *)a->tap)[at * a->tap_bytes + k] = (uint8_t)(tap >> 8 * k);
}

static void largest(const tl_pool2d *a, int adaptive)
{
    const axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    for (int p = 0; p < a->planes; p++)
        for (int oy = 0; oy < a->ho; oy++)
            for (int ox = 0; ox < a->wo; ox++) {
                float best = -__builtin_inff();
                int won = -1;
                for (int ky = 0; ky < taps_of(rows, oy); ky++)
                    for (int kx = 0; kx < taps_of(columns, ox); kx++) {
                        const int iy = input_of(rows, oy, ky), ix = input_of(columns, ox, kx);
                        if (!exists(rows, iy) || !exists(columns, ix))
                            continue;
                        const float v = a->x[p * a->xp.plane + iy * a->xp.row + ix];
                        if (v != v || (best == best && v > best))
                            best = v, won = ky * a->kw + kx;
                        else if (won < 0) /* nothing but minus infinity so far */
                            won = ky * a->kw + kx;
                    }
                a->y[p * a->yp.plane + oy * a->yp.row + ox] = best;
                store_tap(a, p * a->tp.plane + oy * a->tp.row + ox, (unsigned)won);
            }
}

static void mean(const tl_pool2d *a, int adaptive)
{
    const axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    for (int p = 0; p < a->planes; p++)
        for (int oy = 0; oy < a->ho; oy++)
            for (int ox = 0; ox < a->wo; ox++) {
                float total = 0;
                for (int ky = 0; ky < taps_of(rows, oy); ky++) {
                    const int iy = input_of(rows, oy, ky);
                    float sum = 0;
                    int terms = 0;
                    for (int kx = 0; kx < taps_of(columns, ox) && exists(rows, iy); kx++) {
                        const int ix = input_of(columns, ox, kx);
                        if (!exists(columns, ix))
                            continue;
                        const float v = a->x[p * a->xp.plane + iy * a->xp.row + ix];
                        sum = terms++ % BLOCK ? sum + v : v;
                        if (terms % BLOCK == 0)
                            total += sum;
                    }
                    if (terms % BLOCK)
                        total += sum;
                }
                a->y[p * a->yp.plane + oy * a->yp.row + ox] = total * inverse(a, rows, columns, oy, ox);
            }
}

/* What the windows of one output row give to an input that is their row of taps number ky. */
static float given(const tl_pool2d *a, axis rows, axis columns, int p, int oy, int ky, int ix, int maxima, float total)
{
    const int first = first_at(columns, ix);
    float sum = 0;
    for (int ox = first; ox < a->wo && start_of(columns, ox) <= ix; ox++) {
        const int kx = tap_of(columns, ox, ix);
        const float g = a->y[p * a->yp.plane + oy * a->yp.row + ox];
        if (ox > first && (ox - first) % BLOCK == 0) /* of averages; what maxima get is added in the order of windows */
            total += sum, sum = 0;
        if (kx < 0)
            continue;
        if (!maxima)
            sum = __builtin_fmaf(g, inverse(a, rows, columns, oy, ox), sum);
        else if (load_tap(a, p * a->tp.plane + oy * a->tp.row + ox) == (unsigned)(ky * a->kw + kx))
            total += g;
    }
    return total + sum;
}

static void gradient(const tl_pool2d *a, int adaptive, int maxima)
{
    const axis rows = rows_of(a, adaptive), columns = columns_of(a, adaptive);
    for (int p = 0; p < a->planes; p++)
        for (int iy = 0; iy < a->h; iy++)
            for (int ix = 0; ix < a->wd; ix++) {
                float total = 0;
                for (int oy = 0; oy < a->ho; oy++) {
                    const int ky = tap_of(rows, oy, iy);
                    if (ky >= 0)
                        total = given(a, rows, columns, p, oy, ky, ix, maxima, total);
                }
                a->x[p * a->xp.plane + iy * a->xp.row + ix] = total;
            }
}

#define POOL(name, work)                                                                                               \
    void reference_##name(const tl_pool2d *a)                                                                          \
    {                                                                                                                  \
        work;                                                                                                          \
    }
POOL(maxpool2d_fw, largest(a, 0))
POOL(adaptive_maxpool2d_fw, largest(a, 1))
POOL(maxpool2d_bw, gradient(a, 0, 1))
POOL(adaptive_maxpool2d_bw, gradient(a, 1, 1))
POOL(avgpool2d_fw, mean(a, 0))
POOL(adaptive_avgpool2d_fw, mean(a, 1))
POOL(avgpool2d_bw, gradient(a, 0, 0))
POOL(adaptive_avgpool2d_bw, gradient(a, 1, 0))
