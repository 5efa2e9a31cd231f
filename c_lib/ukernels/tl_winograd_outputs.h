/* Outputs of Winograd's tiles, four side by side or not; internal to c_lib/kernels. */
#ifndef TL_WINOGRAD_OUTPUTS_H
#define TL_WINOGRAD_OUTPUTS_H
#include "tl_winograd.h" /* first: it sets how the whole file is compiled */

/* Channel after channel of tiles side by side. */
typedef struct {
    const float *m;
    int element; /* from one element's sums to the next one's */
    float *to;
    int channel; /* step of the outputs */
    const float *bias;
    int half;     /* add halves to the upper outputs; then, `other` elements further on: */
    float factor; /* add so many times the sums; 0: nothing */
    int other;
    int begins; /* to the bias instead of what is there */
} tl_output_run;

#define TL_EVEN(j) __builtin_fmaf(0.5f, m1[j] + m2[j], m0[j])
#define TL_ODD(j) __builtin_fmaf(0.5f, m1[j] - m2[j], -m3[j])

/* `width` outputs of a row, a literal. */
static inline __attribute__((always_inline)) void tl_output_put(const tl_output_run *r, float *to, const float *share,
                                                                float bias, int width)
{
    if (r->half)
        for (int i = 0; i < width; ++i)
            to[i] = __builtin_fmaf(0.5f, share[i], to[i]);
    to += r->other;
    if (r->begins) {
        for (int i = 0; i < width; ++i)
            to[i] = __builtin_fmaf(r->factor, share[i], bias);
    } else if (r->factor != 0.0f) {
        for (int i = 0; i < width; ++i)
            to[i] = __builtin_fmaf(r->factor, share[i], to[i]);
    }
}

/* How many whole tiles are side by side from this one on. */
static inline int tl_tiles_beside(const tl_winograd *t, const tl_tile_at *tile)
{
    return t->g->x.count / 2 - tile->x;
}

/* Where a tile's outputs go. */
static inline void tl_output_locate(const tl_winograd *t, const tl_tile_at *tile, int channel, tl_output_run *r)
{
    const tl_gather *g = t->g;
    const int row = t->row, there = row == 0 || 2 * tile->y + 1 < g->y.count;
    const float factor = row == 0 ? 1.0f : row == 1 ? 0.5f : row == 2 ? -0.5f : -1.0f;
    r->to = g->out + channel * g->out_p.c + tile->n * g->out_p.n + 2 * tile->y * g->out_p.h + 2 * tile->x;
    r->factor = there ? factor : 0.0f, r->begins = there && row < 2 && !g->accumulate;
}

/* Tiles from `tile` on, which are in several rows or not whole: two at a time where they can. */
void tl_winograd_outputs_apart(const tl_winograd *t, tl_tile_at tile, int left, int channel, tl_output_run *r,
                               int count);
#endif
