/* Weight gradient of halves. The team packs dL/dy of up to 64 channels, block by block of the outputs; the tiles of 4
 * channels x 4 kernel columns are shared out, and each core packs what its columns meet. Scratch: a panel a core, then
 * those of the team. */
#define TL_HALVES
#include "tl_columns.h"

enum { MOST_TILES = 16 };

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

/* dst[4*i] = what outputs ox + 2*i and the next one of a row meet, up to output end - 1, of which lo .. hi - 1 are
 * inside; `from` belongs to output 0. */
static inline void pack_row(const tl_half *from, int ox, int end, int lo, int hi, int step, tl_pair *dst)
{
    for (; ox + 1 < lo; ox += 2, dst += 4)
        *dst = 0;
    if (ox < lo)
        *dst = tl_pair_of(0, from[lo * step]), ox += 2, dst += 4;
    const tl_half *p = from + ox * step;
    if (step == 1 && ((uintptr_t)p & 3) == 0) { /* pairs that are there already */
        for (; ox + 4 <= hi; ox += 4, dst += 8, p += 4)
            dst[0] = ((const tl_pair *)p)[0], dst[4] = ((const tl_pair *)p)[1];
    } else if (step == 1) {
        for (; ox + 4 <= hi; ox += 4, dst += 8, p += 4)
            dst[0] = tl_pair_of(p[0], p[1]), dst[4] = tl_pair_of(p[2], p[3]);
    }
    for (; ox + 2 <= hi; ox += 2, dst += 4, p += 2 * step)
        *dst = tl_pair_of(p[0], p[step]);
    if (ox < hi)
        *dst = tl_pair_of(p[0], 0), ox += 2, dst += 4;
    for (; ox < end; ox += 2, dst += 4)
        *dst = 0;
}

/* dst[4*i] = what outputs 2*i and 2*i + 1 from `at` on meet; rows have an even number of them. */
static void pack_column(const tl_conv2d *a, const tl_column *column, tl_output at, int kc, tl_pair *dst)
{
    const int down = a->stride_h * a->xp.h;
    for (; kc > 0; ++at.n, at.oy = 0) {
        const tl_half *from = a->x_f16 + column->base + at.n * a->xp.n + at.oy * down;
        int row = column->row + at.oy * a->stride_h;
        for (int more = a->ho - at.oy; more > 0 && kc > 0; --more, row += a->stride_h, from += down) {
            const int ox = at.ox, end = tl_min(a->wo, ox + kc), lo = column->lo > ox ? column->lo : ox;
            const int hi = (unsigned)row < (unsigned)a->h ? tl_min(column->hi, end) : 0;
            if (lo < hi)
                pack_row(from, ox, end, lo, hi, a->stride_w, dst);
            else
                for (int i = 0; i < end - ox; i += 2)
                    dst[2 * i] = 0;
            kc -= end - ox, dst += 2 * (end - ox), at.ox = 0;
        }
    }
}

/* What four columns meet, as pairs of outputs. */
static void pack_columns(const tl_conv2d *a, const tl_column *column, const chunk *c)
{
    for (int j = 0; j < 4; ++j) {
        tl_output from = c->from;
        if (a->wo % 2 == 0)
            pack_column(a, &column[j], from, c->kc, (tl_pair *)c->own + j);
        else
            tl_column_pack(a, &column[j], &from, c->kc, c->own + j);
    }
    if (a->wo % 2)
        TL_FINISH(c->own, c->kc);
}

static tl_output output(const tl_conv2d *a, int k)
{
    const int row = k / a->wo, n = row / a->ho;
    return (tl_output){n, row - n * a->ho, k - row * a->wo};
}

/* Whether so many outputs follow each other in dL/dy. */
static int contiguous(const tl_conv2d *a, tl_output at, int count)
{
    return at.ox + count <= a->wo || (a->yp.h == a->wo && at.oy * a->wo + at.ox + count <= a->ho * a->wo);
}

/* This core's share of the team's panels, by quarters of a block. */
static void pack(const tl_conv2d *a, const chunk *c)
{
    const int quarter = TL_KC / 4;
    int lo, hi;
    tl_split(4 * c->tiles, 1, &lo, &hi);
    for (int i = lo; i < hi; ++i) {
        const int channel = 4 * (c->first + i / 4), from = i % 4 * quarter, count = tl_min(quarter, c->kc - from);
        const int rows = tl_min(4, a->co - channel);
        const tl_output at = output(a, c->k + from);
        const tl_half *y = a->y_f16 + (c->group * a->co + channel) * a->yp.c;
        tl_half *dst = c->team + i * (TL_PANEL / 4);
        if (count <= 0)
            continue;
        if (contiguous(a, at, count)) {
            tl_pairs_pack((tl_pair *)dst, y + at.n * a->yp.n + at.oy * a->yp.h + at.ox, a->yp.c, 1, rows, count);
        } else {
            pack_tile(a, y, rows, at, count, dst);
            TL_FINISH(dst, count);
        }
    }
}

static void share(const tl_conv2d *a, const chunk *c)
{
    const int panels = (a->ci * a->kh * a->kw + 3) / 4;
    float tile[16];
    tl_panel_out out;
    int lo, hi;
    out.c = a->w + c->group * a->co * a->w_co, out.c_m = a->w_co, out.init = NULL, out.half = NULL,
    out.sums = out.tile = tile;
    tl_split_among(tl_team(a->team), panels * c->tiles, 1, &lo, &hi);
    out.first = c->k == 0 && !a->accumulate;
    for (int more; lo < hi; lo += more) {
        const int panel = lo / c->tiles, first = lo - panel * c->tiles;
        tl_column at[4];
        more = tl_min(c->tiles - first, hi - lo);
        tl_columns_of(a, c->group, 4 * panel, &out, at);
        pack_columns(a, at, c);
        out.row = 4 * (c->first + first), out.row_end = tl_min(a->co, out.row + 4 * more);
        tl_tile_pairs(&out, (const tl_pair *)c->team + first * TL_PAIRS_PANEL, TL_PAIRS_PANEL, (const tl_pair *)c->own,
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
