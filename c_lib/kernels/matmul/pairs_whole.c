/* Products of operands in half precision whose terms are one block and whose rows the team packs at once; each core
 * packs the columns that it visits. What runs once a product is short, as cores wait for code that is not there yet.
 * Scratch: a panel of columns a core, then those of all rows. */
#include "tl_pairs_product.h"
#include "tl_pairs_side.h"
#include "tl_promise.h"

void tl_pairs_whole(const tl_matmul *p)
{
    const int pairs = (p->k + 1) / 2, panel = 4 * pairs, rows = (p->m + 3) / 4, columns = (p->n + 3) / 4;
    const int size = p->halves ? sizeof(tl_half) : sizeof(float), f = sizeof(float);
    const int apart = p->a_b ? rows : 0; /* panels of rows from item to item */
    const tl_pairs_side left = tl_pairs_left(p), right = tl_pairs_right(p);
    const char *const from = p->accumulate ? (const char *)p->c : (const char *)p->init;
    tl_pairs_lie lie = {size, size * p->c_m, size * p->c_n, f * p->i_m, f * p->i_n};
    int from_b = f * p->i_b, lo, hi, at, end;
    tl_pair *const own = (tl_pair *)p->scratch + tl_core_id() * panel;
    tl_pair *const all = (tl_pair *)p->scratch + tl_team(p->team) * panel;
    if (p->accumulate)
        lie.from_m = lie.to_m, lie.from_n = lie.to_n, from_b = size * p->c_b;
    tl_split(apart ? p->batch * rows : rows, 1, &lo, &hi);
    for (int item = lo / rows, i = lo - item * rows; lo < hi; ++lo, ++i) {
        if (i == rows)
            i = 0, ++item;
        tl_pairs_side_pack(all + lo * panel, &left, item, 4 * i, 0, p->k);
    }
    tl_split_among(tl_team(p->team), p->batch * columns * rows, 1, &at, &end);
    int number = at / rows, first = at - number * rows, item = number / columns, j = number - item * columns;
    tl_barrier();
    for (int count; at < end; at += count, first = 0, ++j) {
        if (j == columns)
            j = 0, ++item;
        count = tl_min(rows - first, end - at);
        tl_pairs_side_pack(own, &right, item, 4 * j, 0, p->k);
        tl_pairs_column(&lie, all + (item * apart + first) * panel, panel, own, pairs,
                        from ? from + item * from_b + 4 * (first * lie.from_m + j * lie.from_n) : NULL,
                        (char *)p->c + size * item * p->c_b + 4 * (first * lie.to_m + j * lie.to_n),
                        tl_min(4 * count, p->m - 4 * first), tl_min(4, p->n - 4 * j));
    }
}
