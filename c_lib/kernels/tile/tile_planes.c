/* The micro-kernel of 3 x 3 kernels over planes of halves. */
#define TL_HALVES
#include "tl_planes.h"

#ifdef TL_XF16AUXVEC
#include "tl_planes_xpulp.inc"
#else
static inline __attribute__((always_inline)) void tile(const tl_planes_tile *t, int step)
{
    const tl_pair *w = t->weights, *plane = t->in;
    float sums[16];
    for (int i = 0; i < 16; ++i)
        sums[i] = t->out[i / 4 * t->out_m + i % 4];
    for (int pair = 0; pair < t->pairs; ++pair, plane += t->plane) {
        for (int tap = 0; tap < 9; ++tap, w += 4) {
            const tl_pair *in = plane + tap / 3 * t->row + tap % 3;
            float x0[4], x1[4];
            for (int j = 0; j < 4; ++j)
                x0[j] = tl_from_half((tl_half)in[step * j]), x1[j] = tl_from_half((tl_half)(in[step * j] >> 16));
            for (int i = 0; i < 4; ++i) {
                const float w0 = tl_from_half((tl_half)w[i]), w1 = tl_from_half((tl_half)(w[i] >> 16));
                for (int j = 0; j < 4; ++j)
                    sums[4 * i + j] += __builtin_fmaf(w1, x1[j], w0 * x0[j]);
            }
        }
    }
    for (int i = 0; i < 16; ++i)
        t->out[i / 4 * t->out_m + i % 4] = sums[i];
}

void tl_planes_tile_1(const tl_planes_tile *t)
{
    tile(t, 1);
}

void tl_planes_tile_2(const tl_planes_tile *t)
{
    tile(t, 2);
}
#endif
