/* Convolutions over planes of halves. The team packs planes of up to 16 channels and a strip of rows, with zeros for
 * what is outside, and the weights of up to 32 channels; tiles of 4 channels x 4 neighbouring outputs are shared
 * out. */
#define TL_HALVES
#include "tl_planes.h"

/* Of all planes and of all weights at a time; taps of the kernel times pairs of channels. */
enum { WORDS = 3264, WEIGHTS = 2304, MOST_TAPS = 9 * 8 };

/* What is done at a time: of a group and an image, some pairs of channels and rows of outputs, and channels of
 * outputs. */
typedef struct {
    int group, n, pair, pairs, y, rows, channel, tiles;
    int panels, pitch, plane; /* fours of outputs in a row; words of a row, of a plane */
    int top, left;            /* row and column of the image that the planes begin with */
    int taps, size;           /* of the kernel; words of a tile's weights */
    tl_pair *planes, *weights;
} part;

/* dst[i] = the pixels from column `at` on of one row of two channels. */
static void pack_row(tl_pair *dst, const tl_half *first, const tl_half *second, int at, int extent, int count)
{
    tl_pair *const end = dst + count;
    for (; at < 0 && dst < end; ++at)
        *dst++ = 0;
    int inside = tl_min(extent - at, (int)(end - dst));
    first += at, second += at;
    for (; inside >= 4; inside -= 4, dst += 4, first += 4, second += 4) {
        const tl_half a = first[0], b = first[1], c = first[2], d = first[3];
        const tl_half e = second[0], f = second[1], g = second[2], h = second[3];
        dst[0] = tl_pair_of(a, e), dst[1] = tl_pair_of(b, f), dst[2] = tl_pair_of(c, g), dst[3] = tl_pair_of(d, h);
    }
    for (; inside > 0; --inside)
        *dst++ = tl_pair_of(*first++, *second++);
    while (dst < end)
        *dst++ = 0;
}

/* The same of a last channel without a partner. */
static void pack_lone(tl_pair *dst, const tl_half *first, int at, int extent, int count)
{
    for (int i = 0; i < count; ++i, ++at)
        dst[i] = (unsigned)at < (unsigned)extent ? first[at] : 0;
}

static void pack_planes(const tl_gather *g, const part *p)
{
    const int rows = p->plane / p->pitch;
    int lo, hi;
    tl_split(p->pairs * rows, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int pair = i / rows, row = i - pair * rows, channel = 2 * (p->pair + pair);
        const int y = p->top + row, inside = (unsigned)y < (unsigned)g->y.extent;
        const tl_half *first =
            g->in + p->n * g->in_p.n + (p->group * g->chans + channel) * g->in_p.c + (inside ? y : 0) * g->in_p.h;
        tl_pair *dst = p->planes + i * p->pitch;
        const int extent = inside ? g->x.extent : 0;
        if (channel + 1 < g->chans)
            pack_row(dst, first, first + g->in_p.c, p->left, extent, p->pitch);
        else
            pack_lone(dst, first, p->left, extent, p->pitch);
    }
}

static inline __attribute__((always_inline)) void pack_weights_of(const tl_gather *g, const part *p, const void *w,
                                                                  int floats)
{
    const int size = floats ? sizeof(float) : sizeof(tl_half), step = g->x.tap_step * size;
    const int down = g->y.tap_step * g->kw * size - g->x.taps * step; /* backwards in an input gradient */
    const int s = g->w_row * size, chan = g->w_chan * size;
    int lo, hi;
    tl_split(p->tiles * p->pairs, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int tile = i / p->pairs, pair = i - tile * p->pairs, c = 2 * (p->pair + pair), m = p->channel + 4 * tile;
        const int rows = tl_min(4, g->rows - m), lone = c + 1 == g->chans, other = lone ? 0 : chan;
        const int at = p->group * g->w_group + g->y.tap0 * g->kw + g->x.tap0;
        const char *w0 = (const char *)w + at * size + m * s + c * chan;
        const char *w1 = rows > 1 ? w0 + s : w0, *w2 = rows > 2 ? w1 + s : w1, *w3 = rows > 3 ? w2 + s : w2;
        const tl_pair mask = lone ? 0xffff : 0xffffffff;
        tl_pair *dst = p->weights + tile * p->size + pair * (p->taps * 4);
        for (int ty = 0; ty < g->y.taps; ++ty, w0 += down, w1 += down, w2 += down, w3 += down)
            for (int tx = 0; tx < g->x.taps; ++tx, dst += 4, w0 += step, w1 += step, w2 += step, w3 += step) {
                dst[0] = tl_pair_at(w0, w0 + other, floats) & mask, dst[1] = tl_pair_at(w1, w1 + other, floats) & mask;
                dst[2] = tl_pair_at(w2, w2 + other, floats) & mask, dst[3] = tl_pair_at(w3, w3 + other, floats) & mask;
            }
    }
}

static void pack_weights(const tl_gather *g, const part *p)
{
    if (g->w_f32)
        pack_weights_of(g, p, g->w_f32, 1);
    else
        pack_weights_of(g, p, g->w, 0);
}

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

