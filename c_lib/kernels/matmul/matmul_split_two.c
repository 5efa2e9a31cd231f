/* Matrices of few rows and many terms times two columns: each core takes blocks of four rows, which are then added in
 * their order. Scratch: eight sums a block. */
#include "tl_two.h"

void tl_matmul_split_two_f32(const tl_matmul *p)
{
    const int fours = (p->m + 3) / 4, blocks = (p->k + TL_KC - 1) / TL_KC;
    float *part = p->scratch;
    int lo, hi;
    TL_PROMISE(p->n == 2 && p->m >= 4);
    tl_split_among(tl_team(p->team), p->batch * fours * blocks, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const int four = item / blocks, b = four / fours;
        tl_two_block(p, b, 4 * (four - b * fours), (item - four * blocks) * TL_KC, part + 8 * item);
    }
    tl_barrier();
    tl_split(p->batch * p->m * 2, 1, &lo, &hi);
    for (int item = lo; item < hi; ++item) {
        const int n = item % 2, row = item / 2, b = row / p->m, m = row - b * p->m, four = m / 4;
        const int above = tl_max(0, 4 * four + 4 - p->m);
        const float *from = part + (b * fours + four) * blocks * 8 + 2 * (m - 4 * four + above) + n;
        float total = tl_start_of(p, b, m, n);
        for (int i = 0; i < blocks; ++i)
            total += from[8 * i];
        p->c[b * p->c_b + m * p->c_m + n * p->c_n] = total;
    }
}
