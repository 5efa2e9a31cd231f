/* One matrix of rows with contiguous terms times a vector, four or eight rows at a time. It has little code besides the
 * loop: tiles come back to it again and again, and eight cores that fetch new instructions wait for each other. */
#include "tl_dot.h"

#ifdef TL_XPULP_DOTS
/* Eight rows from m on: block by block onto what stands there. */
static inline void eight(const tl_matmul *p, const float *base, int i_step, int m)
{
    const float nothing = 0.0f, *from = base ? base + m * i_step : &nothing;
    const float *w = p->a + m * p->a_m, *x = p->b;
    float *to = p->c + m * p->c_m;
    int step = base ? i_step : 0;
    for (int k = p->k; k > 0; k -= TL_KC, x += TL_KC, from = to, step = p->c_m)
        w = tl_xpulp_eight_lines(to, p->c_m, from, step, w, p->a_m, 1, x, tl_min(TL_KC, k));
}
#endif

void tl_matmul_vector_f32(const tl_matmul *p)
{
    const float *base = p->accumulate ? p->c : p->init;
    const int i_step = p->accumulate ? p->c_m : p->i_m;
    int lo, hi;
    TL_PROMISE(p->batch == 1 && p->n == 1 && p->a_k == 1 && p->b_k == 1);
    tl_split(p->m, 1, &lo, &hi);
#ifdef TL_XPULP_DOTS
    for (; hi - lo >= 8; lo += 8)
        eight(p, base, i_step, lo);
#endif
    for (int rows; lo < hi; lo += rows) {
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        rows = tl_min(4, hi - lo);
        for (int i = 0; base && i < rows; ++i)
            sum[i] = base[(lo + i) * i_step];
        tl_dot_dense(sum, p->a + lo * p->a_m, p->a_m, rows, p->b, p->k);
        for (int i = 0; i < rows; ++i)
            p->c[(lo + i) * p->c_m] = sum[i];
    }
}
