/* Weight gradient of halves. The team packs dL/dy of up to 32 channels, block by block of the outputs; the tiles of 4
 * channels x 4 kernel columns are shared out, and each core packs what its columns meet. Scratch: a panel a core, then
 * those of the team. */
#define TL_HALVES
#include "tl_columns.h"

enum { MOST_TILES = 8 };

/* Tiles of channels first .. first + tiles - 1 of one group, and a block of outputs. */
typedef struct {
    int group, first, tiles, k, kc;
    tl_output from;
    tl_half *own, *team;
} chunk;

/* dst[kc][4] = dL/dy of four channels, or fewer. */
static void pack_tile(const tl_conv2d *a, const tl_half *y, int rows, tl_output at, int kc, tl_half *dst)
{
    for (int run; kc > 0; kc -= run) {
        const tl_half *from = y + at.n * a->yp.n + at.oy * a->yp.h + at.ox;
        run = tl_min(a->wo - at.ox, kc);
        tl_output_skip(a, run, &at);
        for (int i = 0; i < run; ++i, ++from, dst += 4)
            for (int j = 0; j < 4; ++j)
                dst[j] = j < rows ? from[j * a->yp.c] : 0;
    }
}

static tl_output output(const tl_conv2d *a, int k)
{
    const int row = k / a->wo, n = row / a->ho;
    return (tl_output){n, row - n * a->ho, k - row * a->wo};
}

/* This core's share of the team's panels, by quarters of a block. */
static void pack(const tl_conv2d *a, const chunk *c)
{
    const int quarter = TL_KC / 4;
    int lo, hi;
    tl_split(4 * c->tiles, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int channel = 4 * (c->first + i / 4), from = i % 4 * quarter, count = tl_min(quarter, c->kc - from);
        tl_half *dst = c->team + i * (TL_PANEL / 4);
        if (count <= 0)
            continue;
        pack_tile(a, a->y_f16 + (c->group * a->co + channel) * a->yp.c, a->co - channel, output(a, c->k + from), count,
                  dst);
        TL_FINISH(dst, count);
    }
}

static void share(const tl_conv2d *a, const chunk *c)
{
    const int panels = (a->ci * a->kh * a->kw + 3) / 4;
    float tile[16];
    tl_panel_out out;
    int lo, hi;
    out.c = a->w + c->group * a->co * a->w_co, out.c_m = a->w_co, out.init = NULL, out.tile = tile;
    tl_split_among(tl_team(a->team), panels * c->tiles, 1, &lo, &hi);
    out.first = c->k == 0 && !a->accumulate;
    for (int more; lo < hi; lo += more) {
        const int panel = lo / c->tiles, first = lo - panel * c->tiles;
        tl_column at[4];
        more = tl_min(c->tiles - first, hi - lo);
        tl_columns_of(a, c->group, 4 * panel, &out, at);
        for (int j = 0; j < 4; ++j) {
            tl_output from = c->from;
            tl_column_pack(a, &at[j], &from, c->kc, c->own + j);
        }
        TL_FINISH(c->own, c->kc);
        out.row = 4 * (c->first + first), out.row_end = tl_min(a->co, out.row + 4 * more);
        tl_tile_pairs(&out, (const tl_pair *)c->team + first * TL_PAIRS_PANEL, (const tl_pair *)c->own,
                      (c->kc + 1) / 2);
    }
}

void tl_conv2d_bw_w_f16(const tl_conv2d *a)
{
    const int terms = a->n * a->ho * a->wo, tiles = (a->co + 3) / 4;
    chunk c = {.own = (tl_half *)a->scratch + tl_core_id() * TL_PANEL};
    c.team = (tl_half *)a->scratch + tl_team(a->team) * TL_PANEL;
    for (c.group = 0; c.group < a->groups; ++c.group)
        for (c.first = 0; c.first < tiles; c.first += MOST_TILES) {
            c.tiles = tl_min(MOST_TILES, tiles - c.first);
            for (c.k = 0; c.k < terms; c.k += TL_KC) {
                c.kc = tl_min(TL_KC, terms - c.k), c.from = output(a, c.k);
                pack(a, &c);
                tl_barrier();
                share(a, &c);
                tl_barrier();
            }
        }
}
