/* Products of operands in half precision whose terms are one block and whose rows the team packs at once; each core
 * packs the columns that it visits. What runs once a product is short, as cores wait for code that is not there yet.
 * Scratch: a panel of columns a core, then those of all rows. */
#include "tl_pairs_product.h"
#include "tl_pairs_side.h"

void tl_pairs_whole(const tl_matmul *p)
{
    const int pairs = (p->k + 1) >> 1, panel = 4 * pairs, rows = (p->m + 3) >> 2, columns = (p->n + 3) >> 2;
    const int size = p->halves ? sizeof(tl_half) : sizeof(float), f = sizeof(float), team = tl_team(p->team);
    const int times = p->a_b ? p->batch : 1; /* as many items have rows of their own */
    const char *const from = p->accumulate ? (const char *)p->c : (const char *)p->init;
    tl_pairs_lie lie = {size, size * p->c_m, size * p->c_n, f * p->i_m, f * p->i_n};
    tl_pair *const own = (tl_pair *)p->scratch + tl_core_id() * panel;
    tl_pair *const all = (tl_pair *)p->scratch + team * panel;
    int from_b = f * p->i_b, lo, hi, at, end, number, item = 0;
    if (p->accumulate)
        lie.from_m = lie.to_m, lie.from_n = lie.to_n, from_b = size * p->c_b;
    tl_split(times * rows, 1, &lo, &hi);
    number = lo;
    if (times > 1)
        item = lo / rows, number -= item * rows;
    for (; lo < hi; ++lo, ++number) {
        const tl_pairs_side left = tl_pairs_left(p);
        if (number == rows)
            number = 0, ++item;
        tl_pairs_side_pack(all + lo * panel, &left, item, 4 * number, 0, p->k);
    }
    tl_split_among(team, p->batch * columns * rows, 1, &at, &end);
    int j = at / rows, first = at - j * rows;
    item = 0;
    if (p->batch > 1)
        item = j / columns, j -= item * columns;
    tl_barrier();
    for (int count; at < end; at += count, first = 0, ++j) {
        const tl_pairs_side right = tl_pairs_right(p);
        if (j == columns)
            j = 0, ++item;
        count = tl_min(rows - first, end - at);
        tl_pairs_side_pack(own, &right, item, 4 * j, 0, p->k);
        tl_pairs_column(&lie, all + ((times > 1 ? item * rows : 0) + first) * panel, panel, own, pairs,
                        from ? from + item * from_b + 4 * (first * lie.from_m + j * lie.from_n) : NULL,
                        (char *)p->c + size * item * p->c_b + 4 * (first * lie.to_m + j * lie.to_n),
                        tl_min(4 * count, p->m - 4 * first), tl_min(4, p->n - 4 * j));
    }
}
