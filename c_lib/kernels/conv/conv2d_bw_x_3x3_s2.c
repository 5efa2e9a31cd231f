/* Input gradient of a 3 x 3 convolution of stride 2, four squares of 2 x 2 outputs at a time: 36 multiply-adds for 19
 * loads a term. What four squares meet is copied, zeros for what is outside, by all cores; weights are read where they
 * lie. Scratch: that copy, [n][groups][rows][panels][co][2][5], the lower row first. */
#include "tl_squares.h" /* first: it sets how the whole file is compiled */
#include "tl_squares_xpulp.h"

enum { SQUARES = 4, ACROSS = 2 * SQUARES, MET = 2 * (SQUARES + 1) };

/* A panel, and where its first square is. */
typedef struct {
    int n, group, row, column;
    float *met;
} panel;

static __attribute__((noinline)) panel panel_of(const tl_conv2d *a, const tl_grid *g, int index)
{
    const int line = index / g->panels, image = line / g->rows, n = image / a->groups;
    return (panel){n, image - n * a->groups, g->top + line - image * g->rows,
                   g->left + SQUARES * (index - line * g->panels), (float *)a->scratch + index * a->co * MET};
}

/* Channels first .. end - 1 of a panel. */
static __attribute__((noinline)) void copy(const tl_conv2d *a, const panel *p, int first, int end)
{
    const float *plane = a->y + p->n * a->yp.n + p->group * a->co * a->yp.c + p->column;
    for (int lower = 1; lower >= 0; --lower) {
        const int row = p->row + lower, extent = (unsigned)row < (unsigned)a->ho ? a->wo : 0;
        const float *from = plane + first * a->yp.c + row * a->yp.h;
        float *dst = p->met + first * MET + (lower ? 0 : MET / 2);
        for (int c = first; c < end; ++c, from += a->yp.c, dst += MET) {
            if (p->column >= 0 && p->column + SQUARES <= extent) {
                const float last = p->column + SQUARES < extent ? from[4] : 0.0f;
                dst[0] = from[0], dst[1] = from[1], dst[2] = from[2], dst[3] = from[3], dst[4] = last;
            } else {
                for (int x = 0; x <= SQUARES; ++x)
                    dst[x] = (unsigned)(p->column + x) < (unsigned)extent ? from[x] : 0.0f;
            }
        }
    }
}

#define FOUR(what) what(0) what(1) what(2) what(3)
#define DECLARE(q) float s0##q = 0.0f, s1##q = 0.0f, s2##q = 0.0f, s3##q = 0.0f;
#define ADD_BOTH(q) out[2 * q + 1 + c_h] += s3##q, s3##q = 0.0f;
#define ADD_ONE(q) out[2 * q + 1] += s1##q, s1##q = 0.0f, out[2 * q + c_h] += s2##q, s2##q = 0.0f;
#define ADD_NONE(q) out[2 * q] += s0##q, s0##q = 0.0f;

/* clang-format off */
#define MULTIPLY(s, q, w, y) s##q = __builtin_fmaf(w, y, s##q); TL_HERE(s##q)

/* One term, and on to the next: row r + 1 of dL/dy is in y0 .. y4 and the first weight in v; row r takes their place.
 * No operand is loaded for the next term: sums would be put on the stack for it. */
#define TERM                                                                                                           \
    MULTIPLY(s3, 0, v, y1) TL_GET(w, at[1]) MULTIPLY(s3, 1, v, y2)                                                     \
    MULTIPLY(s3, 2, v, y3) MULTIPLY(s3, 3, v, y4) TL_GET(v, at[2])                                                     \
    MULTIPLY(s2, 0, w, y0) TL_GET(y4, y[9]) MULTIPLY(s2, 1, w, y1)                                                     \
    MULTIPLY(s2, 2, w, y2) MULTIPLY(s2, 3, w, y3) TL_GET(w, at[3])                                                     \
    MULTIPLY(s3, 0, v, y0) TL_GET(y0, y[5]) MULTIPLY(s3, 1, v, y1) TL_GET(y1, y[6])                                    \
    MULTIPLY(s3, 2, v, y2) TL_GET(y2, y[7]) MULTIPLY(s3, 3, v, y3) TL_GET(y3, y[8])                                    \
    MULTIPLY(s1, 0, w, y1) TL_GET(v, at[4]) MULTIPLY(s1, 1, w, y2)                                                     \
    MULTIPLY(s1, 2, w, y3) MULTIPLY(s1, 3, w, y4) TL_GET(w, at[5])                                                     \
    MULTIPLY(s0, 0, v, y0) MULTIPLY(s0, 1, v, y1) MULTIPLY(s0, 2, v, y2) MULTIPLY(s0, 3, v, y3) TL_GET(v, at[6])       \
    MULTIPLY(s1, 0, w, y0) MULTIPLY(s1, 1, w, y1) MULTIPLY(s1, 2, w, y2) MULTIPLY(s1, 3, w, y3) TL_GET(w, at[7])       \
    MULTIPLY(s3, 0, v, y1) MULTIPLY(s3, 1, v, y2) MULTIPLY(s3, 2, v, y3) MULTIPLY(s3, 3, v, y4) TL_GET(v, at[8])       \
    MULTIPLY(s2, 0, w, y0) MULTIPLY(s2, 1, w, y1) MULTIPLY(s2, 2, w, y2) MULTIPLY(s2, 3, w, y3)                        \
    MULTIPLY(s3, 0, v, y0) MULTIPLY(s3, 1, v, y1) MULTIPLY(s3, 2, v, y2) MULTIPLY(s3, 3, v, y3)                        \
    TL_POINT(y, y + MET) TL_POINT(at, at + step)
