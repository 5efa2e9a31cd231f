/* Input gradient of a depthwise 3 x 3 convolution of stride 1: outputs and terms from the last row upwards. */
#define TL_STEP_3X3 1
#define TL_TURNED_3X3 1
#include "tl_depthwise_3x3.inc"

void tl_conv2d_bw_x_depthwise_3x3_f32(const tl_conv2d *a)
{
    const int ins = a->groups * a->ci, last = tl_min(a->ho, a->pad_h + a->h) - 1;
    walk s = {.skip = a->pad_h + a->h - 1 - last, .rows = last + 1, .outs = a->h};
    int lo, hi;
    TL_PROMISE(a->co == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 1 && a->stride_w == 1 && s.skip <= 2 && s.rows >= 2 - s.skip);
    s.pitch = -a->yp.h, s.out_pitch = -a->xp.h, s.left = a->pad_w - 2, s.extent = a->wo, s.whole = is_whole(&s, a->wd);
    s.in_c = a->yp.c, s.w_c = a->w_co, s.out_c = a->xp.c;
    tl_split(a->n * ins * a->wd, 1, &lo, &hi);
    if (lo >= hi)
        return;
    const int plane = lo / a->wd;
    for (int n = plane / ins, c = plane - n * ins, x = lo - plane * a->wd; lo < hi; x = 0) {
        const int end = tl_min(a->wd, x + hi - lo), group = a->ci == 1 ? c : c / a->ci;
        s.in = a->y + n * a->yp.n + group * a->yp.c + last * a->yp.h;
        s.w = a->w + group * a->w_co + (c - group * a->ci) * a->w_ci;
        s.out = a->x + n * a->xp.n + c * a->xp.c + (a->h - 1) * a->xp.h;
        s.bias = a->bias ? a->bias + c : NULL, s.start = s.bias ? *s.bias : 0.0f;
        s.planes = together(&s, x, a->wd, hi - lo, a->ci == 1 ? ins - c : 1);
        some_columns(&s, x, end);
        lo += s.planes == 1 ? end - x : s.planes * a->wd, c += s.planes;
        if (c == ins)
            c = 0, ++n;
    }
}
