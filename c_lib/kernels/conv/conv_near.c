/* 3 x 3 taps of four neighbouring pixels: six neighbours of a row serve three taps. */
#include "tl_pixels.h"

/* The first column that a 3 x 3 patch of neighbours reads. */
static int patch_column(const tl_gather *g, const tl_pixels *px)
{
    return px->col[0] + tl_min(0, 2 * g->x.tap_in);
}

int tl_pixels_near(const tl_gather *g, const tl_pixels *px)
{
    const int column = patch_column(g, px), dx = g->x.tap_in;
    return g->y.taps == 3 && g->x.taps == 3 && (dx == 1 || dx == -1) && px->side_by_side && px->out.cols == 4 &&
           px->row[3] == px->row[0] && column >= -1 && column + 6 <= g->x.extent + 1;
}

/* One kernel row of a patch: six neighbours serve three taps. */
static inline __attribute__((always_inline)) void patch_row(const float *p, int left, int right, int turned, float *dst)
{
    const float x0 = left ? 0.0f : p[0], x1 = p[1], x2 = p[2], x3 = p[3], x4 = p[4], x5 = right ? 0.0f : p[5];
    float *first = turned ? dst + 8 : dst, *last = turned ? dst : dst + 8;
    first[0] = x0, first[1] = x1, first[2] = x2, first[3] = x3;
    dst[4] = x1, dst[5] = x2, dst[6] = x3, dst[7] = x4;
    last[0] = x2, last[1] = x3, last[2] = x4, last[3] = x5;
}

/* Whole channels of a 3 x 3 patch; those that the block cuts spill over into the slack. */
static inline __attribute__((always_inline)) void gather_near(const tl_gather *g, const tl_pixels *px, const float *in,
                                                              int k, int kc, int turned)
{
    const int c = k / 9, column = patch_column(g, px), pitch = g->y.tap_in * g->in_p.h;
    const int left = column<0, right = column + 6> g->x.extent, at = px->at[0] - px->col[0] + column;
    int hit[3];
    for (int ty = 0; ty < 3; ++ty)
        hit[ty] = (unsigned)(px->row[0] + ty * g->y.tap_in) < (unsigned)g->y.extent;
    in += c * g->in_p.c + at;
    for (float *dst = px->pack - 4 * (k - 9 * c), *end = px->pack + 4 * kc; dst < end; in += g->in_p.c) {
        const float *p = in;
        for (int ty = 0; ty < 3; ++ty, p += pitch, dst += 12) {
            if (hit[ty] && (left || right))
                patch_row(p, left, right, turned, dst);
            else if (hit[ty])
                patch_row(p, 0, 0, turned, dst);
            else
                for (int i = 0; i < 12; i += 4)
                    dst[i] = dst[i + 1] = dst[i + 2] = dst[i + 3] = 0.0f;
        }
    }
}

void tl_pixels_gather_near(const tl_gather *g, const tl_pixels *px, const float *in, int k, int kc)
{
    if (g->x.tap_in < 0)
        gather_near(g, px, in, k, kc, 1);
    else
        gather_near(g, px, in, k, kc, 0);
}
