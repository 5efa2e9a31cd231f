/* Forward convolution and input gradient whose groups have one channel on either side, or nearly; internal to
 * c_lib/kernels. No operand is shared between output channels, so nothing is packed. An item of work is one output row
 * of one channel; four neighbouring pixels make four chains. Halves are widened as they are read, taps before, by the
 * team, and results rounded as they are stored. Scratch, of halves: all taps. */
#ifndef TL_LINE_H
#define TL_LINE_H
#include "tl_gather.h"
#include "tl_promise.h"

#ifdef TL_HALVES
#define TL_LINE_TAPS(g) (g)->w_f32
#define TL_LINE_OUT(g) (g)->out_f16
#else
#define TL_LINE_TAPS(g) (g)->w
#define TL_LINE_OUT(g) (g)->out
#endif

/* One output row: `in` is column 0 of the row that tap row 0 reads, taps y0 .. y1 - 1 are rows inside the image. */
typedef struct {
    const tl_element *in;
    const float *w;
    tl_element *out;
    float start;
    int y0, y1;
} tl_line;

/* The taps t with 0 <= at + t*step < extent, as a range. */
void tl_line_taps(int at, int step, int extent, int taps, int *first, int *last);

/* Pixels q .. q + 3, or q four times, which hit the taps x0 .. x1 - 1; those from `fresh` up to `end` are stored. */
void tl_line_four(const tl_gather *g, const tl_line *l, int q, int fresh, int end, int x0, int x1);

/* Row q of output channel o of sample n, which reads image row g->y.in0 + q*g->y.in_step. */
static inline tl_line tl_line_at(const tl_gather *g, int n, int o, int q)
{
    const int group = o / g->rows, row_at = g->y.in0 + q * g->y.in_step;
    tl_line l = {.y0 = 0, .y1 = 0};
    l.in = g->in + n * g->in_p.n + group * g->chans * g->in_p.c + row_at * g->in_p.h;
    l.w = TL_LINE_TAPS(g) + group * g->w_group + (o - group * g->rows) * g->w_row;
    l.out = TL_LINE_OUT(g) + n * g->out_p.n + o * g->out_p.c + (g->y.out0 + q * g->y.out_step) * g->out_p.h;
    l.start = g->bias ? g->bias[o] : 0.0f;
    return l;
}

/* One core's next rows, of one channel of one sample. */
typedef struct {
    int n, o, q, rows, left;
} tl_lines;

static inline tl_lines tl_lines_first(const tl_gather *g)
{
    const int outs = g->groups * g->rows;
    int lo, hi;
    tl_split(g->n * outs * g->y.count, 1, &lo, &hi);
    tl_lines at = {lo / g->y.count / outs, lo / g->y.count % outs, lo % g->y.count, 0, hi - lo};
    at.rows = tl_min(g->y.count - at.q, at.left);
    return at;
}

static inline void tl_lines_next(const tl_gather *g, tl_lines *at)
{
    at->left -= at->rows, at->q = 0;
    at->rows = tl_min(g->y.count, at->left);
    if (++at->o == g->groups * g->rows)
        at->o = 0, ++at->n;
}

/* One class of any kernel. */
void tl_lines_any(const tl_gather *g);

#ifdef TL_HALVES
void tl_plane_widen_taps(const tl_conv2d *a, int at, float *own);

/* All taps of an operation, without gaps. by_row, by_chan: from one kernel to the next in the order of the weight, in
 * which the next output channel follows behind a->ci of them. */
static inline void tl_line_widen(const tl_conv2d *a, tl_gather *g, int by_row, int by_chan)
{
    const int size = a->kh * a->kw;
    float *own = a->scratch;
    int lo, hi;
    tl_split(a->groups * a->co * a->ci, 1, &lo, &hi);
    for (; lo < hi; ++lo)
        tl_plane_widen_taps(a, lo / a->ci * a->w_co + lo % a->ci * a->w_ci, own + lo * size);
    g->w_f32 = own, g->w_group = a->co * a->ci * size, g->w_row = by_row * size, g->w_chan = by_chan * size;
    TL_PROMISE(!a->accumulate);
    tl_barrier();
}
#endif
#endif
