/* Forward 3 x 3 convolution of neighbouring pixels whose terms are one block, over rows of whole fours of outputs, with
 * contiguous weights of whole tiles. By PULP's own instructions each core takes a contiguous range of fours, and copies
 * what some of a row meet, with zeros around: nothing is packed. Scratch of a core: that copy, or those of
 * tl_conv_share.h. */
#include "tl_conv_share.h"
#include "tl_met.h"
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
enum { MOST_FOURS = 8 }; /* of a row at a time */

static void share(const tl_conv2d *a)
{
    const int lines = 3 * a->ci, fours = a->wo / 4, own = lines * (4 * tl_min(fours, MOST_FOURS) + 2) + 2;
    float *met = (float *)a->scratch + tl_core_id() * own;
    int lo, hi;
    tl_split_among(tl_team(a->team), a->n * a->groups * a->ho * fours, 1, &lo, &hi);
    for (int run; lo < hi; lo += run) {
        const int line = lo / fours, first = lo - line * fours, image = line / a->ho, n = image / a->groups;
        const int group = image - n * a->groups, channel = group * a->co;
        const tl_output from = {n, line - image * a->ho, 4 * first};
        run = tl_min(tl_min(fours - first, hi - lo), MOST_FOURS);
        const int pitch = 4 * run + 2;
        for (int c = 0; c < a->ci; ++c)
            tl_met_copy(a, a->x + (group * a->ci + c) * a->xp.c, from, 1, pitch, met + 3 * c * pitch);
        float *y = a->y + n * a->yp.n + channel * a->yp.c + from.oy * a->yp.h + from.ox;
        const float *base = a->bias && !a->accumulate ? a->bias + channel : NULL;
        for (int i = 0; i < 4 * run; i += 4, y += 4) {
            tl_tile_way way = {.to = y, .bytes = 4 * a->yp.c, .end = base || a->accumulate ? TL_ADD : TL_SET};
            tl_onto(&way, base ? base : y, base ? 4 : way.bytes, base ? 0 : 4);
            tl_xpulp_near(&way, a->w + channel * a->w_co, a->w_co, met + i, pitch, lines, a->co / 4);
        }
    }
}
#endif

void tl_conv2d_fw_3x3_block_f32(const tl_conv2d *a)
{
    TL_PROMISE(a->wo % 4 == 0 && a->co % 4 == 0 && 9 * a->ci <= TL_KC && a->stride_h == 1 && a->dil_h == 1);
    TL_PROMISE(a->w_ci == 9);
#ifdef TL_XPULP_TILES
    share(a);
#else
    tl_conv_fw(a, TL_NEAR, TL_DENSE);
#endif
}
