/* Operations of the programs that tests/e2e/test_xpulp.py compares, by their shapes. */
#ifndef SHAPES_H
#define SHAPES_H
#include "tl_conv.h"

/* Two square images whose planes and kernels are dense. */
static tl_conv2d convolved(int groups, int ci, int co, int size, int kernel, int stride, int pad)
{
    const int out = (size + 2 * pad - kernel) / stride + 1;
    tl_conv2d p = {.n = 2, .groups = groups, .ci = ci, .co = co, .h = size, .wd = size, .ho = out, .wo = out};
    p.kh = p.kw = kernel, p.stride_h = p.stride_w = stride, p.pad_h = p.pad_w = pad, p.dil_h = p.dil_w = 1;
    p.xp = (tl_pitch){groups * ci * size * size, size * size, size};
    p.yp = (tl_pitch){groups * co * out * out, out * out, out};
    p.w_co = ci * kernel * kernel, p.w_ci = kernel * kernel;
    return p;
}
#endif
