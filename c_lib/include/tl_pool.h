/* Pooling in two dimensions and its gradients. See docs/kernels.md for the contract that all kernels keep. */
#ifndef TL_POOL_H
#define TL_POOL_H
#include "tl_hal.h"
#include "tl_half.h"

/* Elements between neighbouring planes and rows; columns are contiguous. */
typedef struct {
    int plane, row;
} tl_pool_pitch;

/* One struct for all: maxima read x and write y and tap, their gradients read y (= dL/dy) and tap and write x (=
 * dL/dx); averages likewise, without tap. x [planes][h][wd], y and tap [planes][ho][wo], a plane being one channel of
 * one sample.
 *
 * Regular pooling: the window of output row oy starts at input row oy*stride_h - pad_h and has kh taps, dil_h rows
 * apart (average: dil_h = dil_w = 1); taps outside 0..h-1 do not exist. A tile is the same thing with its own extents,
 * pitches and (possibly negative) pads. Adaptive pooling: the window of output row oy is floor(oy*h/ho) ..
 * ceil((oy+1)*h/ho)-1, likewise columns. kw is the width of the widest window; kh, stride, pad and dil are not read.
 * (h+1)*(ho+1) and (wd+1)*(wo+1) stay below 2^31.
 *
 * tap holds, for each output, which tap won: ky*kw + kx, of tap_bytes 1, 2 or 4 (unsigned). Among equals the first
 * wins, among NaNs the last, as in PyTorch.
 *
 * An average divides by `divisor`, or where that is 0 by the number of the window's rows and columns inside
 * count_h0..count_h1-1 and count_w0..count_w1-1 (0..h, or -pad..h+pad where padding counts); adaptive: by the window's
 * size. */
typedef struct {
    union {
        float *x;       /* bw: dL/dx */
        tl_half *x_f16; /* of rows for halves; y likewise */
    };
    union {
        float *y; /* bw: dL/dy */
        tl_half *y_f16;
    };
    void *tap;
    int tap_bytes;
    int planes, h, wd, ho, wo, kh, kw;
    int stride_h, stride_w, pad_h, pad_w, dil_h, dil_w;
    int divisor, count_h0, count_h1, count_w0, count_w1;
    tl_pool_pitch xp, yp, tp;
    float *scratch; /* shared by all cores; the kernel's row says how many bytes */
} tl_pool2d;
#endif
