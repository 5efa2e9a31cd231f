/* The micro-kernels of convolutions over planes of halves. */
#define TL_HALVES
#include "tl_planes.h"

#ifdef TL_XF16AUXVEC
#include "tl_planes_xpulp.inc"
#else
/* `from` and `to`: elements between neighbouring outputs' inputs, and between these outputs. */
static inline __attribute__((always_inline)) void tile(const tl_planes_tile *t, int taps, int from, int to)
{
    const tl_pair *w = t->weights;
    for (int channel = 0; channel < 4 * t->tiles; channel += 4) {
        const float *start = t->start ? t->start + (t->alike ? 0 : channel) : NULL;
        const int out = channel * t->out_m;
        float sums[16];
        for (int i = 0; i < 16; ++i)
            sums[i] = start ? start[i / 4] : ((const float *)t->out)[out + i / 4 * t->out_m + i % 4 * to];
        for (int pair = 0; pair < t->pairs; ++pair)
            for (int tap = 0; tap < t->rows * taps; ++tap, w += 4) {
                const tl_pair *in = t->in + pair * t->plane + tap / taps * t->row + tap % taps;
                float x0[4], x1[4];
                for (int j = 0; j < 4; ++j)
                    x0[j] = tl_from_half((tl_half)in[from * j]), x1[j] = tl_from_half((tl_half)(in[from * j] >> 16));
                for (int i = 0; i < 4; ++i) {
                    const float w0 = tl_from_half((tl_half)w[i]), w1 = tl_from_half((tl_half)(w[i] >> 16));
                    for (int j = 0; j < 4; ++j)
                        sums[4 * i + j] += __builtin_fmaf(w1, x1[j], w0 * x0[j]);
                }
            }
        for (int i = 0; i < 16; ++i) {
            const int at = out + i / 4 * t->out_m + i % 4 * to;
            if (t->halves)
                ((tl_half *)t->out)[at] = tl_to_half(sums[i]);
            else
                ((float *)t->out)[at] = sums[i];
        }
    }
}

static void three(const tl_planes_tile *t)
{
    tile(t, 3, 1, 1);
}

static void three_from_twos(const tl_planes_tile *t)
{
    tile(t, 3, 2, 1);
}

static void two_to_twos(const tl_planes_tile *t)
{
    tile(t, 2, 1, 2);
}

static void one_to_twos(const tl_planes_tile *t)
{
    tile(t, 1, 1, 2);
}
#endif

void tl_planes_3(const tl_planes_tile *t)
{
    three(t);
}

void tl_planes_3_from_twos(const tl_planes_tile *t)
{
    three_from_twos(t);
}

void tl_planes_2_to_twos(const tl_planes_tile *t)
{
    two_to_twos(t);
}

void tl_planes_1_to_twos(const tl_planes_tile *t)
{
    one_to_twos(t);
}
