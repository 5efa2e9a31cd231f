/* Where the pixels of a panel read, and their inputs packed term by term. */
#include "tl_pixels.h"

enum { FEW = 4 }; /* taps that need no table */

/* The entries of taps first .. first + TL_KC - 1, beginning anew after the last tap. */
static void build_part(const tl_gather *g, tl_pixels *px, int first)
{
    int ty = first / g->x.taps, tx = first % g->x.taps;
    for (int i = 0; i < TL_KC; ++i) {
        const int dy = ty * g->y.tap_in, dx = tx * g->x.tap_in;
        const int mask =
            tl_inside(px->row, dy, g->y.extent, px->out.cols) & tl_inside(px->col, dx, g->x.extent, px->out.cols);
        px->table[i] = (dy * g->in_p.h + dx) * 64 + mask;
        if (++tx == g->x.taps)
            tx = 0, ++ty;
        if (ty == g->y.taps)
            ty = 0;
    }
    px->full = 0;
}

/* The first row of the table holds the masks of the columns until all other rows are done. */
static void build_masked(const tl_gather *g, const tl_pixels *px)
{
    const int taps = g->x.taps;
    for (int tx = 0; tx < taps; ++tx)
        px->table[tx] = tx * g->x.tap_in * 64 + tl_inside(px->col, tx * g->x.tap_in, g->x.extent, px->out.cols);
    for (int ty = g->y.taps - 1; ty >= 0; --ty) {
        const int shift = ty * g->y.tap_in, mask = tl_inside(px->row, shift, g->y.extent, px->out.cols);
        int *row = px->table + ty * taps;
        for (int tx = 0; tx < taps; ++tx)
            row[tx] = (px->table[tx] & (mask | ~63)) + shift * g->in_p.h * 64;
    }
}

/* Consecutive panels away from the border share their table. */
void tl_pixels_table(const tl_gather *g, tl_pixels *px)
{
    const int last_y = (g->y.taps - 1) * g->y.tap_in, last_x = (g->x.taps - 1) * g->x.tap_in, cols = px->out.cols;
    const int taps = g->y.taps * g->x.taps;
    int full;
    px->full = taps > 1 && taps <= FEW ? 0 : px->full;
    if (taps == 0 || taps > TL_KC || (taps > 1 && taps <= FEW))
        return;
    full = cols == 4 && (tl_inside(px->col, 0, g->x.extent, 4) & tl_inside(px->col, last_x, g->x.extent, 4) &
                         tl_inside(px->row, 0, g->y.extent, 4) & tl_inside(px->row, last_y, g->y.extent, 4)) == 15;
    if (taps > FEW && (!full || !px->full))
        build_masked(g, px);
    px->full = full;
}

/* Pixels p .. p + 3 in the order (n, row, column); those beyond the last repeat it and are masked out. */
void tl_pixels_locate(const tl_gather *g, int p, tl_pixels *px)
{
    int x = p % g->x.count, y = p / g->x.count % g->y.count, n = p / g->x.count / g->y.count;
    for (int j = 0; j < 4; ++j) {
        TL_ONE_POINTER(j) /* not four copies of this loop: cores wait for each other's code */
        px->row[j] = g->y.in0 + y * g->y.in_step;
        px->col[j] = g->x.in0 + x * g->x.in_step;
        px->at[j] = n * g->in_p.n + px->row[j] * g->in_p.h + px->col[j];
        px->out.c_n[j] = n * g->out_p.n + (g->y.out0 + y * g->y.out_step) * g->out_p.h + g->x.out0 + x * g->x.out_step;
        px->out.i_n[j] = 0;
        if (j + 1 >= px->out.cols)
            continue;
        if (++x == g->x.count)
            x = 0, ++y;
        if (y == g->y.count)
            y = 0, ++n;
    }
    px->side_by_side = px->at[3] == px->at[0] + 3 && px->at[1] == px->at[0] + 1 && px->at[2] == px->at[0] + 2;
    px->out.dense = px->out.c_n[3] == px->out.c_n[0] + 3 && px->out.c_n[1] == px->out.c_n[0] + 1;
}

static float load(const float *base, int bytes)
{
    return *(const float *)((const char *)base + bytes);
}

