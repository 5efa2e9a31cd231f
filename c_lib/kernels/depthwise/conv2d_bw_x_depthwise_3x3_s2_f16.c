/* Input gradient of a depthwise 3 x 3 convolution of halves, of stride 2: squares of 2 x 2 outputs, which meet 2 x 2
 * elements of a copy of dL/dy by nine taps, in five pairs. A sum is one chain, of the upper row first. An item of work
 * is a row of squares. Scratch of a core: TL_COPIED halves at most, and a row for what is outside. */
#include "tl_depthwise_pairs.h"

/* Squares of an image or a part of it, from the copy's word `in` on; pitch: words. */
typedef struct {
    const tl_pair *in, *w;
    float start;
    int pitch, halves;
} tl_squares;

TL_PLANE void put(void *row, int at, float first, float second, int halves)
{
    if (halves) {
        const tl_pair both = tl_pair_rounded(first, second);
        ((tl_half *)row)[at] = (tl_half)both, ((tl_half *)row)[at + 1] = (tl_half)(both >> 16);
    } else {
        ((float *)row)[at] = first, ((float *)row)[at + 1] = second;
    }
}

/* Pairs of its upper and its lower row; its first element alone; the first ones of both rows. */
TL_PLANE void square(const tl_pair *w, float start, tl_pair above, tl_pair below, tl_pair alone, tl_pair firsts,
                     void *upper, void *lower, int at, int halves)
{
    const float corner = tl_pair_add(tl_pair_add(start, above, w[3]), below, w[4]);
    put(upper, at, tl_pair_add(start, alone, w[0]), tl_pair_add(start, above, w[1]), halves);
    put(lower, at, tl_pair_add(start, firsts, w[2]), corner, halves);
}

/* `count` neighbouring squares in each of so many rows; down: from a row of squares to the next in the outputs. */
TL_PLANE void rows_of(const tl_squares *s, void *upper, void *lower, int count, int rows, int down, int halves)
{
    const int size = halves ? sizeof(tl_half) : sizeof(float);
    const tl_pair w[5] = {s->w[0], s->w[1], s->w[2], s->w[3], s->w[4]};
    const float start = s->start;
    char *up = upper, *low = lower;
    for (int row = 0; row < rows; ++row, up += (down - 2 * count) * size, low += (down - 2 * count) * size) {
        const tl_pair *in = s->in + row * s->pitch, *next = in + s->pitch;
        tl_pair a = *in, c = *next;
        int left = count;
        for (; left >= 2; left -= 2, up += 4 * size, low += 4 * size) {
            const tl_pair b = *++in, d = *++next;
            square(w, start, a, c, (tl_half)a, tl_pair_of((tl_half)a, (tl_half)c), up, low, 0, halves);
            a >>= 16, c >>= 16;
            square(w, start, tl_pair_of((tl_half)a, (tl_half)b), tl_pair_of((tl_half)c, (tl_half)d), a,
                   tl_pair_of((tl_half)a, (tl_half)c), up, low, 2, halves);
            a = b, c = d;
        }
        if (left > 0) {
            square(w, start, a, c, (tl_half)a, tl_pair_of((tl_half)a, (tl_half)c), up, low, 0, halves);
            up += 2 * size, low += 2 * size;
        }
    }
}

static __attribute__((noinline)) void squares(const tl_squares *s, void *upper, void *lower, int count, int rows,
                                              int down)
{
    if (s->halves)
        rows_of(s, upper, lower, count, rows, down, 1);
    else
        rows_of(s, upper, lower, count, rows, down, 0);
}

/* One output of either row: of the first two squares that with this index. */
static void single(const tl_squares *s, char *upper, char *lower, int index)
{
    union {
        float floats[2][4];
        tl_half halves[2][4];
    } own;
    if (s->halves) {
        squares(s, own.halves[0], own.halves[1], 2, 1, 0);
        *(tl_half *)upper = own.halves[0][index], *(tl_half *)lower = own.halves[1][index];
    } else {
        squares(s, own.floats[0], own.floats[1], 2, 1, 0);
        *(float *)upper = own.floats[0][index], *(float *)lower = own.floats[1][index];
    }
}

