/* Convolution and its gradients. See docs/kernels.md for the contract that all kernels keep. */
#ifndef TL_CONV_H
#define TL_CONV_H
#include "tl_hal.h"
#include "tl_half.h"

/* Elements between neighbours along batch, channel and row; columns are contiguous. */
typedef struct {
    int n, c, h;
} tl_pitch;

/* One struct for the three directions: fw reads x, w, bias and writes y; bw_x reads y (= dL/dy), w, bias and writes x
 * (= dL/dx); bw_w reads x, y (= dL/dy) and writes w (= dL/dw). x [n][groups*ci][h][w], weight [groups*co][ci][kh][kw],
 * y [n][groups*co][ho][wo]. Input row of output row oy and tap ky: oy*stride_h - pad_h + ky*dil_h; outside 0..h-1 it
 * reads as zero. A tile is the same thing with its own extents, pitches and (possibly negative) pads. */
typedef struct {
    union {
        float *x;
        tl_half *x_f16; /* of rows for halves; w and y likewise */
    };
    union {
        float *w;
        const tl_half *w_f16;
    };
    union {
        float *y;
        tl_half *y_f16;
    };
    const float *bias;     /* [groups*co] in fw, [groups*ci] in bw_x (transposed convolution), or NULL */
    int n, groups, ci, co; /* ci, co: per group */
    int h, wd, ho, wo, kh, kw;
    int stride_h, stride_w, pad_h, pad_w, dil_h, dil_w;
    tl_pitch xp, yp;
    int w_co, w_ci;   /* elements between output channels and between input channels of w */
    int floats;       /* 1, of rows for halves: w lies as floats, which are rounded */
    int halves;       /* 1, of rows for halves: so are x or y that are written; then accumulate is 0 */
    int accumulate;   /* 1: add to what the written tensor holds (bias ignored); 0: overwrite */
    int team;         /* there is scratch for so many cores, the others only meet them at barriers; 0: for all */
    int packed_rows;  /* bw_x: channels whose weights are packed at a time, a multiple of 4; 0: 16 */
    int chans, tiles; /* Winograd's: summed channels, and tiles of 2 x 2 outputs (a multiple of 4), at a time; of rows
                       * for halves: tiles of 4 outputs whose sums are put aside, 0: all */
    void *scratch;    /* shared by all cores; the kernel's row says how many bytes */
} tl_conv2d;

/* Channels whose weights an input gradient packs at a time: up to 16, fewer where they would not fit. */
static inline int tl_packed_rows(const tl_conv2d *a)
{
    const int most = a->packed_rows ? a->packed_rows : 16, rows = (a->ci + 3) / 4 * 4;
    return rows < most ? rows : most;
}
#endif
