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
#include "tl_element.h"

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

/* The same taps from the last one on, so that inputs are read forwards. */
static inline tl_axis tl_axis_turned(tl_axis a)
{
    const int last = a.taps > 0 ? a.taps - 1 : 0;
    a.in0 += last * a.tap_in, a.tap0 += last * a.tap_step;
    a.tap_in = -a.tap_in, a.tap_step = -a.tap_step;
    return a;
}

typedef struct {
    const tl_element *in, *w;
    const float *w_f32; /* instead of w, of kernels of halves: to be rounded as they are packed; or NULL */
    const float *bias;
    float *out;
    tl_half *out_f16; /* instead of it, of kernels of halves: for sums that are complete; or NULL */
    void *scratch;
    int n, groups, rows, chans;     /* rows: output channels per group; chans: channels per group that are summed */
    int w_group, w_row, w_chan, kw; /* steps of w per group, output channel and summed channel, and per kernel row */
    tl_pitch in_p, out_p;
    int accumulate, team;
    int packed_rows; /* channels whose weights are packed at a time; 0: none */
    int by_taps;     /* of halves, with one summed channel: pairs are neighbouring taps */
    tl_axis y, x;
} tl_gather;

/* A forward convolution, one class. */
static inline tl_gather tl_gather_fw(const tl_conv2d *a)
{
    return (tl_gather){.in = a->TL_READ(x),
                       .w = a->TL_READ(w),
                       .w_f32 = a->floats ? a->w : NULL,
                       .bias = a->bias,
                       .out = a->y,
                       .out_f16 = a->halves ? a->y_f16 : NULL,
                       .scratch = a->scratch,
                       .n = a->n,
                       .groups = a->groups,
                       .rows = a->co,
                       .chans = a->ci,
                       .w_group = a->co * a->w_co,
                       .w_row = a->w_co,
                       .w_chan = a->w_ci,
                       .kw = a->kw,
                       .in_p = a->xp,
                       .out_p = a->yp,
                       .accumulate = a->accumulate,
                       .team = tl_team(a->team),
                       .y = tl_axis_fw(a->h, a->ho, a->kh, a->stride_h, a->pad_h, a->dil_h),
                       .x = tl_axis_fw(a->wd, a->wo, a->kw, a->stride_w, a->pad_w, a->dil_w)};
}

/* An input gradient; the axes are those of each class. */
static inline tl_gather tl_gather_bw_x(const tl_conv2d *a)
{
    return (tl_gather){.in = a->TL_READ(y),
                       .w = a->TL_READ(w),
                       .w_f32 = a->floats ? a->w : NULL,
                       .bias = a->bias,
                       .out = a->x,
                       .out_f16 = a->halves ? a->x_f16 : NULL,
                       .scratch = a->scratch,
                       .n = a->n,
                       .groups = a->groups,
                       .rows = a->ci,
                       .chans = a->co,
                       .w_group = a->co * a->w_co,
                       .w_row = a->w_ci,
                       .w_chan = a->w_co,
                       .kw = a->kw,
                       .in_p = a->yp,
                       .out_p = a->xp,
                       .accumulate = a->accumulate,
                       .team = tl_team(a->team),
                       .packed_rows = tl_packed_rows(a)};
}

/* This core's share of dst[tile][kc][4], the weights of channels from row0 on, by quarters of a block. */
void tl_conv_pack(const tl_gather *g, const tl_element *w, int row0, int tiles, int k, int kc, tl_element *dst);

/* Of dst[tile][kc][4], pairs of halves (tl_conv_pairs.h). */
void tl_conv_pack_pairs(const tl_gather *g, int group, int row0, int tiles, int k, int kc, tl_pair *dst);

/* Outputs of a class that no tap reaches: bias, or what is there. */
void tl_conv_fill(const tl_gather *g);
#endif
