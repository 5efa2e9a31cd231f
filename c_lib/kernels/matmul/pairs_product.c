/* Products of operands in half precision, however they lie. The team packs the left operand, some tiles of rows at a
 * time and block by block of the terms, and the right one where cores would share few panels of columns
 * unevenly; else each core packs those that it visits. Scratch: a panel a core, then those of the team, then the sums
 * of halves that take several blocks. */
#include "tl_tile_pairs.h"
#include "tl_pairs_product.h"

enum { MOST_TERMS = 128, TEAM_WORDS = 2048 }; /* twice as many of results in halves: no sums wait for further blocks */

/* Tiles first .. end - 1 of 4 rows, numbered through the batch unless all items have the same, and the block of terms
 * from k on. */
typedef struct {
    int first, end, k;
    int shared;             /* all batch items have these rows */
    int most, terms, panel; /* tiles and terms at a time; words of four rows of these */
    tl_pair *left, *right;  /* the team's panels; the core's own or, if `together`, the team's */
    int together;
    float *sums;
} chunk;

/* An operand: what four rows or columns of make a panel. */
typedef struct {
    const tl_half *halves;
    const float *floats;          /* instead, or NULL */
    int count, batch, step, term; /* rows or columns; elements to the next item, row or column, and term */
} side;

static side left_of(const tl_matmul *p)
{
    return (side){p->a_f16, p->floats & 1 ? p->a : NULL, p->m, p->a_b, p->a_m, p->a_k};
}

static side right_of(const tl_matmul *p)
{
    return (side){p->b_f16, p->floats & 2 ? p->b : NULL, p->n, p->b_b, p->b_n, p->b_k};
}

static int row_tiles(const tl_matmul *p)
{
    return (p->m + 3) / 4;
}

/* From row or column `at` and term k of an item on. */
static void pack(tl_pair *dst, const side *s, int item, int at, int k, int terms)
{
    const int first = item * s->batch + at * s->step + k * s->term, cols = tl_min(4, s->count - at);
    if (s->floats)
        tl_pairs_round(dst, s->floats + first, s->step, s->term, cols, terms);
    else
        tl_pairs_pack(dst, s->halves + first, s->step, s->term, cols, terms);
}

/* Panels first .. end - 1, numbered through the batch, or halves and quarters of longer ones. */
static void pack_all(tl_pair *dst, const side *s, const chunk *c, int k_end, int first, int end)
{
    const int by = c->panel >= TL_PAIRS_PANEL ? 2 : c->panel >= TL_PAIRS_PANEL / 2, parts = 1 << by; /* no division */
    const int terms = ((c->terms / 2 + parts - 1) >> by) * 2, each = (s->count + 3) / 4;
    int lo, hi;
    tl_split(parts * (end - first), 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int of_first = i >> by, part = i & (parts - 1), number = first + of_first, item = number / each;
        const int k = c->k + part * terms;
        if (k < tl_min(k_end, c->k + c->terms))
            pack(dst + of_first * c->panel + 2 * part * terms, s, item, 4 * (number - item * each), k,
                 tl_min(terms, tl_min(k_end, c->k + c->terms) - k));
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
    tl_pair *const right = c->right + (c->together ? column * c->panel : 0);
    const side columns = right_of(p);
    if (!c->together)
        pack(right, &columns, b, n, c->k, kc);
    tl_tile_pairs(&out, c->left + (first - c->first) * c->panel, c->panel, right, (kc + 1) / 2);
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
    const int panels = p->batch * ((p->n + 3) / 4);
    chunk c = {
        .shared = shared, .terms = 2 * each, .panel = 4 * each, .together = shared && panels < team && team % panels};
    const side rows = left_of(p), columns = right_of(p);
    c.right = (tl_pair *)p->scratch + (c.together ? 0 : tl_core_id() * c.panel);
    c.left = (tl_pair *)p->scratch + team * c.panel;
    c.most = tl_min(tiles, p->tiles ? p->tiles : tiles);
    if (c.most * c.panel > words)
        c.most = words / c.panel;
    c.sums = (float *)(c.left + c.most * c.panel);
    for (c.first = 0; c.first < tiles; c.first = c.end) {
        c.end = tl_min(tiles, c.first + c.most);
        for (c.k = 0; c.k < p->k; c.k += c.terms) {
            pack_all(c.left, &rows, &c, p->k, c.first, c.end);
            if (c.together)
                pack_all(c.right, &columns, &c, p->k, 0, panels);
            tl_barrier();
            share(p, &c);
            tl_barrier();
        }
    }
}
