/* 3 x 3 taps of four neighbouring pixels, in pairs of terms: two kernel rows, of one channel or of two, are three pairs. */
#define TL_HALVES
#include "tl_conv_pairs.h"

enum { ROWS = 6 }; /* kernel rows of two channels */

/* Where the six neighbours of each kernel row are, and elements to those two channels on. A row outside of the image is
 * zeros, and stays where it is; columns outside are masked, and another one is read. */
typedef struct {
    const tl_half *at[ROWS];
    int step[ROWS];
    int left, right;
} patch;

#define LOAD(x, p)                                                                                                     \
    const tl_half x##0 = (tl_half)(p[first] & left), x##1 = p[1], x##2 = p[2], x##3 = p[3], x##4 = p[4],               \
                  x##5 = (tl_half)(p[last] & right);
#define FOUR(at, x, a, b, c, d, y, e, f, g, h)                                                                         \
    dst[at] = tl_pair_of(x##a, y##e), dst[at + 1] = tl_pair_of(x##b, y##f), dst[at + 2] = tl_pair_of(x##c, y##g),      \
    dst[at + 3] = tl_pair_of(x##d, y##h);

/* turned, a literal: the taps of a row run from right to left. */
static inline __attribute__((always_inline)) void two_rows(const patch *s, int row, int pairs, tl_pair *dst, int turned)
{
    const tl_half *p = s->at[row], *q = s->at[row + 1];
    const int p_step = s->step[row], q_step = s->step[row + 1], left = s->left, right = s->right;
    const int first = left ? 0 : 1, last = right ? 5 : 4;
    for (; pairs > 0; --pairs, p += p_step, q += q_step, dst += 36) {
        LOAD(x, p)
        LOAD(y, q)
        if (turned) {
            FOUR(0, x, 2, 3, 4, 5, x, 1, 2, 3, 4)
            FOUR(4, x, 0, 1, 2, 3, y, 2, 3, 4, 5)
            FOUR(8, y, 1, 2, 3, 4, y, 0, 1, 2, 3)
        } else {
            FOUR(0, x, 0, 1, 2, 3, x, 1, 2, 3, 4)
            FOUR(4, x, 2, 3, 4, 5, y, 0, 1, 2, 3)
            FOUR(8, y, 1, 2, 3, 4, y, 2, 3, 4, 5)
        }
    }
}

/* `pairs` pairs of channels. */
static __attribute__((noinline)) void gather(const patch *s, int pairs, tl_pair *dst, int turned)
{
    for (int row = 0; row < ROWS; row += 2, dst += 12) {
        TL_ONE_POINTER(row) /* not three copies of these loops */
        if (turned)
            two_rows(s, row, pairs, dst, 1);
        else
            two_rows(s, row, pairs, dst, 0);
    }
}

/* Whole pairs of channels; those that the block cuts spill over into the slack. A last channel without a partner meets
 * zeros. */
void tl_pixels_gather_near_pairs(const tl_gather *g, const tl_pixels *px, const tl_half *in, int k, int kc)
{
    const tl_half zeros[6] = {0, 0, 0, 0, 0, 0}; /* on the stack: constants lie in L2 */
    const int c = k / 9 & ~1, channels = tl_min(g->chans, ((k + kc + 8) / 9 + 1) & ~1) - c, pairs = channels / 2;
    const int column = tl_patch_column(g, px), channel = g->in_p.c, turned = g->x.tap_in < 0;
    tl_pair *dst = (tl_pair *)px->pack + 2 * (9 * c - k);
    patch s;
    s.left = column >= 0 ? 0xffff : 0, s.right = column + 6 <= g->x.extent ? 0xffff : 0;
    in += c * channel + px->at[0] - px->col[0] + column;
    for (int ty = 0, row = px->row[0]; ty < 3; ++ty, row += g->y.tap_in, in += g->y.tap_in * g->in_p.h) {
        const int inside = (unsigned)row < (unsigned)g->y.extent;
        TL_ONE_POINTER(ty) /* a loop */
        s.at[ty] = inside ? in : zeros, s.at[ty + 3] = inside ? in + channel : zeros;
        s.step[ty] = s.step[ty + 3] = inside ? 2 * channel : 0;
    }
    gather(&s, pairs, dst, turned);
    if (channels % 2 == 0)
        return;
    for (int ty = 0; ty < 3; ++ty)
        s.at[ty] += pairs * s.step[ty], s.at[ty + 3] = zeros;
    gather(&s, 1, dst + 36 * pairs, turned);
}
