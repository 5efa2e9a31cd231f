/* Input gradient of a 3 x 3 convolution of stride 2, three squares of 2 x 2 outputs at a time: 27 multiply-adds for 17
 * loads a term. All cores copy dL/dy with zeros around it; weights are read where they lie. Scratch: that copy,
 * [n][groups][co][rows + 1][3 panels + 1]. */
#include "tl_squares.h" /* first: it sets how the whole file is compiled */
#include "tl_around.h"
#include "tl_squares_three_xpulp.h"

enum { SQUARES = 3, ACROSS = 2 * SQUARES };

static int pitch_of(const tl_grid *g)
{
    return SQUARES * g->panels + 1;
}

#define THREE(what) what(0) what(1) what(2)
#define DECLARE(q) float s0##q = 0.0f, s1##q = 0.0f, s2##q = 0.0f, s3##q = 0.0f;
#define ADD_BOTH(q) out[2 * q + 1 + c_h] += s3##q, s3##q = 0.0f;
#define ADD_ONE(q) out[2 * q + 1] += s1##q, s1##q = 0.0f, out[2 * q + c_h] += s2##q, s2##q = 0.0f;
#define ADD_NONE(q) out[2 * q] += s0##q, s0##q = 0.0f;
#define MULTIPLY(s, w, y0, y1, y2)                                                                                     \
    s##0 = __builtin_fmaf(w, y0, s##0), s##1 = __builtin_fmaf(w, y1, s##1), s##2 = __builtin_fmaf(w, y2, s##2);

#ifdef TL_XPULP_TILES
static __attribute__((noinline)) void squares(tl_squares_run *r)
{
    tl_xpulp_squares_three(r);
}
#else
static void *by(const void *p, int bytes)
{
    return (char *)p + bytes;
}

/* One item. The sums of outputs with four, two taps and one have 16, 32 and 64 channels of dL/dy in a block. */
static void add(const tl_squares_run *r, float *out)
{
    const float *y = r->met, *w = r->w;
    const int c_h = (int)(r->lower - r->out);
    THREE(DECLARE)
    for (int done = 1; done <= r->channels; ++done, y = by(y, r->plane), w = by(w, r->w_chan)) {
        const float *lower = by(y, r->row);
        MULTIPLY(s3, w[0], lower[1], lower[2], lower[3])
        MULTIPLY(s2, w[1], lower[0], lower[1], lower[2])
        MULTIPLY(s3, w[2], lower[0], lower[1], lower[2])
        MULTIPLY(s1, w[3], y[1], y[2], y[3])
        MULTIPLY(s0, w[4], y[0], y[1], y[2])
        MULTIPLY(s1, w[5], y[0], y[1], y[2])
        MULTIPLY(s3, w[6], y[1], y[2], y[3])
        MULTIPLY(s2, w[7], y[0], y[1], y[2])
        MULTIPLY(s3, w[8], y[0], y[1], y[2])
        if (done % (TL_KC / 4) == 0 || done == r->channels) {
            THREE(ADD_BOTH)
        }
        if (done % (TL_KC / 2) == 0 || done == r->channels) {
            THREE(ADD_ONE)
        }
        if (done % TL_KC == 0 || done == r->channels) {
            THREE(ADD_NONE)
        }
    }
}

static void squares(tl_squares_run *r)
{
    const tl_squares_run first = *r;
    for (; r->count > 0; --r->count) {
        for (int i = 0; r->start && i < ACROSS; ++i)
            r->out[i] = r->lower[i] = *r->start;
        add(r, r->out);
        r->met = by(r->met, r->met_next), r->w = by(r->w, r->w_next), r->out = by(r->out, r->out_next);
        r->lower = by(r->lower, r->out_next), r->start = r->start ? by(r->start, r->start_next) : NULL;
    }
    r->met = first.met, r->w = first.w;
}
#endif

/* Channels of squares of which a part is outside: one by one, aside. */
static __attribute__((noinline)) void partly(const tl_conv2d *a, tl_squares_run *r, int row, int column)
{
    float t[2 * ACROSS], *out = r->out;
    for (int left = r->count; left > 0; --left, out += a->xp.c, r->w += a->w_ci) {
        r->out = t, r->lower = t + ACROSS, r->count = 1;
        if (a->accumulate)
            tl_squares_edge(a, out, row, column, t, ACROSS, 0);
        squares(r);
        tl_squares_edge(a, out, row, column, t, ACROSS, 1);
    }
}

/* This core's share of the channels of all panels; of one channel, of panels side by side. */
static __attribute__((noinline)) void share(const tl_conv2d *a, const tl_grid *g)
{
    const int images = a->n * a->groups, along = a->ci == 1, pitch = pitch_of(g), plane = (g->rows + 1) * pitch;
    const float zero = 0.0f;
    tl_squares_run r = {.row = 4 * pitch, .plane = 4 * plane, .w_chan = 4 * a->w_co, .channels = a->co};
    int lo, hi;
    r.met_next = along ? 4 * SQUARES : 0, r.out_next = along ? 4 * ACROSS : 4 * a->xp.c;
    r.w_next = along ? 0 : 4 * a->w_ci, r.start_next = along || !a->bias ? 0 : 4;
    tl_split(images * g->rows * g->panels * a->ci, 1, &lo, &hi);
    int at = lo / a->ci, first = lo - at * a->ci, line = at / g->panels, panel = at - line * g->panels;
    int image = line / g->rows, y = line - image * g->rows;
    while (lo < hi) {
        const int n = a->groups == 1 ? image : image / a->groups, group = image - n * a->groups;
        const int row = 2 * (g->top + y) + 1 - a->pad_h, column = 2 * (g->left + SQUARES * panel) + 1 - a->pad_w;
        const int c = group * a->ci + first, whole_rows = row >= 0 && row + 2 <= a->h;
        const int whole = whole_rows && column >= 0 ? (a->wd - column) / ACROSS : 0; /* panels */
        const int most = along ? tl_min(tl_max(whole, 1), g->panels - panel) : a->ci - first;
        r.met = (float *)a->scratch + image * a->co * plane + y * pitch + SQUARES * panel;
        r.w = a->w + group * a->co * a->w_co + first * a->w_ci;
        r.out = a->x + n * a->xp.n + c * a->xp.c + row * a->xp.h + column, r.lower = r.out + a->xp.h;
        r.start = a->accumulate ? NULL : a->bias ? a->bias + c : &zero;
        r.count = tl_min(most, hi - lo);
        lo += r.count, first = 0, panel += along ? r.count : 1;
        if (whole > 0)
            squares(&r);
        else
            partly(a, &r, row, column);
        if (panel < g->panels)
            continue;
        panel = 0;
        if (++y == g->rows)
            y = 0, ++image;
    }
}

void tl_conv2d_bw_x_3x3_s2_threes_f32(const tl_conv2d *a)
{
    const tl_grid g = tl_grid_of(a, SQUARES);
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 2 && a->stride_w == 2 && a->dil_h == 1 && a->dil_w == 1);
    const tl_around around = {.from = a->y,
                              .pitch = a->yp,
                              .n = a->n,
                              .channels = a->groups * a->co,
                              .h = a->ho,
                              .wd = a->wo,
                              .top = g.top,
                              .left = g.left,
                              .rows = g.rows + 1,
                              .columns = pitch_of(&g),
                              .to = a->scratch};
    tl_around_copy(&around);
    tl_barrier();
    share(a, &g);
}
