/* Matrices times two columns: each core takes a range of rows, four at a time. */
#include "tl_two.h"

/* Rows of a block are added to what they begin with. */
static inline void add(const float *sum, int rows, const float *from, int from_m, int from_n, float *c, int c_m,
                       int c_n)
{
    for (; rows > 0; --rows, sum += 2, from += from_m, c += c_m) {
        const float first = from[0] + sum[0], second = from[from_n] + sum[1];
        c[0] = first, c[c_n] = second;
    }
}

void tl_matmul_two_f32(const tl_matmul *p)
{
    const float zero = 0.0f, *none = &zero; /* on the stack: constants lie in L2 */
    const int fours = (p->m + 3) / 4;
    int lo, hi;
    TL_PROMISE(p->n == 2 && p->m >= 4 && p->k > 0);
    tl_split_among(tl_team(p->team), p->batch * fours, 1, &lo, &hi);
    int b = lo / fours, m = 4 * (lo - b * fours);
    for (; lo < hi; ++lo) {
        float sum[8], *c = p->c + b * p->c_b + m * p->c_m;
        for (int k = 0; k < p->k; k += TL_KC) {
            const int above = tl_two_block(p, b, m, k, sum);
            const float *s = sum + 2 * above;
            if (p->accumulate || k > 0)
                add(s, 4 - above, c, p->c_m, p->c_n, c, p->c_m, p->c_n);
            else if (p->init)
                add(s, 4 - above, p->init + b * p->i_b + m * p->i_m, p->i_m, p->i_n, c, p->c_m, p->c_n);
            else
                add(s, 4 - above, none, 0, 0, c, p->c_m, p->c_n);
        }
        m += 4;
        if (m >= p->m)
            m = 0, ++b;
    }
}
