/* Gradient of maxima over windows of neighbouring halves, their taps numbered in a byte. Each core takes whole rows of
 * inputs. What two rows of windows give is added up as floats, in the order of the windows, in scratch that is as wide
 * as all their taps; rows that no later window reaches are rounded then, and the others move to the front. */
#define TL_HALVES
#include "tl_pair.h"
#include "tl_pool_scatter.h"

/* Rows of sums `pitch` apart, of which the last `span` - `stride` of each round go on in the next one; the image
 * begins `lead` columns behind the first, the first window `first`. */
typedef struct {
    float *sums;
    int pitch, stride, span, lead, first;
} strip_sums;

/* Rounded, and zero again. */
APART void put_row(float *sums, element *row, int n)
{
    for (; n > 3; n -= 4, sums += 4, row += 4) {
        const tl_pair left = tl_pair_rounded(sums[0], sums[1]), right = tl_pair_rounded(sums[2], sums[3]);
        sums[0] = 0.0f, sums[1] = 0.0f, sums[2] = 0.0f, sums[3] = 0.0f;
        row[0] = (element)left, row[1] = (element)(left >> 16);
        row[2] = (element)right, row[3] = (element)(right >> 16);
    }
    for (; n > 0; n--, sums++) {
        *row++ = NARROWED(*sums);
        *sums = 0.0f;
    }
}

APART void clear(float *sums, int n)
{
    for (; n > 3; n -= 4, sums += 4)
        sums[0] = 0.0f, sums[1] = 0.0f, sums[2] = 0.0f, sums[3] = 0.0f;
    for (; n > 0; n--)
        *sums++ = 0.0f;
}

/* `n` sums, `by` in front of where they are, which is zero then. */
APART void move(float *sums, int by, int n)
{
    float *to = sums - by;
    for (; n > 0; n--) {
        const float sum = *sums;
        *sums++ = 0.0f;
        *to++ = sum;
    }
}

/* Input rows from..to-1 of a plane. */
INLINE void some_rows(const tl_pool2d *a, const strip_sums *r, const taps *w, int plane, int from, int to)
{
    const int s = r->stride, done = 2 * s * r->pitch, before = from + a->pad_h - r->span;
    element *x = a->READ(x) + plane * a->xp.plane;
    int oy = before < 0 ? -((-before - 1) / s) : before / s + 1;
    clear(r->sums, (s + r->span) * r->pitch);
    for (int iy = oy * s - a->pad_h; iy < to; iy += 2 * s) {
        for (int line = 0; line < 2; line++, oy++) {
            const element *g = a->READ(y) + plane * a->yp.plane + oy * a->yp.row;
            const uint8_t *tap = (const uint8_t *)a->tap + plane * a->tp.plane + oy * a->tp.row;
            if (oy >= 0 && oy < a->ho)
                scatter(r->sums + line * s * r->pitch + r->first, a->stride_w, g, tap, a->wo, w);
        }
        for (int line = 0; line < 2 * s; line++) {
            float *sums = r->sums + line * r->pitch + r->lead;
            if (iy + line >= from && iy + line < to)
                put_row(sums, x + (iy + line) * a->xp.row, a->wd);
            else
                clear(sums, a->wd);
        }
        move(r->sums + done, done, (r->span - s) * r->pitch);
    }
}

void tl_maxpool2d_bw_near_f16(const tl_pool2d *a)
{
    const int s = a->stride_h, span = larger(a->kh, s), lead = larger(a->pad_w, 0);
    const int pitch = lead + larger(a->wd, (a->wo - 1) * a->stride_w + a->kw - a->pad_w);
    const taps w = {a->kw, 65536 / a->kw + 1, pitch - a->kw};
    const strip_sums r = {a->scratch + tl_core_id() * (s + span) * pitch, pitch, s, span, lead, lead - a->pad_w};
    int lo, hi;
    TL_PROMISE(a->tap_bytes == 1 && a->dil_h == 1 && a->dil_w == 1);
    tl_split(a->planes * a->h, 1, &lo, &hi);
    for (int plane = lo / a->h; lo < hi; plane++) {
        const int from = lo - plane * a->h, to = smaller(a->h, from + hi - lo);
        some_rows(a, &r, &w, plane, from, to);
        lo += to - from;
    }
}
