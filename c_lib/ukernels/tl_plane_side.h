/* Tiles of 4 output channels x 3 or 4 neighbouring pixels of a dense plane, side by side; internal to c_lib/kernels. */
#ifndef TL_PLANE_SIDE_H
#define TL_PLANE_SIDE_H
#include "tl_tile.h" /* first: it sets how the whole file is compiled */

/* So many tiles over one block of terms. Steps of what they are added to: along a row, then down to the next one. */
typedef struct {
    const float *w, *in; /* of the first one */
    int w_row, w_term;   /* from output channel to output channel, and from term to term */
    int in_c, out_c, terms, count;
    const float *base;
    int base_step, base_row; /* 0, 0: zero; 0, 1: one number for each row; 1, out_c: outputs */
    float *out;
} tl_plane_side;

/* Tiles of so many pixels, a literal. */
static inline __attribute__((always_inline)) void tl_plane_any(const tl_plane_side *t, int wide)
{
    for (int at = 0; at < wide * t->count; at += wide) {
        const float *w = t->w, *in = t->in + at;
        float c[4][4];
        TL_UNROLLED
        for (int i = 0; i < 4; ++i)
            c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0.0f;
        for (int term = 0; term < t->terms; ++term, w += t->w_term, in += t->in_c) {
            TL_UNROLLED
            for (int i = 0; i < 4; ++i) {
                TL_UNROLLED
                for (int j = 0; j < wide; ++j)
                    c[i][j] = __builtin_fmaf(w[i * t->w_row], in[j], c[i][j]);
            }
        }
        TL_UNROLLED
        for (int i = 0; i < 4; ++i) {
            TL_UNROLLED
            for (int j = 0; j < wide; ++j)
                t->out[i * t->out_c + at + j] = t->base[i * t->base_row + (at + j) * t->base_step] + c[i][j];
        }
    }
}
#endif
