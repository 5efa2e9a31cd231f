/* Forward convolution and input gradient as one operation, internal to c_lib/kernels:
 *
 *   out[n][m][q] = sum over (c, ty, tx) of W[m][c][ty][tx] * in[n][c][origin(q) + tap(ty, tx)]
 *
 * Forward: in = x, one class. Input gradient: in = dL/dy, and one class for each residue of the output position modulo
 * the stride, with just the taps that meet that residue, so that nothing is multiplied by a structural zero. */
#ifndef TL_GATHER_H
#define TL_GATHER_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */
#include "tl_conv.h"

/* One dimension of a class. Output q lies at out0 + q*out_step and reads tap t at in0 + q*in_step + t*tap_in. */
typedef struct {
    int count, out0, out_step;
    int in0, in_step, extent;
    int taps, tap0, tap_step, tap_in; /* tap t is element tap0 + t*tap_step of the kernel */
} tl_axis;

static inline tl_axis tl_axis_fw(int in, int out, int kernel, int stride, int pad, int dil)
{
    return (tl_axis){out, 0, 1, -pad, stride, in, kernel, 0, 1, dil};
}

static inline int tl_gcd(int a, int b)
{
    while (b != 0) {
        const int rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* The positions r, r + stride, .. of dL/dx, which read dL/dy at (r + pad - tap*dil) / stride wherever that is whole. */
static inline tl_axis tl_axis_bw(int r, int in, int out, int kernel, int stride, int pad, int dil)
{
    const int common = tl_gcd(stride, dil), every = stride / common;
    tl_axis axis = {(in - r + stride - 1) / stride, r, stride, 0, 1, out, 0, 0, every, -dil / common};
    for (int tap = 0; tap < every && tap < kernel; ++tap) {
        if ((r + pad - tap * dil) % stride == 0) {
            axis.tap0 = tap;
            axis.taps = (kernel - tap + every - 1) / every;
            axis.in0 = (r + pad - tap * dil) / stride;
        }
    }
    return axis;
}

typedef struct {
    const float *in, *w, *bias;
    float *out;
    void *scratch;
    int n, groups, rows, chans;     /* rows: output channels per group; chans: channels per group that are summed */
    int w_group, w_row, w_chan, kw; /* steps of w per group, output channel and summed channel, and per kernel row */
    tl_pitch in_p, out_p;
    int accumulate, team;
    int packed_rows; /* channels whose weights are packed at a time; 0: none */
    tl_axis y, x;
} tl_gather;

/* Groups of one channel, or nearly: depthwise.c, depthwise_bw_w.c. */
void tl_gather_depthwise(const tl_gather *g);
void tl_depthwise_bw_w(const tl_conv2d *a);
#endif
