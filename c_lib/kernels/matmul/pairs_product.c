/* Products of operands in half precision, however they lie. The team packs the left operand, some tiles of rows at a
 * time and block by block of the terms, and the right one where its panels are few; else each core packs those that it
 * visits. Scratch: a panel a core, then those of the team, then the sums of halves that take several blocks. */
#include "tl_pairs_side.h"
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

static int row_tiles(const tl_matmul *p)
{
    return (p->m + 3) / 4;
}

/* Panels first .. end - 1, numbered through the batch, or halves of long ones. */
static void pack_all(tl_pair *dst, const tl_pairs_side *s, const chunk *c, int k_end, int first, int end)
{
    const int by = c->panel > TL_PAIRS_PANEL, parts = 1 << by; /* no division */
    const int terms = ((c->terms / 2 + parts - 1) >> by) * 2, each = (s->count + 3) / 4;
    int lo, hi;
    tl_split(parts * (end - first), 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int of_first = i >> by, part = i & (parts - 1), number = first + of_first, item = number / each;
        const int k = c->k + part * terms;
        if (k < tl_min(k_end, c->k + c->terms))
            tl_pairs_side_pack(dst + of_first * c->panel + 2 * part * terms, s, item, 4 * (number - item * each), k,
                               tl_min(terms, tl_min(k_end, c->k + c->terms) - k));
    }
}

/* Of this block of terms: what sums begin with, or NULL, and where they go, of the first row and column of all. */
typedef struct {
    const float *from;
    char *to;
    int from_b, to_b; /* bytes to the next item */
    int from_sums, to_sums;
    tl_pairs_lie lie;
} block;

static block block_of(const tl_matmul *p, const chunk *c)
{
    const int first = c->k == 0 && !p->accumulate, size = p->halves ? sizeof(tl_half) : sizeof(float),
              f = sizeof(float);
    block b = {.to_sums = p->halves && c->k + c->terms < p->k, .from_sums = p->halves && !first};
    b.to = p->halves ? (char *)p->c_f16 : (char *)p->c, b.to_b = size * p->c_b;
    b.lie = (tl_pairs_lie){.size = size, .to_m = size * p->c_m, .to_n = size * p->c_n};
    if (b.to_sums)
        b.lie.size = f, b.lie.to_m = 4 * f, b.lie.to_n = f;
    if (first)
        b.from = p->init, b.from_b = f * p->i_b, b.lie.from_m = f * p->i_m, b.lie.from_n = f * p->i_n;
    else if (b.from_sums)
        b.lie.from_m = 4 * f, b.lie.from_n = f;
    else
        b.from = p->c, b.from_b = b.to_b, b.lie.from_m = b.lie.to_m, b.lie.from_n = b.lie.to_n;
    return b;
}

/* So many tiles of rows from `first` on times four columns, the panel j of an item. */
static void panel(const tl_matmul *p, const chunk *c, const block *k, int item, int j, int first, int count)
{
    const int each = (p->n + 3) / 4, row = 4 * (c->shared ? first : first - item * row_tiles(p)), column = 4 * j;
    const int kc = tl_min(c->terms, p->k - c->k), number = item * each + j, cols = tl_min(4, p->n - column);
    tl_pair *const right = c->right + (c->together ? number * c->panel : 0);
    const tl_pairs_lie *lie = &k->lie;
    const char *from = (const char *)k->from;
    char *to = k->to + item * k->to_b + column * lie->to_n + row * lie->to_m;
    float *sums = c->sums + 16 * ((c->shared ? number : j) * c->most + first - c->first);
    if (from)
        from += item * k->from_b + column * lie->from_n + row * lie->from_m;
    if (!c->together) {
        const tl_pairs_side columns = tl_pairs_right(p);
        tl_pairs_side_pack(right, &columns, item, column, c->k, kc);
    }
    tl_pairs_column(lie, c->left + (first - c->first) * c->panel, c->panel, right, (kc + 1) / 2,
                    k->from_sums ? (const char *)sums : from, k->to_sums ? (char *)sums : to,
                    tl_min(4 * count, p->m - row), cols);
}

/* This core's share of the chunk's tiles, panel by panel of each batch item, or of all that have the same rows. */
static void share(const tl_matmul *p, const chunk *c)
{
    const int each = (p->n + 3) / 4, panels = c->shared ? p->batch * each : each, tiles = row_tiles(p);
    const block k = block_of(p, c);
    int lo, hi, item = c->first >= tiles ? c->first / tiles : 0;
    tl_split_among(tl_team(p->team), (c->end - c->first) * panels, 1, &lo, &hi);
    for (int from = c->first; from < c->end && hi > 0; ++item) {
        const int count = tl_min(c->end, (item + 1) * tiles) - from, all = count * panels;
        if (lo < all) {
            int j = lo > 0 ? lo / count : 0, first = tl_max(lo, 0) - j * count, of = item;
            for (int left = tl_min(hi, all) - tl_max(lo, 0), more; left > 0; left -= more, first = 0, ++j) {
                more = tl_min(count - first, left);
                if (j >= each) /* shared rows: of another item */
                    of += j / each, j %= each;
                panel(p, c, &k, of, j, from + first, more);
            }
        }
        from += count, lo -= all, hi -= all;
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
    chunk c = {.shared = shared, .terms = 2 * each, .panel = 4 * each, .together = panels < team};
    const tl_pairs_side rows = tl_pairs_left(p), columns = tl_pairs_right(p);
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
