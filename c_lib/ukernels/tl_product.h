/* Products of matrices; internal to c_lib/kernels. The work is cut into 4 x 4 tiles of c, numbered with the rows
 * fastest, and each core takes a contiguous range of them. How the operands lie is a literal after inlining: a kernel
 * for each. Scratch: up to two panels a core; a product that is split over its terms keeps the sums of its blocks
 * behind them. */
#ifndef TL_PRODUCT_H
#define TL_PRODUCT_H
#include "tl_dot.h"

#define TL_PRODUCT static inline __attribute__((always_inline))

/* The terms of a row are contiguous; four neighbouring rows (columns) are; the core packs what lies otherwise. */
enum { TL_ROWS, TL_PANELS, TL_PACKED };

TL_PRODUCT void tl_product_promises(const tl_matmul *p, int left, int right)
{
    TL_PROMISE(left == TL_ROWS ? p->a_k == 1 : left == TL_PANELS ? p->a_m == 1 : 1);
    TL_PROMISE(right == TL_PANELS ? p->b_n == 1 : 1);
    (void)p, (void)left, (void)right;
}

/* A core's panel for columns, and one for rows, of what does not lie as it is read or is not four: floats. */
TL_PRODUCT int tl_product_columns(const tl_matmul *p, int right)
{
    return right != TL_PANELS || p->n % 4 ? 4 * tl_min(TL_KC, p->k) : 0;
}

TL_PRODUCT int tl_product_panels(const tl_matmul *p, int left, int right)
{
    const int packs = left == TL_PACKED || (left == TL_PANELS && p->m % 4);
    return tl_product_columns(p, right) + (packs ? 4 * tl_min(TL_KC, p->k) : 0);
}

/* Tiles first .. last - 1 of one panel over one block. */
TL_PRODUCT void tl_product_left(const tl_matmul *p, const float *a, int first, int last, const float *b, int b_k,
                                int kc, float *pack, tl_panel_out *out, int left)
{
    const int end = tl_min(p->m, 4 * last), whole = left == TL_PANELS ? end - end % 4 : 4 * first;
    out->row = 4 * first;
    out->row_end = left == TL_ROWS ? end : whole;
    if (left == TL_ROWS) {
        tl_tile_rows(out, a + out->row * p->a_m, p->a_m, b, b_k, kc);
        return;
    }
    if (left == TL_PANELS)
        tl_tile_panel(out, a + out->row, 4, p->a_k, b, b_k, kc);
    for (out->row = whole; out->row < end; out->row += 4) {
        out->row_end = tl_min(end, out->row + 4);
        tl_tile_pack(pack, a + out->row * p->a_m, p->a_m, p->a_k, out->row_end - out->row, kc);
        tl_tile_panel(out, pack, 0, 4, b, b_k, kc);
    }
}

/* Tiles first .. last - 1 of the panel of four columns at n of one batch item, terms from k on. The last columns of
 * all, fewer than four, are always packed. */
TL_PRODUCT void tl_product_block(const tl_matmul *p, int b, int n, int first, int last, int k, float *pack,
                                 tl_panel_out *out, int left, int right)
{
    const int kc = tl_min(TL_KC, p->k - k), direct = right == TL_PANELS && out->cols == 4;
    const float *rows = p->a + b * p->a_b + k * p->a_k, *columns = p->b + b * p->b_b + n * p->b_n + k * p->b_k;
    if (!direct)
        tl_tile_pack(pack, columns, p->b_n, p->b_k, out->cols, kc);
    tl_product_left(p, rows, first, last, direct ? columns : pack, direct ? p->b_k : 4, kc,
                    pack + tl_product_columns(p, right), out, left);
}

