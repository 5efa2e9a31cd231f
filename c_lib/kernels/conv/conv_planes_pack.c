/* What convolutions over planes of halves pack: planes, with zeros for what is outside, and weights. */
#define TL_HALVES
#include "tl_pack_taps.h"
#include "tl_pair_rows.h"
#include "tl_planes.h"

static inline tl_pair *zeros(tl_pair *dst, int count)
{
    for (; count > 0; --count)
        *dst++ = 0;
    return dst;
}

/* Rows of all planes, one after the other: zeros, what is inside of the image, zeros. What does not change is at hand,
 * as each word that is stored might be a number of the argument. */
void tl_planes_pack(const tl_gather *g, const tl_planes_part *p)
{
    const int rows = p->plane / p->pitch, before = tl_min(tl_max(-p->left, 0), p->pitch);
    const int inside = tl_max(tl_min(g->x.extent - p->left, p->pitch) - before, 0), behind = p->pitch - before - inside;
    const int down = g->in_p.h, apart = g->in_p.c, high = g->y.extent, top = p->top, pitch = p->pitch;
    int lo, hi;
    tl_split(p->pairs * rows, 1, &lo, &hi);
    int pair = lo / rows, y = top + lo - pair * rows, channels = g->chans - 2 * (p->pair + pair);
    const tl_half *first =
        g->in + p->n * g->in_p.n + ((p->group + 1) * g->chans - channels) * apart + y * down + p->left + before;
    tl_pair *dst = p->planes + lo * pitch;
    for (int left = hi - lo; left > 0; --left, first += down) {
        if ((unsigned)y >= (unsigned)high)
            dst = zeros(dst, pitch);
        else {
            dst = zeros(dst, before);
            if (channels > 1)
                dst = tl_pair_rows(dst, first, first + apart, inside);
            else
                for (int i = 0; i < inside; ++i)
                    *dst++ = first[i];
            dst = zeros(dst, behind);
        }
        if (++y == top + rows)
            y = top, channels -= 2, first += 2 * apart - rows * down;
    }
}

/* Fewer than four rows, or a channel without a partner, at one tap. */
static __attribute__((noinline)) void few_weights(tl_pair *dst, int words, const char *w, int row, int chan, int rows,
                                                  int terms, int floats)
{
    for (; terms > 0; terms -= 2, w += 2 * chan, dst += words)
        for (int j = 0; j < 4; ++j) {
            const char *at = w + (j < rows ? j : 0) * row;
            dst[j] = tl_pair_at(at, at + (terms > 1 ? chan : 0), floats) & (terms > 1 ? 0xffffffffu : 0xffffu);
        }
}

/* Runs of pairs of a tile, tap by tap. */
static inline __attribute__((always_inline)) void pack_runs(const tl_gather *g, const tl_planes_part *p, const void *w,
                                                            int floats)
{
    const int size = floats ? sizeof(float) : sizeof(tl_half), row = g->w_row * size, chan = g->w_chan * size;
    const int wide = g->x.taps, step = g->x.tap_step * size; /* backwards in an input gradient */
    const int down = g->y.tap_step * g->kw * size - wide * step, words = 4 * p->taps, pairs = p->pairs;
    const int first = p->group * g->w_group + g->y.tap0 * g->kw + g->x.tap0 + p->channel * g->w_row;
    int lo, hi;
    tl_split(p->tiles * pairs, 1, &lo, &hi);
    for (int tile = lo / pairs, pair = lo - tile * pairs, run; lo < hi; pair = 0, ++tile, lo += run) {
        run = tl_min(pairs - pair, hi - lo);
        const int rows = tl_min(4, g->rows - p->channel - 4 * tile), channel = 2 * (p->pair + pair);
        const int terms = tl_min(2 * run, g->chans - channel), whole = rows == 4 ? terms / 2 : 0;
        const char *at = (const char *)w + first * size + 4 * tile * row + channel * chan;
        tl_pair *dst = p->weights + tile * p->size + pair * words;
        for (int ty = g->y.taps; ty > 0; --ty, at += down)
            for (int tx = wide; tx > 0; --tx, dst += 4, at += step) {
                if (whole > 0)
                    tl_pack_tap(dst, 4 * words - 16, at, row, chan, whole, floats);
                if (2 * whole < terms)
                    few_weights(dst + whole * words, words, at + 2 * whole * chan, row, chan, rows, terms - 2 * whole,
                                floats);
            }
    }
}

void tl_planes_weights(const tl_gather *g, const tl_planes_part *p)
{
    if (g->w_f32)
        pack_runs(g, p, g->w_f32, 1);
    else
        pack_runs(g, p, g->w, 0);
}
