/* The micro-kernel of halves: 32 multiply-adds for 8 loads, in 16 instructions where the machine has them. */
#include "tl_tile_pairs.h"

#define TL_PAIR_STEP 4
#ifdef TL_XF16AUXVEC
#include "tl_pairs_xpulp.inc"
#else
#include "tl_pairs_plain.inc"
#endif

/* Copies the part of a tile that is there; what begins anew is init, or zero. */
static void begin(const tl_panel_out *out, int row, float *q, int q_m)
{
    const int rows = tl_min(4, out->row_end - row);
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < out->cols; ++j) {
            const float *init = out->init ? out->init + (row + i) * out->i_m + out->i_n[j] : NULL;
            q[i * q_m + j] = !out->first ? out->c[(row + i) * out->c_m + out->c_n[j]] : init ? *init : 0.0f;
        }
}

static void end(const tl_panel_out *out, int row)
{
    const int rows = tl_min(4, out->row_end - row);
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < out->cols; ++j)
            out->c[(row + i) * out->c_m + out->c_n[j]] = out->tile[4 * i + j];
}

static void end_in_halves(const tl_panel_out *out, int row, const float *q)
{
    const int rows = tl_min(4, out->row_end - row);
    for (int i = 0; i < rows; ++i, q += 4) {
        tl_half *to = out->half + (row + i) * out->c_m;
        if (out->dense && out->cols == 4)
            tl_put_four(to + out->c_n[0], q);
        else
            for (int j = 0; j < out->cols; ++j)
                to[out->c_n[j]] = tl_to_half(q[j]);
    }
}

void tl_tile_pairs(const tl_panel_out *out, const tl_pair *a, const tl_pair *b, int pairs)
{
    float *sums = out->sums;
    for (int row = out->row; row < out->row_end; row += 4, a += TL_PAIRS_PANEL) {
        int aside = out->half || !(out->dense && out->cols == 4 && row + 4 <= out->row_end);
        TL_ONE_POINTER(aside) /* not two copies of the loops */
        float *q = out->half ? sums : aside ? out->tile : out->c + row * out->c_m + out->c_n[0];
        const int q_m = aside ? 4 : out->c_m;
        if (out->first && !out->init) {
            multiply(a, b, pairs, q, q_m);
        } else {
            if (out->first || (aside && !out->half))
                begin(out, row, q, q_m);
            multiply_on(a, b, pairs, q, q_m);
        }
        if (out->half && out->last)
            end_in_halves(out, row, q);
        else if (aside && !out->half)
            end(out, row);
        sums += out->sums == out->tile ? 0 : 16;
    }
}

static tl_pair pair_at(const tl_half *src, int s_k, int kc)
{
    return tl_pair_of(src[0], kc > 1 ? src[s_k] : 0);
}

void tl_pairs_pack(tl_pair *dst, const tl_half *src, int s_j, int s_k, int cols, int kc)
{
    if (cols == 4 && s_k == 1 && ((uintptr_t)src & 3) == 0 && s_j % 2 == 0) { /* pairs that are there already */
        const tl_pair *p0 = (const tl_pair *)src, *p1 = p0 + s_j / 2, *p2 = p1 + s_j / 2, *p3 = p2 + s_j / 2;
        for (; kc >= 4; kc -= 4, dst += 8, p0 += 2, p1 += 2, p2 += 2, p3 += 2) {
            const tl_pair a = p0[0], b = p1[0], c = p2[0], d = p3[0];
            const tl_pair e = p0[1], f = p1[1], g = p2[1], h = p3[1];
            dst[0] = a, dst[1] = b, dst[2] = c, dst[3] = d;
            dst[4] = e, dst[5] = f, dst[6] = g, dst[7] = h;
        }
        src = (const tl_half *)p0;
    }
    if (cols == 4) {
        const tl_half *s1 = src + s_j, *s2 = s1 + s_j, *s3 = s2 + s_j;
        for (; kc >= 2; kc -= 2, dst += 4) {
            dst[0] = tl_pair_of(src[0], src[s_k]), dst[1] = tl_pair_of(s1[0], s1[s_k]);
            dst[2] = tl_pair_of(s2[0], s2[s_k]), dst[3] = tl_pair_of(s3[0], s3[s_k]);
            src += 2 * s_k, s1 += 2 * s_k, s2 += 2 * s_k, s3 += 2 * s_k;
        }
    }
    for (; kc > 0; kc -= 2, src += 2 * s_k, dst += 4)
        for (int j = 0; j < 4; ++j)
            dst[j] = j < cols ? pair_at(src + j * s_j, s_k, kc) : 0;
}

void tl_pairs_round(tl_pair *dst, const float *src, int s_j, int s_k, int cols, int kc)
{
    for (; cols == 4 && kc >= 2; kc -= 2, src += 2 * s_k, dst += 4) {
        const float *s1 = src + s_j, *s2 = s1 + s_j, *s3 = s2 + s_j;
        const float a = src[0], b = src[s_k], c = s1[0], d = s1[s_k], e = s2[0], f = s2[s_k], g = s3[0], h = s3[s_k];
        dst[0] = tl_pair_rounded(a, b), dst[1] = tl_pair_rounded(c, d);
        dst[2] = tl_pair_rounded(e, f), dst[3] = tl_pair_rounded(g, h);
    }
    for (; kc > 0; kc -= 2, src += 2 * s_k, dst += 4)
        for (int j = 0; j < 4; ++j)
            dst[j] = j < cols ? tl_pair_rounded(src[j * s_j], kc > 1 ? src[j * s_j + s_k] : 0.0f) : 0;
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
