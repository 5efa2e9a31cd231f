/* Pooling by whole rows, without holes between taps; internal to c_lib/kernels. */
#ifndef TL_POOL_ROWS_H
#define TL_POOL_ROWS_H
#include "tl_float.h"
#include "tl_pool_element.h"
#include "tl_window.h"

/* v where `won`, else zero; without a branch. */
INLINE float if_won(float v, int won)
{
    return tl_from_bits(tl_bits(v) & (0u - (uint32_t)won));
}

INLINE void zeros(element *x, int from, int to)
{
    for (; from < to - 3; from += 4) {
        x[from] = 0;
        x[from + 1] = 0;
        x[from + 2] = 0;
        x[from + 3] = 0;
    }
    for (; from < to; from++)
        x[from] = 0;
}

/* Which rows of its window an output row has: the first, and behind the last. */
INLINE int first_tap(int start)
{
    return start < 0 ? -start : 0;
}

INLINE int last_tap(int start, int taps, int extent)
{
    return smaller(taps, extent - start);
}

/* Windows side by side from the first element on: the stride is the window. */
INLINE int side_by_side(const tl_pool2d *a)
{
    return a->stride_h == a->kh && a->stride_w == a->kw && a->pad_h == 0 && a->pad_w == 0;
}
#endif