/* clang-format on */

/* Adds what four squares are to out, two rows c_h apart. The sums of outputs with four, two taps and one have 16, 32
 * and 64 channels of dL/dy in a block. */
static __attribute__((noinline)) void squares(const tl_conv2d *a, const float *y, const float *at, float *out, int c_h)
{
#ifdef TL_XPULP_TILES
    tl_xpulp_squares(y, at, a->w_co, a->co, out, out + c_h);
#else
    const int step = a->w_co;
    FOUR(DECLARE)
    for (int done = 0; done < a->co;) {
        int left = tl_min(TL_KC / 4, a->co - done);
        done += left;
        for (; left != 0; --left) {
            float y0 = y[0], y1 = y[1], v = at[0], y2 = y[2], y3 = y[3], y4 = y[4], w;
            TERM
        }
        FOUR(ADD_BOTH)
        if (done % (TL_KC / 2) == 0 || done == a->co) {
            FOUR(ADD_ONE)
        }
        if (done % TL_KC == 0 || done == a->co) {
            FOUR(ADD_NONE)
        }
    }
#endif
}

/* Channels first .. end - 1. */
static __attribute__((noinline)) void items(const tl_conv2d *a, const panel *p, int first, int end)
{
    const int row = 2 * p->row + 1 - a->pad_h, column = 2 * p->column + 1 - a->pad_w, c0 = p->group * a->ci;
    const int whole = row >= 0 && row + 2 <= a->h && column >= 0 && column + ACROSS <= a->wd;
    const int c_h = whole ? a->xp.h : ACROSS;
    const float *w = a->w + p->group * a->co * a->w_co;
    float t[2 * ACROSS], *out = a->x + p->n * a->xp.n + (c0 + first) * a->xp.c + row * a->xp.h + column;
    for (int c = first; c < end; ++c, out += a->xp.c) {
        const float start = a->bias ? a->bias[c0 + c] : 0.0f;
        float *to = whole ? out : t;
        if (!a->accumulate)
            for (int i = 0; i < ACROSS; ++i)
                to[i] = to[c_h + i] = start;
        else if (!whole)
            tl_squares_edge(a, out, row, column, t, ACROSS, 0);
        squares(a, p->met, w + c * a->w_ci, to, c_h);
        if (!whole)
            tl_squares_edge(a, out, row, column, t, ACROSS, 1);
    }
}

/* This core's share of so many channels of all panels. */
static inline __attribute__((always_inline)) void share(const tl_conv2d *a, const tl_grid *g, int channels,
                                                        void (*some)(const tl_conv2d *, const panel *, int, int))
{
    int lo, hi;
    tl_split(a->n * a->groups * g->rows * g->panels * channels, 1, &lo, &hi);
    while (lo < hi) {
        const int index = lo / channels, first = lo - index * channels, end = tl_min(channels, first + hi - lo);
        const panel p = panel_of(a, g, index);
        some(a, &p, first, end);
        lo += end - first;
    }
}

void tl_conv2d_bw_x_3x3_s2_f32(const tl_conv2d *a)
{
    const tl_grid g = tl_grid_of(a, SQUARES);
    TL_PROMISE(a->kh == 3 && a->kw == 3 && a->stride_h == 2 && a->stride_w == 2 && a->dil_h == 1 && a->dil_w == 1);
    share(a, &g, a->co, copy);
    tl_barrier();
    share(a, &g, a->ci, items);
}