TL_PRODUCT void tl_product_panel(const tl_matmul *p, int b, int n, int first, int last, float *pack, int left,
                                 int right)
{
    float tile[16];
    tl_panel_out out;
    int k = 0;
    out.c = p->c + b * p->c_b + n * p->c_n, out.c_m = p->c_m;
    out.init = p->init ? p->init + b * p->i_b + n * p->i_n : NULL, out.i_m = p->i_m;
    out.resume = out.pause = 0, out.tile = tile;
    for (int j = 0; j < 4; ++j)
        out.c_n[j] = j * p->c_n, out.i_n[j] = j * p->i_n;
    out.dense = p->c_n == 1;
    out.cols = tl_min(4, p->n - n);
    do {
        out.first = k == 0 && !p->accumulate;
        tl_product_block(p, b, n, first, last, k, pack, &out, left, right);
        k += TL_KC;
    } while (k < p->k);
}

TL_PRODUCT void tl_product(const tl_matmul *p, int left, int right)
{
    float *pack = (float *)p->scratch + tl_core_id() * tl_product_panels(p, left, right);
    const int tiles = (p->m + 3) / 4, panels = (p->n + 3) / 4;
    int lo, hi;
    tl_product_promises(p, left, right);
    tl_split_among(tl_team(p->team), p->batch * panels * tiles, 1, &lo, &hi);
    if (lo >= hi)
        return;
    int at = lo / tiles, first = lo - at * tiles; /* a division takes 35 cycles */
    for (int last; lo < hi; lo += last - first, first = 0, ++at) {
        const int b = p->batch == 1 ? 0 : at / panels;
        last = tl_min(tiles, first + hi - lo);
        tl_product_panel(p, b, (at - b * panels) * 4, first, last, pack, left, right);
    }
}

/* One block of one tile into part[16]. */
TL_PRODUCT void tl_product_part(const tl_matmul *p, int tile, int k, float *pack, float *part, int left, int right)
{
    const int tiles = (p->m + 3) / 4, panels = (p->n + 3) / 4, t = tile % tiles, at = tile / tiles, n = at % panels * 4;
    float edge[16];
    tl_panel_out out;
    out.c = part - 16 * t, out.c_m = 4, out.dense = out.first = 1;
    for (int j = 0; j < 4; ++j)
        out.c_n[j] = j;
    out.init = NULL, out.resume = out.pause = 0, out.tile = edge;
    out.cols = tl_min(4, p->n - n);
    tl_product_block(p, at / panels, n, t, t + 1, k, pack, &out, left, right);
}

/* Adds the blocks up in their order: each core for some elements. */
static inline void tl_product_sums(const tl_matmul *p, const float *part)
{
    const int tiles = (p->m + 3) / 4, panels = (p->n + 3) / 4, blocks = (p->k + TL_KC - 1) / TL_KC;
    int lo, hi;
    tl_split(p->batch * p->m * p->n, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const int n = item % p->n, m = item / p->n % p->m, b = item / p->n / p->m;
        const float *from = part + ((b * panels + n / 4) * tiles + m / 4) * blocks * 16 + m % 4 * 4 + n % 4;
        float total = tl_start_of(p, b, m, n);
        for (int i = 0; i < blocks; ++i)
            total += from[16 * i];
        p->c[b * p->c_b + m * p->c_m + n * p->c_n] = total;
    }
}

/* Few tiles and many terms: each core takes blocks of tiles, which are then added. */
TL_PRODUCT void tl_product_split(const tl_matmul *p, int left, int right)
{
    float *pack = (float *)p->scratch + tl_core_id() * tl_product_panels(p, left, right);
    const int tiles = (p->m + 3) / 4, panels = (p->n + 3) / 4, blocks = (p->k + TL_KC - 1) / TL_KC;
    const int team = tl_team(p->team);
    float *part = (float *)p->scratch + team * tl_product_panels(p, left, right);
    int lo, hi;
    tl_product_promises(p, left, right);
    tl_split_among(team, p->batch * panels * tiles * blocks, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item)
        tl_product_part(p, item / blocks, item % blocks * TL_KC, pack, part + 16 * item, left, right);
    tl_barrier();
    tl_product_sums(p, part);
}
#endif