/* Taps table[0 .. count) of one channel; `in` is that channel of batch item 0. */
static void gather_masked(const tl_pixels *px, const float *in, const int *table, int count, float *dst)
{
    const float *in0 = in + px->at[0], *in1 = in + px->at[1], *in2 = in + px->at[2], *in3 = in + px->at[3];
    for (; count > 0; --count, dst += 4) {
        const int entry = *table++, off = entry >> 4;
        if ((entry & 15) == 15) {
            dst[0] = load(in0, off), dst[1] = load(in1, off), dst[2] = load(in2, off), dst[3] = load(in3, off);
        } else if ((entry & 15) == 0) {
            dst[0] = dst[1] = dst[2] = dst[3] = 0.0f;
        } else {
            dst[0] = entry & 1 ? load(in0, off) : 0.0f;
            dst[1] = entry & 2 ? load(in1, off) : 0.0f;
            dst[2] = entry & 4 ? load(in2, off) : 0.0f;
            dst[3] = entry & 8 ? load(in3, off) : 0.0f;
        }
    }
}

/* The same for pixels that are inside with all taps. */
static void gather_full(const tl_pixels *px, const float *in, const int *table, int count, float *dst)
{
    const float *in0 = in + px->at[0], *in1 = in + px->at[1], *in2 = in + px->at[2], *in3 = in + px->at[3];
    for (; count > 0; --count, dst += 4) {
        const int off = *table++ >> 4;
        dst[0] = load(in0, off), dst[1] = load(in1, off), dst[2] = load(in2, off), dst[3] = load(in3, off);
    }
}

/* The same for neighbours. */
static void gather_neighbours(const float *in, const int *table, int count, float *dst)
{
    for (; count > 0; --count, dst += 4) {
        const float *from = (const float *)((const char *)in + (*table++ >> 4));
        dst[0] = from[0], dst[1] = from[1], dst[2] = from[2], dst[3] = from[3];
    }
}

/* The channel of a term where there are few taps, without a division. */
static int channel_of(int term, int taps)
{
    return taps == 3 ? term / 3 : term >> (taps >> 1);
}

/* Few taps: one after the other through all channels of the block, by an address for each pixel. What is outside is one
 * zero, and stays where it is. */
static __attribute__((noinline)) void gather_few(const tl_gather *g, const tl_pixels *px, const float *in, int k,
                                                 int kc)
{
    const float zero = 0.0f; /* on the stack: constants lie in L2 */
    const int taps = g->y.taps * g->x.taps, c0 = channel_of(k, taps), c1 = channel_of(k + kc, taps);
    for (int tap = 0, ty = 0, tx = 0; tap < taps; ++tap) {
        const int dy = ty * g->y.tap_in, dx = tx * g->x.tap_in;
        const int first = c0 + (tap < k - c0 * taps);
        int count = c1 + (tap < k + kc - c1 * taps) - first, step[4];
        const float *from[4];
        float *dst = px->pack + 4 * (first * taps + tap - k);
        for (int j = 0; j < 4; ++j) {
            TL_ONE_POINTER(j)
            const int inside = j < px->out.cols && (unsigned)(px->row[j] + dy) < (unsigned)g->y.extent &&
                               (unsigned)(px->col[j] + dx) < (unsigned)g->x.extent;
            from[j] = inside ? in + px->at[j] + dy * g->in_p.h + dx + first * g->in_p.c : &zero;
            step[j] = inside ? g->in_p.c : 0;
        }
        const float *p0 = from[0], *p1 = from[1], *p2 = from[2], *p3 = from[3];
        for (; count > 0; --count, dst += 4 * taps) {
            dst[0] = *p0, dst[1] = *p1, dst[2] = *p2, dst[3] = *p3;
            p0 += step[0], p1 += step[1], p2 += step[2], p3 += step[3];
        }
        if (++tx == g->x.taps)
            tx = 0, ++ty;
    }
}

/* The inputs of terms k .. k + kc - 1 of the flat index (channel, ty, tx). */
void tl_pixels_gather(const tl_gather *g, tl_pixels *px, const float *in, int k, int kc)
{
    const int taps = g->y.taps * g->x.taps;
    if (taps <= FEW) {
        gather_few(g, px, in, k, kc);
        return;
    }
    const int c = k / taps;
    float *dst = px->pack;
    in += c * g->in_p.c;
    if (taps > TL_KC)
        build_part(g, px, k - c * taps);
    for (int tap = k - c * taps, done = 0; done < kc; tap = 0, in += g->in_p.c) {
        const int run = tl_min(taps - tap, kc - done), *table = px->table + (taps > TL_KC ? done : tap);
        if (!px->full)
            gather_masked(px, in, table, run, dst);
        else if (!px->side_by_side)
            gather_full(px, in, table, run, dst);
        else
            gather_neighbours(in + px->at[0], table, run, dst);
        done += run, dst += 4 * run;
    }
}
