/* Weight gradient of a 1 x 1 kernel whose planes of x and dL/dy lie alike, by PULP's own instructions; internal to
 * c_lib/kernels. Both are read where they lie. Tiles, blocks and the order of sums are those of tl_conv_bw_w.h. */
#ifndef TL_CONV_BW_W_ROWS_H
#define TL_CONV_BW_W_ROWS_H
#include "tl_conv_bw_w.h"
#include "tl_tile_xpulp.h"

#ifdef TL_XPULP_TILES
static inline void tl_bw_w_rows(const tl_conv2d *a)
{
    const int tiles = a->co >> 2, panels = a->ci >> 2, plane = a->ho * a->wo, pitch = a->yp.c;
    int lo, hi;
    tl_split_among(tl_team(a->team), a->groups * panels * tiles, 1, &lo, &hi);
    for (int count; lo < hi; lo += count) {
        const int at = lo / tiles, first = lo - at * tiles, group = at / panels;
        const int channel = group * a->co + 4 * first;
        const float *x = a->x + 4 * at * pitch, *y = a->y + channel * pitch;
        float *w = a->w + channel * a->w_co + 4 * (at - group * panels);
        int set = !a->accumulate;
        count = tl_min(tiles - first, hi - lo);
        for (int n = 0; n < a->n; ++n, x += a->xp.n, y += a->yp.n) {
            for (int done = 0; done < plane; done += TL_KC, set = 0) {
                tl_tile_way way = {.to = w, .bytes = 4 * a->w_co, .end = set ? TL_SET : TL_ADD};
                way.terms = tl_min(TL_KC, plane - done);
                tl_onto(&way, w, way.bytes, 4);
                tl_xpulp_both(&way, y + done, x + done, pitch, count);
            }
        }
    }
}
#endif
#endif
