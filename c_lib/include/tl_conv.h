/* Convolution and its gradients. See docs/kernels.md for the contract that all kernels keep. */
#ifndef TL_CONV_H
#define TL_CONV_H
#include "tl_hal.h"

/* Elements between neighbours along batch, channel and row; columns are contiguous. */
typedef struct {
    int n, c, h;
} tl_pitch;

/* One struct for the three directions. x [n][groups*ci][h][w], weight [groups*co][ci][kh][kw], y [n][groups*co][ho][wo].
 * Input row of output row oy and tap ky: oy*stride_h - pad_h + ky*dil_h; outside 0..h-1 it reads as zero. A tile is the
 * same thing with its own extents, pitches and (possibly negative) pads. */
typedef struct {
    float *x, *w, *y;
    const float *bias;     /* [groups*co] in fw, [groups*ci] in bw_x (transposed convolution), or NULL */
    int n, groups, ci, co; /* ci, co: per group */
    int h, wd, ho, wo, kh, kw;
    int stride_h, stride_w, pad_h, pad_w, dil_h, dil_w;
    tl_pitch xp, yp;
    int w_co, w_ci;  /* elements between output channels and between input channels of w */
    int accumulate;  /* 1: add to what the written tensor holds (bias ignored); 0: overwrite */
    int team;        /* there is scratch for so many cores, the others only meet them at barriers; 0: for all */
    int packed_rows; /* bw_x: channels whose weights are packed at a time, a multiple of 4; 0: 16 */
    void *scratch;   /* tl_conv2d_scratch() bytes, shared by all cores */
} tl_conv2d;

void tl_conv2d_fw_f32(const tl_conv2d *a);   /* reads x, w, bias; writes y */
void tl_conv2d_bw_x_f32(const tl_conv2d *a); /* reads y (= dL/dy), w, bias; writes x (= dL/dx) */
void tl_conv2d_bw_w_f32(const tl_conv2d *a); /* reads x, y (= dL/dy); writes w (= dL/dw) */

/* Bytes of scratch where `cores` work; trainlib_deployer/ops/kernel_scratch.py has the same formulas. */
enum { TL_FW, TL_BW_X, TL_BW_W };

/* The weight gradient of a depthwise convolution: sums of blocks, three taps each. */
static inline int tl_depthwise_blocks(const tl_conv2d *a)
{
    return a->groups * a->co * a->kh * ((a->kw + 2) / 3) * ((a->n * a->ho * a->wo + 63) / 64);
}

/* With few channels for the team the sums are split into their blocks. */
static inline int tl_depthwise_splits(const tl_conv2d *a, int cores)
{
    const int items = a->groups * a->co * a->kh * ((a->kw + 2) / 3), blocks = tl_depthwise_blocks(a);
    return cores > 1 && items < 4 * cores && blocks > items && blocks <= 512;
}

/* Channels whose weights the input gradient packs at a time: up to 16, fewer where they would not fit. */
static inline int tl_packed_rows(const tl_conv2d *a)
{
    const int most = a->packed_rows ? a->packed_rows : 16, rows = (a->ci + 3) / 4 * 4;
    return rows < most ? rows : most;
}

static inline int tl_conv2d_scratch(const tl_conv2d *a, int direction, int cores)
{
    const int taps = a->kh * a->kw, table = 4 * (taps < 64 ? taps : 64), rows = tl_packed_rows(a);
    if (direction == TL_BW_W && a->ci == 1 && a->co < 4)
        return tl_depthwise_splits(a, cores) ? 12 * tl_depthwise_blocks(a) : 0;
    if (direction == TL_BW_W)
        return cores * 1024;
    if (a->ci * a->co < 4)
        return 0;
    return cores * (1280 + table) + (direction == TL_BW_X ? rows * 256 : 0);
}
#endif
