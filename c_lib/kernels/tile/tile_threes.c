/* The micro-kernel of weight gradients of halves by kernel rows. */
#include "tl_threes.h"

#ifdef TL_XF16AUXVEC
#include "tl_threes_xpulp.inc"
#else
static inline void multiply(const tl_threes *t)
{
    const tl_pair *gradients = t->gradients;
    float *w = t->w;
    for (int tile = 0; tile < t->tiles; ++tile, w += 4 * t->w_m) {
        const tl_pair *inputs = t->inputs;
        float sums[12];
        for (int i = 0; i < 12; ++i)
            sums[i] = t->afresh ? 0.0f : w[i / 3 * t->w_m + i % 3];
        for (int left = t->pairs; left > 0; --left, gradients += 4, inputs += 3) {
            float x0[3], x1[3];
            for (int j = 0; j < 3; ++j)
                x0[j] = tl_from_half((tl_half)inputs[j]), x1[j] = tl_from_half((tl_half)(inputs[j] >> 16));
            for (int i = 0; i < 4; ++i) {
                const float y0 = tl_from_half((tl_half)gradients[i]), y1 = tl_from_half((tl_half)(gradients[i] >> 16));
                for (int j = 0; j < 3; ++j)
                    sums[3 * i + j] += __builtin_fmaf(y1, x1[j], y0 * x0[j]);
            }
        }
        for (int i = 0; i < 12; ++i)
            w[i / 3 * t->w_m + i % 3] = sums[i];
    }
}
#endif

void tl_tile_threes(const tl_threes *t)
{
    multiply(t);
}
