/* Inputs and outputs of Winograd's tiles, two rows of the transformed 4 x 4 at a time, two side by side or one;
 * internal to c_lib/kernels. */
#ifndef TL_WINOGRAD_TWOS_TILES_H
#define TL_WINOGRAD_TWOS_TILES_H
#include "tl_winograd_twos.h" /* first: it sets how the whole file is compiled */
#include "tl_pointer.h"

/* Rows of an image: the first row of a transform is of[0] - of[2], the second one of[2] + sign * of[1]. */
typedef struct {
    const float *of[3];
    int step[3]; /* to the next channel; none where a row is outside */
    float sign;
} tl_three_rows;

#define TL_BOTH(name, j) name = p[j] - s[j], name##_ = __builtin_fmaf(k, q[j], s[j])
#define TL_ACROSS(to, a, b, c, d) (to)[0] = a - c, (to)[4] = b + c, (to)[8] = c - b, (to)[12] = b - d

/* One tile or two side by side, of so many channels, in a place or two: products of the second one are two tiles
 * further on. */
typedef struct {
    const float *m, *bias;
    float *to[2];
    int places, row, channel, count; /* row, channel: steps of the outputs */
} tl_eight_run;

/* The first column of a tile's inputs. */
static inline int tl_eight_column(const tl_winograd *t, const tl_tile_at *tile)
{
    return t->g->x.in0 - (t->turned ? 2 : 0) + 2 * tile->x;
}

/* Where its outputs begin. */
static inline float *tl_eight_place(const tl_winograd *t, const tl_tile_at *tile, int channel)
{
    const tl_pitch *p = &t->g->out_p;
    return t->g->out + channel * p->c + tile->n * p->n + 2 * tile->y * p->h + 2 * tile->x;
}

static inline tl_eight_run tl_eight_run_of(const tl_winograd *t, int first, int count)
{
    const tl_gather *g = t->g;
    const float *bias = g->bias ? g->bias + t->group * g->rows + t->channel + first : NULL;
    return (tl_eight_run){t->m, bias, {NULL, NULL}, 1, g->out_p.h, g->out_p.c, count};
}

/* Those that a tile is made of, from column x on, and from a channel on. */
static inline __attribute__((always_inline)) tl_three_rows tl_three_rows_of(const tl_winograd *t,
                                                                            const tl_tile_at *tile, int chan)
{
    const tl_gather *g = t->g;
    const int x = tl_eight_column(t, tile), y = g->y.in0 - (t->turned ? 2 : 0) + 2 * tile->y;
    const float *in = g->in + (t->group * g->chans + chan) * g->in_p.c + tile->n * g->in_p.n + x;
    tl_three_rows r = {.sign = t->row ? -1.0f : 1.0f};
    for (int i = 0; i < 3; ++i) {
        TL_ONE_POINTER(i) /* not three copies */
        const int row = y + ((t->row ? 0x132 : 0x210) >> 4 * i & 3), inside = (unsigned)row < (unsigned)g->y.extent;
        r.of[i] = inside ? in + row * g->in_p.h : t->zeros, r.step[i] = inside ? g->in_p.c : 0;
    }
    return r;
}

/* Of a row of products of so many tiles: what it adds to even columns of outputs, and to odd ones. No step waits for
 * the one before. */
#define TL_SHARES(even, odd, m)                                                                                        \
    for (int j = 0; j < tiles; ++j)                                                                                    \
        even[j] = (m)[16 + j] + (m)[32 + j], odd[j] = (m)[16 + j] - (m)[32 + j];                                       \
    for (int j = 0; j < tiles; ++j)                                                                                    \
        even[j] = __builtin_fmaf(0.5f, even[j], (m)[j]), odd[j] = __builtin_fmaf(0.5f, odd[j], -(m)[48 + j]);
/* Channel after channel of m, four by four, to outputs. */
#define TL_CHANNELS(left)                                                                                              \
    for (int left = r.count; left > 0; left -= 4, m += 3 * TL_EIGHT + 16)                                              \
        for (const float *end = m + 4 * tl_min(left, 4); m < end; m += 4, to += r.channel)

/* The upper two rows; `tiles` is a literal. */
static inline __attribute__((always_inline)) void tl_eight_upper(const tl_eight_run *of, int tiles)
{
    const tl_eight_run r = *of; /* outputs are floats, too: its own would be read again after each */
    for (int i = 0; i < r.places; ++i) {
        const float *m = r.m + 2 * i, *bias = r.bias;
        float *to = r.to[i];
        TL_CHANNELS(left)
        {
            const float start = bias ? *bias++ : 0.0f;
            float *below = to + r.row, even[2], odd[2], more_even[2], more_odd[2];
            TL_SHARES(even, odd, m)
            TL_SHARES(more_even, more_odd, m + 64)
            for (int j = 0; j < tiles; ++j)
                even[j] += start, odd[j] += start;
            for (int j = 0; j < tiles; ++j) {
                to[2 * j] = __builtin_fmaf(0.5f, more_even[j], even[j]);
                to[2 * j + 1] = __builtin_fmaf(0.5f, more_odd[j], odd[j]);
            }
            for (int j = 0; j < tiles; ++j) {
                below[2 * j] = __builtin_fmaf(0.5f, more_even[j], start);
                below[2 * j + 1] = __builtin_fmaf(0.5f, more_odd[j], start);
            }
        }
    }
}

/* The lower two. */
static inline __attribute__((always_inline)) void tl_eight_lower(const tl_eight_run *of, int tiles)
{
    const tl_eight_run r = *of;
    for (int i = 0; i < r.places; ++i) {
        const float *m = r.m + 2 * i;
        float *to = r.to[i];
        TL_CHANNELS(left)
        {
            float *below = to + r.row, even[2], odd[2], less_even[2], less_odd[2];
            TL_SHARES(even, odd, m)
            TL_SHARES(less_even, less_odd, m + 64)
            for (int j = 0; j < tiles; ++j) {
                less_even[j] = __builtin_fmaf(-0.5f, even[j], below[2 * j]) - less_even[j];
                less_odd[j] = __builtin_fmaf(-0.5f, odd[j], below[2 * j + 1]) - less_odd[j];
                even[j] = __builtin_fmaf(0.5f, even[j], to[2 * j]),
                odd[j] = __builtin_fmaf(0.5f, odd[j], to[2 * j + 1]);
            }
            for (int j = 0; j < tiles; ++j) {
                to[2 * j] = even[j], to[2 * j + 1] = odd[j];
                below[2 * j] = less_even[j], below[2 * j + 1] = less_odd[j];
            }
        }
    }
}

#endif