/* A tile of which a part is outside, aside. */
static __attribute__((noinline)) void partly(const tl_gather *g, tl_planes_tile *t, int at, int rows, int cols)
{
    const int apart = g->x.out_step;
    float aside[32];
    t->out = aside, t->out_m = 4 * apart, t->halves = 0;
    for (int i = 0; i < rows && !t->start; ++i)
        for (int j = 0; j < cols; ++j)
            aside[(4 * i + j) * apart] = g->out[at + i * g->out_p.c + j * apart];
    whole(g, t);
    for (int i = 0; i < rows; ++i, at += g->out_p.c)
        for (int j = 0; j < cols; ++j) {
            const float sum = aside[(4 * i + j) * apart];
            if (g->out_f16)
                g->out_f16[at + j * apart] = tl_to_half(sum);
            else
                g->out[at + j * apart] = sum;
        }
}

/* This core's tiles: panel by panel of outputs, channel by channel of these. */
static void share(const tl_gather *g, const part *p)
{
    const int apart = g->x.out_step, afresh = p->pair == 0 && !g->accumulate;
    const int channel = p->group * g->rows + p->channel;
    const tl_pair *planes = p->planes + (g->y.in0 + p->y * g->y.in_step - p->top) * p->pitch + g->x.in0 - p->left;
    const int origin =
        p->n * g->out_p.n + channel * g->out_p.c + (g->y.out0 + p->y * g->y.out_step) * g->out_p.h + g->x.out0;
    tl_planes_tile t = {.pairs = p->pairs, .rows = g->y.taps, .row = p->pitch, .plane = p->plane};
    if (t.rows == 1) /* the hardware loop goes over the planes */
        t.rows = t.pairs, t.row = t.plane, t.pairs = 1;
    float start[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    int lo, hi;
    t.start = afresh ? start : NULL;
    tl_split_among(g->team, p->rows * p->panels * p->tiles, 1, &lo, &hi);
    int panel = lo / p->tiles, tile = lo - panel * p->tiles, y = panel / p->panels, at = panel - y * p->panels;
    for (int left = hi - lo; left > 0; tile = 0) {
        const int x = 4 * at, cols = tl_min(4, g->x.count - x);
        t.in = planes + y * g->y.in_step * p->pitch + x * g->x.in_step;
        t.weights = p->weights + tile * p->size;
        const int at_tile = origin + y * g->y.out_step * g->out_p.h + x * apart;
        for (; tile < p->tiles && left > 0; ++tile, --left, t.weights += p->size) {
            const int rows = tl_min(4, g->rows - p->channel - 4 * tile);
            const int at_rows = at_tile + 4 * tile * g->out_p.c;
            for (int i = 0; i < rows && g->bias; ++i)
                start[i] = g->bias[channel + 4 * tile + i];
            if (rows < 4 || cols < 4) {
                partly(g, &t, at_rows, rows, cols);
                continue;
            }
            t.out = g->out_f16 ? (void *)(g->out_f16 + at_rows) : g->out + at_rows;
            t.out_m = g->out_p.c, t.halves = g->out_f16 != NULL;
            whole(g, &t);
        }
        if (++at == p->panels)
            at = 0, ++y;
    }
}

void tl_conv_planes(const tl_gather *g, int packed_rows, tl_planes_frame *frame)
{
    const int pairs = (g->chans + 1) / 2, panels = (g->x.count + 3) / 4, high = g->y.taps, wide = g->x.taps;
    const int pitch = frame ? frame->pitch : (4 * panels - 1) * g->x.in_step + wide, by = g->y.in_step,
              packed = 2 * (packed_rows ? packed_rows : 16);
    if (g->n * g->y.count * g->x.count == 0)
        return;
    if (high * wide == 0) {
        tl_conv_fill(g);
        return;
    }
    const int few = g->out_f16 ? pairs : tl_min(pairs, MOST_TAPS / (high * wide)); /* halves are made of all of them */
    const int at_a_time = tl_min(WORDS / (high * pitch), few);
    const int fits = (WORDS / (at_a_time * pitch) - high) / by + 1, strips = (g->y.count + fits - 1) / fits;
    const int strip = (g->y.count + strips - 1) / strips; /* of rows, all alike */
    part p = {.panels = panels, .pitch = pitch, .taps = high * wide, .planes = g->scratch};
    p.size = at_a_time * p.taps * 4;
    const int most = tl_min(packed, 4 * (p.size < WEIGHTS ? WEIGHTS / p.size : 1));
    p.weights = p.planes + at_a_time * (frame ? frame->rows : (strip - 1) * by + high) * pitch;
    for (p.group = 0; p.group < g->groups; ++p.group)
        for (p.n = 0; p.n < g->n; ++p.n)
            for (p.y = 0; p.y < g->y.count; p.y += p.rows) {
                p.rows = tl_min(strip, g->y.count - p.y);
                p.plane = (frame ? frame->rows : (p.rows - 1) * by + high) * pitch;
                p.top = frame ? frame->y : g->y.in0 + p.y * by, p.left = frame ? frame->x : g->x.in0;
                for (p.pair = 0; p.pair < pairs; p.pair += at_a_time) {
                    p.pairs = tl_min(at_a_time, pairs - p.pair);
                    if (!frame || !frame->packed)
                        pack_planes(g, &p);
                    for (p.channel = 0; p.channel < g->rows; p.channel += most) {
                        p.tiles = (tl_min(most, g->rows - p.channel) + 3) / 4;
                        pack_weights(g, &p);
                        tl_barrier();
                        share(g, &p);
                        tl_barrier();
                    }
                }
                if (frame)
                    frame->packed = 1;
            }
}
