/* What outputs of a convolution meet in one input channel, copied; internal to c_lib/kernels. */
#ifndef TL_MET_H
#define TL_MET_H
#include "tl_copy_rows.h"
#include "tl_outputs.h"
#include "tl_pointer.h"

/* No output meets a zero around the image: what they meet can be read where it lies. */
static inline int tl_met_inside(const tl_conv2d *a)
{
    return a->pad_h <= 0 && a->pad_w <= 0 && (a->ho - 1) * a->stride_h - a->pad_h + (a->kh - 1) * a->dil_h < a->h &&
           (a->wo - 1) * a->stride_w - a->pad_w + (a->kw - 1) * a->dil_w < a->wd;
}

/* ... there: the first input that an output meets in the channel x. */
static inline const float *tl_met_at(const tl_conv2d *a, const float *x, tl_output at)
{
    return x + at.n * a->xp.n + (at.oy * a->stride_h - a->pad_h) * a->xp.h + at.ox * a->stride_w - a->pad_w;
}

/* dst[row][pitch]: what so many rows of outputs from `from` on meet in the input channel x, for every kernel row, with
 * zeros around. */
static inline void tl_met_copy(const tl_conv2d *a, const float *x, tl_output from, int outputs, int pitch, float *dst)
{
    const int top = from.oy * a->stride_h - a->pad_h, column = from.ox * a->stride_w - a->pad_w;
    const int rows = (outputs - 1) * a->stride_h + (a->kh - 1) * a->dil_h + 1;
    const int first = tl_min(tl_max(0, -top), rows), end = tl_max(first, tl_min(rows, a->h - top));
    const int left = tl_min(tl_max(0, -column), pitch), right = tl_max(left, tl_min(pitch, a->wd - column));
    float *to = dst + first * pitch, *behind = dst + end * pitch;
    for (; dst < to; ++dst) {
        *dst = 0.0f;
        TL_ONE_POINTER(dst) /* not the SDK's bytewise memset */
    }
    for (; dst < behind; dst += pitch) {
        for (int i = 0; i < left; ++i)
            dst[i] = 0.0f;
        for (int i = right; i < pitch; ++i)
            dst[i] = 0.0f;
    }
    for (behind += (rows - end) * pitch; dst < behind; ++dst) {
        *dst = 0.0f;
        TL_ONE_POINTER(dst)
    }
    x += from.n * a->xp.n + (top + first) * a->xp.h + column + left;
    tl_copy_rows(x, 1, a->xp.h, to + left, pitch, end - first, right - left);
}
#endif
