/* The micro-kernel of halves: 32 multiply-adds for 8 loads, in 16 instructions where the machine has them. */
#include "tl_tile_pairs.h"

/* Tiles one below the other: panel after panel of a times the one of b. */
typedef struct {
    const tl_pair *a, *b;
    int pairs, skip; /* of a panel; bytes between two panels of a */
    int tiles;
    const float *from; /* what they begin with; NULL: zero */
    int same;          /* one number for each row */
    void *to;          /* floats, or halves */
    int from_m, to_m;  /* bytes from row to row */
    int halves;
} tl_pairs_tiles;

#ifdef TL_XF16AUXVEC
#include "tl_pairs_xpulp.inc"
#else
#define TL_PAIR_STEP 4
#include "tl_pairs_plain.inc"

static void multiply(tl_pairs_tiles *t)
{
    const char *from = (const char *)t->from;
    char *to = t->to;
    for (const tl_pair *a = t->a; t->tiles > 0; --t->tiles, a += 4 * t->pairs + t->skip / 4) {
        float sums[16];
        for (int i = 0; i < 16; ++i)
            sums[i] = from ? ((const float *)(from + i / 4 * t->from_m))[t->same ? 0 : i % 4] : 0.0f;
        add_pairs(a, t->b, t->pairs, sums);
        for (int i = 0; i < 4; ++i, to += t->to_m)
            for (int j = 0; j < 4; ++j)
                if (t->halves)
                    ((tl_half *)to)[j] = tl_to_half(sums[4 * i + j]);
                else
                    ((float *)to)[j] = sums[4 * i + j];
        from += from ? 4 * t->from_m : 0;
    }
}
#endif

/* Copies the part of a tile that is there; what begins anew is init. */
static void begin(const tl_panel_out *out, int row)
{
    const int rows = tl_min(4, out->row_end - row), m = out->first ? out->i_m : out->c_m;
    const int *n = out->first ? out->i_n : out->c_n;
    const float *from = (out->first ? out->init : out->c) + row * m;
    for (int i = 0; i < rows; ++i, from += m)
        for (int j = 0; j < out->cols; ++j)
            out->tile[4 * i + j] = from[n[j]];
}

static void end(const tl_panel_out *out, int row)
{
    const int rows = tl_min(4, out->row_end - row);
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < out->cols; ++j) {
            const int at = (row + i) * out->c_m + out->c_n[j];
            if (out->half)
                out->half[at] = tl_to_half(out->tile[4 * i + j]);
            else
                out->c[at] = out->tile[4 * i + j];
        }
}

void tl_tile_pairs(const tl_panel_out *out, const tl_pair *a, int panel, const tl_pair *b, int pairs)
{
    const int size = 4 * sizeof(float), init = out->first && out->init, unready = out->half && !out->last;
    const int alike = init && out->cols == 4 && out->i_n[3] == 3 && out->i_m == 0; /* rows begin with the same four */
    const int biased = init && out->i_m == 1 && out->i_n[3] == 0;                  /* each row by a number */
    float *sums = out->sums;
    tl_pairs_tiles t = {.a = a, .b = b, .pairs = pairs, .skip = 4 * (panel - 4 * pairs)};
    for (int row = out->row, count; row < out->row_end; row += 4 * count) {
        const int whole = out->dense && out->cols == 4 ? (out->row_end - row) / 4 : 0;
        const int at = row * out->c_m + out->c_n[0], left = out->row_end - row, same = biased && left >= 4;
        count = init && !alike && !same ? 1 : unready ? (same ? left : left + 3) / 4 : whole > 1 ? whole : 1;
        t.tiles = count, t.to = out->tile, t.to_m = size, t.halves = 0;
        if (unready)
            t.to = sums;
        else if (whole && out->half)
            t.to = out->half + at, t.to_m = out->c_m * (int)sizeof(tl_half), t.halves = 1;
        else if (whole)
            t.to = out->c + at, t.to_m = out->c_m * (int)sizeof(float);
        t.from = NULL, t.from_m = size, t.same = same;
        if (same)
            t.from = out->init + row, t.from_m = sizeof(float);
        else if (alike)
            t.from = out->init, t.from_m = 0;
        else if (init || (!out->first && !out->half && !whole))
            begin(out, row), t.from = out->tile;
        else if (!out->first && out->half)
            t.from = sums;
        else if (!out->first)
            t.from = t.to, t.from_m = t.to_m;
        multiply(&t);
        if (t.to_m == size && !unready && !whole)
            end(out, row);
        t.a += count * panel, sums += 16 * count;
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
