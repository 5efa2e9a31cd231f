/* Convolutions over planes of halves. The team packs planes of up to 16 channels and a strip of rows, and the weights
 * of up to 32 channels; tiles of 4 channels x 4 neighbouring outputs are shared out. */
#define TL_HALVES
#include "tl_planes.h"

enum { MOST_TAPS = 9 * 8 }; /* of the kernel times pairs of channels, of float results */

/* The micro-kernel of a class. */
static void whole(const tl_gather *g, const tl_planes_tile *t)
{
    if (g->x.taps == 2)
        tl_planes_2_to_twos(t);
    else if (g->x.taps == 1)
        tl_planes_1_to_twos(t);
    else if (g->x.in_step == 1)
        tl_planes_3(t);
    else
        tl_planes_3_from_twos(t);
}

/* A tile of which a part is outside, aside. Where neighbouring outputs are 2 apart, its rows lie in each other's gaps.
 */
static __attribute__((noinline)) void partly(const tl_gather *g, tl_planes_tile *t, int at, int rows, int cols)
{
    const int apart = g->x.out_step, row = 3 + apart;
    float aside[22];
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < cols; ++j)
            aside[i * row + j * apart] = t->start ? t->start[i] : g->out[at + i * g->out_p.c + j * apart];
    t->start = NULL, t->out = aside, t->out_m = row, t->halves = 0, t->tiles = 1;
    whole(g, t);
    for (int i = 0; i < rows; ++i, at += g->out_p.c)
        for (int j = 0; j < cols; ++j) {
            const float sum = aside[i * row + j * apart];
            if (g->out_f16)
                g->out_f16[at + j * apart] = tl_to_half(sum);
            else
                g->out[at + j * apart] = sum;
        }
}

/* Panel by panel of outputs, channel by channel of these. */
void tl_planes_share(const tl_gather *g, const tl_planes_part *p)
{
    const float zeros[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const int apart = g->x.out_step, afresh = p->pair == 0 && !g->accumulate;
    const int dense = p->size == 4 * p->pairs * p->taps; /* a tile's weights follow those of the one before */
    const int channel = p->group * g->rows + p->channel, whole_tiles = (g->rows - p->channel) / 4;
    const tl_pair *planes = p->planes + (g->y.in0 + p->y * g->y.in_step - p->top) * p->pitch + g->x.in0 - p->left;
    const int origin =
        p->n * g->out_p.n + channel * g->out_p.c + (g->y.out0 + p->y * g->y.out_step) * g->out_p.h + g->x.out0;
    tl_planes_tile t = {.pairs = p->pairs, .rows = g->y.taps, .row = p->pitch, .plane = p->plane, .alike = !g->bias};
    if (t.rows == 1) /* the hardware loop goes over the planes */
        t.rows = t.pairs, t.row = t.plane, t.pairs = 1;
    int lo, hi;
    tl_split_among(g->team, p->rows * p->panels * p->tiles, 1, &lo, &hi);
    int panel = lo / p->tiles, tile = lo - panel * p->tiles, y = panel / p->panels, at = panel - y * p->panels;
    for (int left = hi - lo; left > 0; tile = 0) {
        const int x = 4 * at, cols = tl_min(4, g->x.count - x), end = tl_min(p->tiles, tile + left);
        t.in = planes + y * g->y.in_step * p->pitch + x * g->x.in_step;
        for (left -= end - tile; tile < end; tile += t.tiles) {
            const int at_rows = origin + y * g->y.out_step * g->out_p.h + x * apart + 4 * tile * g->out_p.c;
            t.weights = p->weights + tile * p->size;
            t.start = !afresh ? NULL : g->bias ? g->bias + channel + 4 * tile : zeros;
            if (cols < 4 || tile >= whole_tiles) {
                const int rows = tl_min(4, g->rows - p->channel - 4 * tile);
                partly(g, &t, at_rows, rows, cols);
                continue;
            }
            t.tiles = dense ? tl_min(end, whole_tiles) - tile : 1;
            t.out = g->out_f16 ? (void *)(g->out_f16 + at_rows) : g->out + at_rows;
            t.out_m = g->out_p.c;
            t.halves = !g->out_f16 ? 0 : apart == 1 && (((uintptr_t)t.out | 2u * (unsigned)t.out_m) & 3) == 0 ? 2 : 1;
            whole(g, &t);
        }
        if (++at == p->panels)
            at = 0, ++y;
    }
}

void tl_conv_planes(const tl_gather *g, int packed_rows)
{
    const int pairs = (g->chans + 1) / 2, panels = (g->x.count + 3) / 4, high = g->y.taps, wide = g->x.taps;
    const int pitch = (4 * panels - 1) * g->x.in_step + wide, by = g->y.in_step,
              packed = 2 * (packed_rows ? packed_rows : 16);
    if (g->n * g->y.count * g->x.count == 0)
        return;
    if (high * wide == 0) {
        tl_conv_fill(g);
        return;
    }
    const int few = g->out_f16 ? pairs : tl_min(pairs, MOST_TAPS / (high * wide)); /* halves are made of all of them */
    const int at_a_time = tl_min(TL_PLANES_WORDS / (high * pitch), few);
    const int fits = (TL_PLANES_WORDS / (at_a_time * pitch) - high) / by + 1, strips = (g->y.count + fits - 1) / fits;
    const int strip = (g->y.count + strips - 1) / strips; /* of rows, all alike */
    tl_planes_part p = {.panels = panels, .pitch = pitch, .taps = high * wide, .planes = g->scratch};
    p.size = at_a_time * p.taps * 4;
    const int most = tl_min(packed, 4 * (p.size < TL_PLANES_WEIGHTS ? TL_PLANES_WEIGHTS / p.size : 1));
    p.weights = p.planes + at_a_time * ((strip - 1) * by + high) * pitch;
    for (p.group = 0; p.group < g->groups; ++p.group)
        for (p.n = 0; p.n < g->n; ++p.n)
            for (p.y = 0; p.y < g->y.count; p.y += p.rows) {
                p.rows = tl_min(strip, g->y.count - p.y);
                p.plane = ((p.rows - 1) * by + high) * pitch;
                p.top = g->y.in0 + p.y * by, p.left = g->x.in0;
                for (p.pair = 0; p.pair < pairs; p.pair += at_a_time) {
                    p.pairs = tl_min(at_a_time, pairs - p.pair);
                    tl_planes_pack(g, &p);
                    for (p.channel = 0; p.channel < g->rows; p.channel += most) {
                        p.tiles = (tl_min(most, g->rows - p.channel) + 3) / 4;
                        tl_planes_weights(g, &p);
                        tl_barrier();
                        tl_planes_share(g, &p);
                        tl_barrier();
                    }
                }
            }
}
