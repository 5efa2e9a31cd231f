/* A row of the transformed 4 x 4 gradients of halves, A dY A', of pairs of tiles. */
#define TL_HALVES
#include "tl_winograd_pairs_bw_w_xpulp.h"

/* Two tiles side by side whose rows lie at even places. */
static inline __attribute__((always_inline)) void two(const tl_half_rows *r, int plus, tl_pair *z, int next, int count)
{
    const tl_half *p = r->p, *q = r->q;
    const int p_next = r->p_next, q_next = r->q_next;
    for (int channel = 1; channel <= count; ++channel, p += p_next, q += q_next) {
        const tl_pair *upper = (const tl_pair *)p, *lower = (const tl_pair *)q;
        const tl_pair s = TL_OF_BOTH(plus, upper[0], lower[0]), t = TL_OF_BOTH(plus, upper[1], lower[1]);
        const tl_pair even = tl_pair_of((tl_half)s, (tl_half)t), odd = tl_pair_of(s >> 16, t >> 16);
        z[0] = even, z[4] = tl_pair_plus(even, odd), z[8] = tl_pair_minus(even, odd), z[12] = odd;
        z += channel % 4 ? 1 : next + 1;
    }
}

static __attribute__((noinline)) void two_plus(const tl_half_rows *r, tl_pair *z, int next, int count)
{
    two(r, 1, z, next, count);
}

static __attribute__((noinline)) void two_minus(const tl_half_rows *r, tl_pair *z, int next, int count)
{
    two(r, 0, z, next, count);
}

/* One tile of a pair, perhaps without its second column. */
static __attribute__((noinline)) void one(const tl_half_rows *r, int plus, int wide, int second, tl_pair *z, int next,
                                          int count)
{
    const tl_half *p = r->p, *q = r->q;
    for (int channel = 1; channel <= count; ++channel, p += r->p_next, q += r->q_next) {
        const tl_pair even = TL_OF_BOTH(plus, p[0], q[0]), odd = wide ? TL_OF_BOTH(plus, p[1], q[1]) : 0;
        tl_winograd_lane(z, second, even), tl_winograd_lane(z + 4, second, tl_pair_plus(even, odd));
        tl_winograd_lane(z + 8, second, tl_pair_minus(even, odd)), tl_winograd_lane(z + 12, second, odd);
        z += channel % 4 ? 1 : next + 1;
    }
}

/* The rows that make row t->row of A dY: the upper one, both, their difference, the lower one. */
static void rows_of(const tl_winograd_pairs_bw_w *t, const tl_half *y, int below, tl_half_rows *r)
{
    const tl_conv2d *a = t->a;
    r->p = r->q = (const tl_half *)t->zeros, r->p_next = r->q_next = 0;
    if (t->row < 3)
        r->p = y, r->p_next = a->yp.c;
    if (t->row > 0 && below)
        r->q = y + a->yp.h, r->q_next = a->yp.c;
}

/* A pair. */
static void pair(const tl_winograd_pairs_bw_w *t, const tl_half *y, int at, tl_pair *z, int next, int count)
{
    const tl_conv2d *a = t->a;
    const int plus = t->row != 2, left = t->tiles - 2 * at;
    tl_tile_at tile = tl_tile_of(t->tile + 2 * at, t->high, t->wide);
    for (int j = 0; j < 2 && j < left; ++j) {
        TL_ONE_POINTER(j) /* not two copies */
        const int to = tile.n * a->yp.n + 2 * tile.y * a->yp.h + 2 * tile.x;
        tl_half_rows rows;
        rows_of(t, y + to, 2 * tile.y + 1 < a->ho, &rows);
        if (j == 0 && left > 1 && tile.x + 2 <= t->wide && 2 * tile.x + 4 <= a->wo &&
            (((uintptr_t)(y + to) >> 1 | (unsigned)a->yp.h | (unsigned)a->yp.c) & 1) == 0) {
            plus ? two_plus(&rows, z, next, count) : two_minus(&rows, z, next, count);
            return;
        }
        one(&rows, plus, 2 * tile.x + 1 < a->wo, j, z, next, count);
        tl_next_tile(&tile, t->high, t->wide);
    }
}

#ifdef TL_XF16AUXVEC
/* Two pairs, if their tiles are side by side and whole, at even places, in fours of channels. */
static int by_words(const tl_winograd_pairs_bw_w *t, const tl_half *y, int at, tl_pair *z, int next, int count)
{
    const tl_conv2d *a = t->a;
    const tl_tile_at tile = tl_tile_of(t->tile + 2 * at, t->high, t->wide);
    const int to = tile.n * a->yp.n + 2 * tile.y * a->yp.h + 2 * tile.x;
    const int odd = (int)((uintptr_t)(y + to) >> 1) | a->yp.h | a->yp.c;
    if (t->tiles < 2 * at + 4 || 2 * tile.x + 8 > a->wo || odd % 2 != 0 || count % 4 != 0)
        return 0;
    tl_half_rows rows;
    rows_of(t, y + to, 2 * tile.y + 1 < a->ho, &rows);
    tl_gradients_by_words(&rows, t->row != 2, z, count / 4, next);
    return 1;
}
#endif

void tl_winograd_pairs_bw_w_gradients(const void *of, int at, int first, int fours)
{
    const tl_winograd_pairs_bw_w *t = of;
    const tl_conv2d *a = t->a;
    const int next = t->pairs * TL_WINOGRAD_PAIR - 4, count = tl_min(4 * fours, t->outs - 4 * first);
    const tl_half *y = a->y_f16 + (t->group * a->co + t->out + 4 * first) * a->yp.c;
    tl_pair *z = t->z + (first * t->pairs + 2 * at) * TL_WINOGRAD_PAIR;
#ifdef TL_XF16AUXVEC
    if (by_words(t, y, 2 * at, z, next, count))
        return;
#endif
    for (int i = 2 * at; i < tl_min(2 * at + 2, t->pairs); ++i, z += TL_WINOGRAD_PAIR)
        pair(t, y, i, z, next, count);
}
