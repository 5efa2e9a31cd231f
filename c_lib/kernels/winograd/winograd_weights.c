/* A row of the transformed 4 x 4 weights. A kernel that is turned round has its rows and its columns from last to
 * first: sums of the outer ones stay the same. */
#include "tl_winograd.h"

/* Kernels of one output channel, and where the first, the second and third, and the last element of the row go. */
typedef struct {
    const float *w;
    int chan; /* from one summed channel's kernel to the next one's */
    float *front, *u, *back;
} kernels;

/* The first or the last row of the kernel. */
static __attribute__((noinline)) void outer_row(kernels k, int count)
{
    for (; count > 0; --count, k.w += k.chan, k.front += 16, k.u += 16, k.back += 16) {
        const float a = k.w[0], b = k.w[1], c = k.w[2], sum = a + c;
        *k.front = a, k.u[4] = sum + b, k.u[8] = sum - b, *k.back = c;
    }
}

/* The outer rows with the middle one added or subtracted. */
static __attribute__((noinline)) void inner_row(kernels k, float sign, int count)
{
    for (; count > 0; --count, k.w += k.chan, k.front += 16, k.u += 16, k.back += 16) {
        const float a = __builtin_fmaf(sign, k.w[3], k.w[0] + k.w[6]),
                    b = __builtin_fmaf(sign, k.w[4], k.w[1] + k.w[7]);
        const float c = __builtin_fmaf(sign, k.w[5], k.w[2] + k.w[8]), sum = a + c;
        *k.front = a, k.u[4] = sum + b, k.u[8] = sum - b, *k.back = c;
    }
}

void tl_winograd_weights(const void *of, int at, int first, int count)
{
    const tl_winograd *t = of;
    const tl_gather *g = t->g;
    float *u = t->u + ((at >> 2) * t->chans + first) * 16 + (at & 3);
    const float *w = g->w + t->group * g->w_group + (t->channel + tl_min(at, t->rows - 1)) * g->w_row;
    kernels k = {w + (t->chan + first) * g->w_chan, g->w_chan, u, u, u + 12};
    if (t->turned)
        k.front = u + 12, k.back = u;
    if (t->row == 1 || t->row == 2) {
        inner_row(k, t->row == 1 ? 1.0f : -1.0f, count);
    } else {
        k.w += (t->row == 3) != t->turned ? 6 : 0;
        outer_row(k, count);
    }
}
