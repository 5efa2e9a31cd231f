/* The micro-kernel of halves: 32 multiply-adds for 8 loads, in 16 instructions where the machine has them. */
#include "tl_tile_pairs.h"

#ifdef TL_XF16AUXVEC
#include "tl_pairs_xpulp.inc"
#else
#define TL_PAIR_STEP 4
#include "tl_pairs_plain.inc"

void tl_pairs_multiply(tl_pairs_tiles *t)
{
    const char *from = (const char *)t->from;
    char *to = t->to;
    const int pairs = t->more + 1;
    for (const tl_pair *a = t->a; to != t->end; a += 4 * pairs + t->skip / 4) {
        float sums[16];
        for (int i = 0; i < 16; ++i)
            sums[i] = from ? ((const float *)(from + i / 4 * t->from_m))[t->same ? 0 : i % 4] : 0.0f;
        add_pairs(a, t->b, pairs, sums);
        for (int i = 0; i < 4; ++i, to += t->to_m)
            for (int j = 0; j < 4; ++j)
                if (t->stored != TL_PAIRS_FLOATS)
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
    tl_pairs_tiles t = {.a = a, .b = b, .more = pairs - 1, .skip = 4 * (panel - 4 * pairs)};
    for (int row = out->row, count; row < out->row_end; row += 4 * count) {
        const int whole = out->dense && out->cols == 4 ? (out->row_end - row) / 4 : 0;
        const int at = row * out->c_m + out->c_n[0], left = out->row_end - row, same = biased && left >= 4;
        count = init && !alike && !same ? 1 : unready ? (same ? left : left + 3) / 4 : whole > 1 ? whole : 1;
        t.to = out->tile, t.to_m = size, t.stored = TL_PAIRS_FLOATS;
        if (unready)
            t.to = sums;
        else if (whole && out->half)
            t.to = out->half + at, t.to_m = out->c_m * (int)sizeof(tl_half),
            t.stored = tl_pairs_halves_at(t.to, t.to_m);
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
        t.end = (char *)t.to + 4 * count * t.to_m;
        tl_pairs_multiply(&t);
        if (t.to_m == size && !unready && !whole)
            end(out, row);
        t.a += count * panel, sums += 16 * count;
    }
}

/* Tiles at a time that are partly outside, or do not lie row by row. Portable code has less of the stack to spare. */
#ifdef TL_XF16AUXVEC
enum { PARTS = 4 };
#else
enum { PARTS = 1 };
#endif

/* There and back element by element. */
static void begin_part(float *tile, const tl_pairs_lie *lie, const char *from, int rows, int cols)
{
    for (int i = 0; i < rows; ++i, from += lie->from_m)
        for (int j = 0; j < cols; ++j)
            tile[4 * i + j] = *(const float *)(from + j * lie->from_n);
}

static void end_part(const void *tile, const tl_pairs_lie *lie, char *to, int rows, int cols)
{
    const int next = lie->to_n;
    const char *from = tile;
    for (; rows > 0; --rows, to += lie->to_m, from += 4 * lie->size) {
        char *at = to;
        if (lie->size == sizeof(float))
            for (int j = 0; j < cols; ++j, at += next)
                *(float *)at = ((const float *)from)[j];
        else
            for (int j = 0; j < cols; ++j, at += next)
                *(tl_half *)at = ((const tl_half *)from)[j];
    }
}

void tl_pairs_part(tl_pairs_tiles *t, const tl_pairs_lie *lie, const char *from, char *to, int rows, int cols)
{
    const int panel = 4 * (t->more + 1) + t->skip / 4;
    float tile[16 * PARTS];
    t->same = 0, t->from_m = 4 * sizeof(float), t->to_m = 4 * lie->size;
    t->stored = lie->size == sizeof(float) ? TL_PAIRS_FLOATS : TL_PAIRS_WORDS;
    for (; rows > 0; rows -= 4 * PARTS) {
        const int some = tl_min(4 * PARTS, rows), count = (some + 3) / 4;
        if (from)
            begin_part(tile, lie, from, some, cols);
        t->from = from ? tile : NULL, t->to = tile, t->end = (char *)tile + 4 * count * t->to_m;
        tl_pairs_multiply(t);
        end_part(tile, lie, to, some, cols);
        t->a += count * panel, to += 4 * count * lie->to_m, from = from ? from + 4 * count * lie->from_m : NULL;
    }
}
