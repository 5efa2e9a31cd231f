/* Panels of pairs: of four rows or columns of halves, or of floats, which are rounded. */
#ifdef TL_XF16AUXVEC
#include "tl_pack_xpulp.h"
#else
#include "tl_tile_pairs.h"

/* So many lines `apart` bytes apart, and the last one for those that are missing; terms `step` bytes apart; so many
 * pairs of terms. Returns where the panel goes on. */
static tl_pair *tl_pack_halves(tl_pair *to, const char *src, int apart, int lines, int step, int count)
{
    for (; count > 0; --count, src += 2 * step, to += 4)
        for (int j = 0; j < 4; ++j) {
            const char *at = src + tl_min(j, lines - 1) * apart;
            to[j] = tl_pair_at(at, at + step, 0);
        }
    return to;
}

static tl_pair *tl_pack_floats(tl_pair *to, const char *src, int apart, int lines, int step, int count)
{
    for (; count > 0; --count, src += 2 * step, to += 4)
        for (int j = 0; j < 4; ++j) {
            const char *at = src + tl_min(j, lines - 1) * apart;
            to[j] = tl_pair_at(at, at + step, 1);
        }
    return to;
}

/* Pairs that are there already, in words: terms one behind the other. */
static tl_pair *tl_pack_words(tl_pair *to, const char *src, int apart, int lines, int count)
{
    for (; count > 0; --count, src += 4, to += 4)
        for (int j = 0; j < 4; ++j)
            to[j] = *(const tl_pair *)(src + tl_min(j, lines - 1) * apart);
    return to;
}

/* Four lines side by side, in words: by two terms of two lines. */
static tl_pair *tl_pack_neighbours(tl_pair *to, const char *src, int step, int count)
{
    return tl_pack_halves(to, src, sizeof(tl_half), 4, step, count);
}
#endif

void tl_pairs_pack(tl_pair *dst, const tl_half *src, int s_j, int s_k, int cols, int kc)
{
    const int size = sizeof(tl_half), apart = s_j * size, step = s_k * size, even = ((uintptr_t)src & 3) == 0;
    if (kc >= 2) {
        if (even && s_k == 1 && s_j % 2 == 0)
            dst = tl_pack_words(dst, (const char *)src, apart, cols, kc / 2);
        else if (even && s_j == 1 && s_k % 2 == 0 && cols == 4)
            dst = tl_pack_neighbours(dst, (const char *)src, step, kc / 2);
        else
            dst = tl_pack_halves(dst, (const char *)src, apart, cols, step, kc / 2);
        src += kc / 2 * 2 * s_k;
    }
    for (int j = 0; kc % 2 && j < 4; ++j)
        dst[j] = src[tl_min(j, cols - 1) * s_j];
}

void tl_pairs_round(tl_pair *dst, const float *src, int s_j, int s_k, int cols, int kc)
{
    const int size = sizeof(float);
    if (kc >= 2) {
        dst = tl_pack_floats(dst, (const char *)src, s_j * size, cols, s_k * size, kc / 2);
        src += kc / 2 * 2 * s_k;
    }
    for (int j = 0; kc % 2 && j < 4; ++j)
        dst[j] = tl_pair_rounded(src[tl_min(j, cols - 1) * s_j], 0.0f);
}

void tl_pairs_of_terms(tl_half *panel, int kc)
{
    tl_pair *p = (tl_pair *)panel;
    if (kc % 2)
        p[2 * kc] = p[2 * kc + 1] = 0;
    for (; kc > 0; kc -= 2, p += 4) {
        const tl_pair a = p[0], b = p[1], c = p[2], d = p[3];
        p[0] = (a & 0xffffu) | c << 16, p[1] = a >> 16 | (c & 0xffff0000u);
        p[2] = (b & 0xffffu) | d << 16, p[3] = b >> 16 | (d & 0xffff0000u);
    }
}
