/* Convolution with one tap and its input gradient over dense planes of whole threes of pixels; internal to
 * c_lib/kernels. Tiles of 4 output channels x 3 neighbouring pixels, pixels fastest; each core takes a contiguous
 * range. Inputs and weights are read where they lie. */
#ifndef TL_CONV_THREES_H
#define TL_CONV_THREES_H
#include "tl_plane_threes.h" /* first: it sets how the whole file is compiled */
#include "tl_conv.h"
#include "tl_promise.h"

/* All groups. turned, a literal: an input gradient. */
static inline __attribute__((always_inline)) void tl_conv_threes(const tl_conv2d *a, int turned)
{
    const float zero = 0.0f, *const in = turned ? a->y : a->x;
    float *const to = turned ? a->x : a->y;
    const tl_pitch in_p = turned ? a->yp : a->xp, out_p = turned ? a->xp : a->yp;
    const int rows = turned ? a->ci : a->co, terms = turned ? a->co : a->ci;
    const int fours = rows >> 2, panels = a->h * a->wd / 3;
    int lo, hi;
    TL_PROMISE(a->kh * a->kw == 1 && a->w_ci == 1 && rows > 0 && terms > 0 && rows % 4 == 0 && a->wd * a->h % 3 == 0);
    TL_PROMISE((a->h == 1 || (a->xp.h == a->wd && a->yp.h == a->wd)) && a->h == a->ho && a->wd == a->wo);
    tl_plane_threes t = {
        .w_row = turned ? 1 : a->w_co, .w_term = turned ? a->w_co : 1, .in_c = in_p.c, .out_c = out_p.c};
    tl_split_among(tl_team(a->team), a->groups * a->n * fours * panels, 1, &lo, &hi);
    for (; lo < hi; lo += t.count) {
        const int at = lo / panels, first = lo - at * panels, image = at / fours, four = at - image * fours;
        const int n = a->groups == 1 ? image : image / a->groups, group = image - n * a->groups;
        const int channel = group * rows + 4 * four;
        const float *x = in + n * in_p.n + group * terms * in_p.c + 3 * first;
        const float *w = a->w + (turned ? group * a->co * a->w_co + 4 * four : channel * a->w_co);
        t.count = tl_min(panels - first, hi - lo);
        t.out = to + n * out_p.n + channel * out_p.c + 3 * first;
        t.base = &zero, t.base_step = t.base_row = 0;
        if (a->bias)
            t.base = a->bias + channel, t.base_row = 1;
        for (int done = 0; done < terms; done += TL_KC) {
            if (done > 0 || a->accumulate)
                t.base = t.out, t.base_step = 1, t.base_row = out_p.c;
            t.w = w + done * t.w_term, t.in = x + done * in_p.c, t.terms = tl_min(TL_KC, terms - done);
            tl_plane_threes_tiles(&t);
        }
    }
}
#endif