/* So many rows of squares of `extent` outputs. half: the first one is the second half of the second square. */
static __attribute__((noinline)) void rows_of_squares(tl_squares s, char *upper, char *lower, int extent, int half,
                                                      int rows, int down)
{
    const int size = s.halves ? sizeof(tl_half) : sizeof(float), first = half ? size : 0;
    const tl_pair *from = s.in + half;
    extent -= half;
    for (int i = 0; half && i < rows; ++i, s.in += s.pitch)
        single(&s, upper + i * down * size, lower + i * down * size, 3);
    s.in = from, upper += first, lower += first;
    if (extent > 1)
        squares(&s, upper, lower, extent / 2, rows, down);
    s.in += extent / 4, upper += (extent - 1) * size, lower += (extent - 1) * size;
    for (int i = 0; extent % 2 && i < rows; ++i, s.in += s.pitch)
        single(&s, upper + i * down * size, lower + i * down * size, extent / 2 % 2 * 2);
}

/* The pairs of taps in a sum's order. */
static void pairs_of_taps(const char *taps, int floats, tl_pair *w)
{
    const int size = floats ? sizeof(float) : sizeof(tl_half);
    w[0] = (tl_half)tl_pair_at(taps + 4 * size, taps + 4 * size, floats);
    w[1] = tl_pair_at(taps + 5 * size, taps + 3 * size, floats);
    w[2] = tl_pair_at(taps + 7 * size, taps + size, floats);
    w[3] = tl_pair_at(taps + 8 * size, taps + 6 * size, floats);
    w[4] = tl_pair_at(taps + 2 * size, taps, floats);
}

void tl_conv2d_bw_x_depthwise_3x3_s2_f16(const tl_conv2d *a)
{
    const int ins = a->groups * a->ci, size = a->halves ? sizeof(tl_half) : sizeof(float);
    const int top = (a->pad_h - 1) >> 1, half = a->pad_w % 2 == 0; /* of the first square one is outside */
    const int rows = ((a->pad_h + a->h - 2) >> 1) - top + 1, across = half ? 2 + a->wd / 2 : (a->wd + 1) / 2;
    tl_copied_halves c = {.left = ((a->pad_w - 1) >> 1) - half, .columns = tl_copied_pitch(across, 1)};
    const int most = tl_min(rows, TL_COPIED / c.columns - 1), copied = (most + 1) * c.columns;
    tl_half *own =
        (tl_half *)((char *)a->scratch + tl_core_id() * (copied * (int)sizeof(tl_half) + a->wd * (int)sizeof(float)));
    char *outside = (char *)(own + copied);
    tl_plane_rows r = tl_plane_share(a->team, a->n * ins, rows);
    tl_pair w[5];
    tl_squares s = {.w = w, .pitch = c.columns / 2, .halves = a->halves};
    TL_PROMISE(a->co == 1 && a->kh == 3 && a->kw == 3 && a->dil_h == 1 && a->dil_w == 1 && !a->accumulate);
    TL_PROMISE(a->stride_h == 2 && a->stride_w == 2);
    while (tl_plane_next(&r, rows)) {
        const int n = tl_part_of(r.plane, a->n, ins), i = r.plane - n * ins, group = tl_part_of(i, a->groups, a->ci);
        const int taps = group * a->w_co + (i - group * a->ci) * a->w_ci;
        const tl_half *image = a->y_f16 + n * a->yp.n + group * a->yp.c;
        char *to = (a->halves ? (char *)a->x_f16 : (char *)a->x) + (n * a->xp.n + i * a->xp.c) * size;
        pairs_of_taps(a->floats ? (const char *)(a->w + taps) : (const char *)(a->w_f16 + taps), a->floats, w);
        s.start = a->bias ? a->bias[i] : 0.0f;
        for (int row = r.row, count; row < r.end; row += count) {
            count = tl_min(most, r.end - row);
            if (!r.again || r.end - r.row > most) {
                c.top = top + row, c.rows = count + 1;
                tl_halves_clear(&c, a->yp.h, a->ho, a->wo, own);
            }
            tl_halves_copy(&c, image, a->yp.h);
            s.in = (const tl_pair *)own;
            int at = 2 * c.top + 1 - a->pad_h;
            for (int left = count, done; left > 0; left -= done, at += 2 * done, s.in += done * s.pitch) {
                char *upper = at < 0 ? outside : to + at * a->xp.h * size;
                char *lower = at + 1 < a->h ? to + (at + 1) * a->xp.h * size : outside;
                done = at < 0 ? 1 : tl_max(1, tl_min(left, (a->h - at) / 2));
                rows_of_squares(s, upper, lower, a->wd, half, done, 2 * a->xp.h);
            }
        }
    }
}
