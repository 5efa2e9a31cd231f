/* Matrix products. See docs/kernels.md for the contract that all kernels keep. */
#ifndef TL_MATMUL_H
#define TL_MATMUL_H
#include "tl_hal.h"
#include "tl_half.h"

/* c[b][m][n] (+)= init + sum_k a[b][m][k] * bm[b][k][n], every operand with its own element strides; those of extents
 * of one are 0. */
typedef struct {
    union {
        const float *a;
        const tl_half *a_f16; /* of rows for halves; b likewise */
    };
    union {
        const float *b;
        const tl_half *b_f16;
    };
    const float *init; /* may be NULL */
    union {
        float *c;
        tl_half *c_f16; /* if `halves`: each sum is rounded when it is complete */
    };
    int batch, m, n, k;
    int a_b, a_m, a_k; /* strides of a: batch, row, column */
    int b_b, b_k, b_n;
    int c_b, c_m, c_n;
    int i_b, i_m, i_n; /* strides of init (0: broadcast) */
    int floats;        /* of rows for halves: 1 if a lies as floats, 2 if b does, 3 if both do */
    int halves;        /* 1, of rows for halves: so are the results; then accumulate is 0 */
    int accumulate;    /* 1: c += a*b, init ignored */
    int team;          /* there is scratch for so many cores, the others only meet them at barriers; 0: for all */
    int tiles;         /* of rows for halves: tiles of four rows that the team packs at a time, at most; 0: any */
    void *scratch;     /* shared by all cores; the kernel's row says how many bytes */
} tl_matmul;

/* A product that uses its sums up: init is what it updates, c = init - *rate * sum. */
typedef struct {
    tl_matmul product;
    const float *rate;
    float *record; /* where a build that records keeps the sums, or NULL */
    int r_m, r_n;
} tl_matmul_update;
#endif
