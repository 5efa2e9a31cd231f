/* Products of operands in half precision, however they lie. The team packs the left operand, some tiles of rows at a
 * time and block by block of the terms; each core packs the columns that it visits. Scratch: a panel a core, then those
 * of the team, then the sums of halves that take several blocks. */
#include "tl_tile_pairs.h"
#include "tl_pairs_product.h"

enum { MOST_TERMS = 128, TEAM_WORDS = 2048 }; /* twice as many of results in halves: no sums wait for further blocks */

/* Tiles first .. end - 1 of 4 rows, numbered through the batch unless all items have the same, and the block of terms from k on. */
typedef struct {
    int first, end, k;
    int shared;             /* all batch items have these rows */
    int most, terms, panel; /* tiles and terms at a time; words of four rows of these */
    tl_pair *left, *right;  /* the team's panels, the core's own */
    float *sums;
} chunk;

static int row_tiles(const tl_matmul *p)
{
    return (p->m + 3) / 4;
}

static void pack(tl_pair *dst, const tl_half *halves, const float *floats, int s_j, int s_k, int cols, int kc)
{
    if (floats)
        tl_pairs_round(dst, floats, s_j, s_k, cols, kc);
    else
        tl_pairs_pack(dst, halves, s_j, s_k, cols, kc);
}

/* Panels, or halves and quarters of longer ones. */
static void pack_left(const tl_matmul *p, const chunk *c)
{
    const int by = c->panel >= TL_PAIRS_PANEL ? 2 : c->panel >= TL_PAIRS_PANEL / 2, parts = 1 << by; /* no division */
    const int terms = ((c->terms / 2 + parts - 1) >> by) * 2;
    const int tiles = row_tiles(p), end = tl_min(p->k, c->k + c->terms);
    int lo, hi;
    tl_split(parts * (c->end - c->first), 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int of_first = i >> by, part = i & (parts - 1), tile = c->first + of_first, b = tile / tiles;
        const int m = 4 * (tile - b * tiles), k = c->k + part * terms, at = b * p->a_b + m * p->a_m + k * p->a_k;
        if (k < end)
            pack(c->left + of_first * c->panel + 2 * part * terms, p->a_f16 + at, p->floats & 1 ? p->a + at : NULL,
                 p->a_m, p->a_k, tl_min(4, p->m - m), tl_min(terms, end - k));
    }
}

/* Tiles of rows first .. end - 1 of the chunk times four columns, the panel numbered `column`, from n on. */
static void panel(const tl_matmul *p, const chunk *c, int b, int column, int n, int first, int end)
{
    const int kc = tl_min(c->terms, p->k - c->k), base = c->shared ? 0 : b * row_tiles(p);
    float tile[16];
    tl_panel_out out;
    out.c = p->c + b * p->c_b + n * p->c_n, out.c_m = p->c_m, out.dense = p->c_n == 1;
    out.init = p->init ? p->init + b * p->i_b + n * p->i_n : NULL, out.i_m = p->i_m;
    for (int j = 0; j < 4; ++j)
        out.c_n[j] = j * p->c_n, out.i_n[j] = j * p->i_n;
    out.cols = tl_min(4, p->n - n), out.tile = tile;
    out.first = c->k == 0 && !p->accumulate;
    out.half = p->halves ? p->c_f16 + b * p->c_b + n * p->c_n : NULL, out.last = c->k + kc == p->k;
    out.sums = p->k <= c->terms ? tile : c->sums + 16 * (column * c->most + first - c->first);
    out.row = 4 * (first - base), out.row_end = tl_min(p->m, 4 * (end - base));
    const int at = b * p->b_b + n * p->b_n + c->k * p->b_k;
    pack(c->right, p->b_f16 + at, p->floats & 2 ? p->b + at : NULL, p->b_n, p->b_k, out.cols, kc);
    tl_tile_pairs(&out, c->left + (first - c->first) * c->panel, c->panel, c->right, (kc + 1) / 2);
}

/* This core's share of the chunk's tiles, panel by panel of each batch item, or of all that have the same rows. */
static void share(const tl_matmul *p, const chunk *c)
{
    const int each = (p->n + 3) / 4, panels = c->shared ? p->batch * each : each, tiles = row_tiles(p);
    int lo, hi, b = c->shared ? 0 : c->first / tiles, from = c->first;
    tl_split_among(tl_team(p->team), (c->end - c->first) * panels, 1, &lo, &hi);
    for (int end; from < c->end; from = end, ++b) {
        const int count = (end = tl_min(c->end, (b + 1) * tiles)) - from, all = count * panels;
        for (int at = lo > 0 ? lo : 0, stop; at < tl_min(all, hi); at = stop) {
            const int column = at / count, first = at - column * count, item = c->shared ? column / each : b;
            stop = tl_min(tl_min(all, hi), (column + 1) * count);
            panel(p, c, item, column, 4 * (c->shared ? column - item * each : column), from + first,
                  from + first + stop - at);
        }
        lo -= all, hi -= all;
    }
}

void tl_pairs_product(const tl_matmul *p)
{
    const int shared = p->a_b == 0, tiles = (shared ? 1 : p->batch) * row_tiles(p), team = tl_team(p->team),
              pairs = (p->k + 1) / 2;
    const int most = MOST_TERMS / 2 << p->halves, words = TEAM_WORDS << p->halves;
    const int blocks = (pairs + most - 1) / most;
    const int each = blocks == 1 ? pairs : (pairs + blocks - 1) / blocks;
    chunk c = {.shared = shared, .terms = 2 * each, .panel = 4 * each};
    c.right = (tl_pair *)p->scratch + tl_core_id() * c.panel, c.left = (tl_pair *)p->scratch + team * c.panel;
    c.most = tl_min(tiles, p->tiles ? p->tiles : tiles);
    if (c.most * c.panel > words)
        c.most = words / c.panel;
    c.sums = (float *)(c.left + c.most * c.panel);
    for (c.first = 0; c.first < tiles; c.first = c.end) {
        c.end = tl_min(tiles, c.first + c.most);
        for (c.k = 0; c.k < p->k; c.k += c.terms) {
            pack_left(p, &c);
            tl_barrier();
            share(p, &c);
            tl_barrier();
        }
    }
}
