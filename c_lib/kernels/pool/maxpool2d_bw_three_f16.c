/* Gradient of maxima over windows of three neighbouring halves, one or two apart, their taps numbered in a byte. Each
 * core takes whole rows of inputs, and what a row of outputs gives them from left to right, as sums of floats. */
#define TL_HALVES
#include "tl_pool_rows.h"

/* A row of outputs, as the input row sees it that lies under its taps `base` to base + 2; `add` to what is there. */
typedef struct {
    const element *g;
    const uint8_t *tap;
    int n, base, add;
    int stride, pad, begin, end; /* the inputs of windows begin..end-1 are all there */
} givers;

INLINE float given(const givers *r, int ox, int column)
{
    return ox >= 0 && ox < r->n ? if_won(WIDENED(r->g[ox]), r->tap[ox] == r->base + column) : 0.0f;
}

/* Inputs from..to-1, under whatever windows: the first and the last ones of a row. */
APART void edge(const givers *r, float *x, int from, int to)
{
    for (int i = from; i < to; i++) {
        const int t = i + r->pad, last = t >> (r->stride - 1);
        float sum = r->add ? x[i] : 0.0f;
        for (int ox = t < 2 ? 0 : (t - 3 + r->stride) >> (r->stride - 1); t >= 0 && ox <= last; ox++)
            sum += given(r, ox, t - ox * r->stride);
        x[i] = sum;
    }
}

/* Windows ox..end-1, the inputs under their first columns from x on; `add` is a literal. */
INLINE void one_apart(const givers *r, float *x, int ox, int end, int add)
{
    float far = given(r, ox - 2, 2), middle = given(r, ox - 1, 1), coming = given(r, ox - 1, 2);
    for (; ox < end; ox++, x++) {
        const float g = WIDENED(r->g[ox]), sum = (add ? *x : 0.0f) + far + middle;
        const int tap = r->tap[ox] - r->base;
        *x = sum + if_won(g, tap == 0);
        far = coming;
        middle = if_won(g, tap == 1);
        coming = if_won(g, tap == 2);
    }
}

INLINE void two_apart(const givers *r, float *x, int ox, int end, int add)
{
    float far = given(r, ox - 1, 2);
    for (; ox < end; ox++, x += 2) {
        const float g = WIDENED(r->g[ox]);
        const int tap = r->tap[ox] - r->base;
        x[0] = (add ? x[0] : 0.0f) + far + if_won(g, tap == 0);
        x[1] = (add ? x[1] : 0.0f) + if_won(g, tap == 1);
        far = if_won(g, tap == 2);
    }
}

APART void inner(const givers *r, float *x)
{
    if (r->stride == 1 && r->add)
        one_apart(r, x, r->begin, r->end, 1);
    else if (r->stride == 1)
        one_apart(r, x, r->begin, r->end, 0);
    else if (r->add)
        two_apart(r, x, r->begin, r->end, 1);
    else
        two_apart(r, x, r->begin, r->end, 0);
}

INLINE givers givers_of(const tl_pool2d *a)
{
    givers r = {.n = a->wo, .stride = a->stride_w, .pad = a->pad_w};
    const int room = a->wd - r.stride + r.pad;
    r.begin = r.pad > 0 ? (r.pad + r.stride - 1) / r.stride : 0;
    r.end = room < 0 ? r.begin : larger(r.begin, smaller(r.n, room / r.stride + 1));
    return r;
}

INLINE void give(const givers *r, float *x, int columns)
{
    const int from = smaller(r->begin * r->stride - r->pad, columns);
    edge(r, x, 0, from);
    inner(r, x + from);
    edge(r, x, from + (r->end - r->begin) * r->stride, columns);
}

INLINE void put_row(element *row, const float *sums, int n)
{
    for (int i = 0; i < n; i++)
        row[i] = NARROWED(sums[i]);
}

void tl_maxpool2d_bw_three_f16(const tl_pool2d *a)
{
    const int stride = a->stride_h;
    givers r = givers_of(a);
    int lo, hi;
    TL_PROMISE(a->tap_bytes == 1 && a->dil_h == 1 && a->dil_w == 1 && a->kw == 3 && a->stride_w <= 2);
    tl_split(a->planes * a->h, 1, &lo, &hi);
    int plane = lo / a->h, iy = lo - plane * a->h;
    for (; lo < hi; lo++) {
        const int t = iy + a->pad_h;
        element *row = a->READ(x) + plane * a->xp.plane + iy * a->xp.row;
        float *x = a->scratch + tl_core_id() * a->wd; /* sums, until they are complete */
        int oy = t < a->kh ? 0 : (t - a->kh) / stride + 1;
        r.add = 0;
        for (; t >= oy * stride && oy < a->ho; oy++) {
            r.g = a->READ(y) + plane * a->yp.plane + oy * a->yp.row;
            r.tap = (const uint8_t *)a->tap + plane * a->tp.plane + oy * a->tp.row;
            r.base = (t - oy * stride) * 3;
            give(&r, x, a->wd);
            r.add = 1;
        }
        if (!r.add)
            zeros(row, 0, a->wd);
        else
            put_row(row, x, a->wd);
        if (++iy == a->h) {
            iy = 0;
            plane++;
        }
    }
}
