/* A row of the transformed 4 x 4 inputs of halves, B' d B, of pairs of tiles. */
#define TL_HALVES
#include "tl_winograd_pairs_bw_w_xpulp.h"

#define TL_COLUMNS(i, j) TL_OF_BOTH(plus, tl_pair_of(p[i], p[j]), tl_pair_of(q[i], q[j]))

/* Two tiles side by side; their first and their last column may be outside. */
static inline __attribute__((always_inline)) void two(const tl_half_rows *r, int plus, int sides, tl_pair *v, int next,
                                                      int count)
{
    const tl_half *p = r->p, *q = r->q;
    const int p_next = r->p_next, q_next = r->q_next, left = sides & 1 ? 0 : 2, right = sides & 2 ? 5 : 3;
    const tl_pair from = sides & 1 ? 0xffffffff : 0xffff0000, to = sides & 2 ? 0xffffffff : 0xffff;
    for (int channel = 1; channel <= count; ++channel, p += p_next, q += q_next) {
        const tl_pair a = TL_COLUMNS(left, 2) & from, b = TL_COLUMNS(1, 3);
        const tl_pair c = TL_COLUMNS(2, 4), d = TL_COLUMNS(3, right) & to;
        v[0] = tl_pair_minus(a, c), v[4] = tl_pair_plus(b, c), v[8] = tl_pair_minus(c, b), v[12] = tl_pair_minus(b, d);
        v += channel % 4 ? 1 : next + 1;
    }
}

static __attribute__((noinline)) void two_plus(const tl_half_rows *r, int sides, tl_pair *v, int next, int count)
{
    two(r, 1, sides, v, next, count);
}

static __attribute__((noinline)) void two_minus(const tl_half_rows *r, int sides, tl_pair *v, int next, int count)
{
    two(r, 0, sides, v, next, count);
}

/* One tile of a pair, whose columns are inside from `from` to `to`. */
static __attribute__((noinline)) void one(const tl_half_rows *r, int plus, int from, int to, int second, tl_pair *v,
                                          int next, int count)
{
    const tl_half *p = r->p, *q = r->q;
    for (int channel = 1; channel <= count; ++channel, p += r->p_next, q += r->q_next) {
        tl_pair c[4];
        for (int j = 0; j < 4; ++j)
            c[j] = j >= from && j < to ? TL_OF_BOTH(plus, p[j], q[j]) : 0;
        tl_winograd_lane(v, second, tl_pair_minus(c[0], c[2]));
        tl_winograd_lane(v + 4, second, tl_pair_plus(c[1], c[2]));
        tl_winograd_lane(v + 8, second, tl_pair_minus(c[2], c[1]));
        tl_winograd_lane(v + 12, second, tl_pair_minus(c[1], c[3]));
        v += channel % 4 ? 1 : next + 1;
    }
}

/* Those of the tile whose first input is `in`, in row y. */
static void rows_of(const tl_winograd_pairs_bw_w *t, const tl_half *in, int y, tl_half_rows *r)
{
    const tl_conv2d *a = t->a;
    const int first = y + (0x1210 >> 4 * t->row & 3), second = y + (0x3122 >> 4 * t->row & 3);
    r->p = r->q = (const tl_half *)t->zeros + 1, r->p_next = r->q_next = 0;
    if ((unsigned)first < (unsigned)a->h)
        r->p = in + first * a->xp.h, r->p_next = a->xp.c;
    if ((unsigned)second < (unsigned)a->h)
        r->q = in + second * a->xp.h, r->q_next = a->xp.c;
}

/* A pair. */
static void pair(const tl_winograd_pairs_bw_w *t, const tl_half *in, int at, tl_pair *v, int next, int count)
{
    const tl_conv2d *a = t->a;
    const int plus = t->row == 1, left = t->tiles - 2 * at;
    tl_tile_at tile = tl_tile_of(t->tile + 2 * at, t->high, t->wide);
    for (int j = 0; j < 2 && j < left; ++j) {
        TL_ONE_POINTER(j) /* not two copies */
        const int x = 2 * tile.x - a->pad_w;
        tl_half_rows rows;
        rows_of(t, in + tile.n * a->xp.n + x, 2 * tile.y - a->pad_h, &rows);
        if (j == 0 && left > 1 && tile.x + 2 <= t->wide && x >= -1 && x + 5 <= a->wd) {
            const int sides = (x >= 0) + 2 * (x + 5 < a->wd);
            plus ? two_plus(&rows, sides, v, next, count) : two_minus(&rows, sides, v, next, count);
            return;
        }
        one(&rows, plus, -x, a->wd - x, j, v, next, count);
        tl_next_tile(&tile, t->high, t->wide);
    }
}

#ifdef TL_XF16AUXVEC
/* Two pairs, if their tiles are side by side, whose second column lies at an even place, in fours of channels. */
static int by_words(const tl_winograd_pairs_bw_w *t, const tl_half *in, int at, tl_pair *v, int next, int count)
{
    const tl_conv2d *a = t->a;
    const tl_tile_at tile = tl_tile_of(t->tile + 2 * at, t->high, t->wide);
    const int x = 2 * tile.x - a->pad_w, to = tile.n * a->xp.n + x;
    const int odd = (int)((uintptr_t)(in + to + 1) >> 1) | a->xp.h | a->xp.c;
    if (t->tiles < 2 * at + 4 || tile.x + 4 > t->wide || x < -1 || x + 9 > a->wd || odd % 2 != 0 || count % 4 != 0)
        return 0;
    tl_half_rows rows;
    rows_of(t, in + to, 2 * tile.y - a->pad_h, &rows);
    tl_inputs_by_words(&rows, t->row == 1, x >= 0, x + 9 < a->wd, t->zeros, v, count / 4, next);
    return 1;
}
#endif

void tl_winograd_pairs_bw_w_inputs(const void *of, int at, int first, int fours)
{
    const tl_winograd_pairs_bw_w *t = of;
    const tl_conv2d *a = t->a;
    const int next = t->pairs * TL_WINOGRAD_PAIR - 4, count = tl_min(4 * fours, t->ins - 4 * first);
    const tl_half *in = a->x_f16 + (t->group * a->ci + t->in + 4 * first) * a->xp.c;
    tl_pair *v = t->v + (first * t->pairs + 2 * at) * TL_WINOGRAD_PAIR;
#ifdef TL_XF16AUXVEC
    if (by_words(t, in, 2 * at, v, next, count))
        return;
#endif
    for (int i = 2 * at; i < tl_min(2 * at + 2, t->pairs); ++i, v += TL_WINOGRAD_PAIR)
        pair(t, in, i, v, next, count);
}
