/* Recurrent layers: the scan over time, forward and backward. See docs/kernels.md for the contract that all kernels
 * keep. */
#ifndef TL_RECURRENT_H
#define TL_RECURRENT_H
#include "tl_hal.h"
#include "tl_half.h"

/* One struct for all. `steps` moments in time, of `batch` samples each. The input's part of the gates is ready for all
 * times (a matrix product); the scan adds w h and applies the cell: rnn   h' = tanh or relu (gates + w h) lstm  i, f,
 * g, o = gates + w h;      c' = sigmoid(f) c + sigmoid(i) tanh(g);    h' = sigmoid(o) tanh(c') gru   r, z, n = gates
 * and w h + bias;  h' = n + z (h - n), n = tanh(n_gates + r n_hidden), r, z = sigmoid(sums)
 *
 * hs and cs [steps+1][batch][hidden] lie in time order with the initial state in front (reverse: at the end). G is the
 * number of gates: 1, 4, 3. Everything is dense but dL/dy, which comes with its strides.
 *
 * Rows for halves read and write what there is for each moment as halves, in the member of the same name with _f16; hs
 * and y may be floats all the same. What goes on from step to step are floats, in scratch.
 *
 * A tile is a range of times. Tiles run in the order of the scan (backward: against it) and hand over what lies between
 * them: forward `carry`, backward dh and dc. A tile that resumes has no initial state in its hs and cs when it writes
 * them. */
typedef struct {
    union {
        const float *gates; /* fw: [steps][batch][G*hidden] */
        const tl_half *gates_f16;
    };
    const float *h0, *c0; /* fw: [batch][hidden]; bw: dL/d of the last h and c, or NULL for zeros */
    const float *w;       /* [G*hidden][hidden] */
    const float *bias;    /* gru fw: [3*hidden], or NULL */
    float *hs;            /* fw: written; bw: read */
    tl_half *hs_f16;      /* in its place, of rows for halves */
    union {
        float *cs; /* likewise; lstm only */
        tl_half *cs_f16;
    };
    union {
        float *saved; /* lstm i, f, g, o; gru r, z, n, n_hidden: [steps][batch][4*hidden]. fw: may be NULL */
        tl_half *saved_f16;
    };
    const float *y;       /* bw: dL/dy [steps][batch][hidden], or NULL for zeros */
    const tl_half *y_f16; /* in its place, of rows for halves */
    int y_t, y_b, y_h;    /* its strides */
    union {
        float *dgates; /* bw: [steps][batch][G*hidden] */
        tl_half *dgates_f16;
    };
    union {
        float *dhidden; /* gru bw: the same for the hidden side (n times r) */
        tl_half *dhidden_f16;
    };
    float *dh, *dc; /* bw: [batch][hidden], dL/dh0 and dL/dc0; dc: lstm only */
    float *carry;   /* fw: [2][batch][hidden], the last h and (lstm) c; NULL where no tile follows or resumes */
    int initial;    /* bw: 0 where nobody reads dh afterwards: it still carries sums from step to step */
    int resume;     /* 1: behind another tile */
    int steps, batch, hidden, reverse, relu;
    int rows;       /* of w that come through scratch at a time: 64, 32 or 16; 0: w is read where it lies */
    float *scratch; /* of rows for halves and of those that bring w, shared by all cores; the kernel's row says how
                     * many bytes */
    int taken;      /* floats of it that another scan has, in front of this one's */
} tl_recurrent;

/* Two scans that do not wait for each other, such as both directions of a layer, by half of the cores each: as many
 * steps, samples and units, and both or neither with `initial` and `carry`. */
typedef struct {
    tl_recurrent first, second;
} tl_recurrent_both;

/* Forward reads gates, h0, c0, w, bias; writes hs, cs, saved. Backward reads h0, c0, w, hs, cs, saved, y; writes
 * dgates, dhidden, dh, dc. All call tl_barrier() about once per step. */
#endif
