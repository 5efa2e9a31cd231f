/* What Winograd's convolutions and their weight gradients share; internal to c_lib/kernels. */
#ifndef TL_WINOGRAD_TILES_H
#define TL_WINOGRAD_TILES_H

/* A tile of 2 x 2 outputs; they are numbered row by row, image by image. */
typedef struct {
    int n, y, x;
} tl_tile_at;

static inline tl_tile_at tl_tile_of(int tile, int high, int wide)
{
    const int row = tile / wide;
    return (tl_tile_at){row / high, row % high, tile - row * wide};
}

static inline void tl_next_tile(tl_tile_at *at, int high, int wide)
{
    if (++at->x == wide)
        at->x = 0, ++at->y;
    if (at->y == high)
        at->y = 0, ++at->n;
}

/* Two rows of an image, p + sign * q, channel by channel; outside of it zeros that stay where they are. */
typedef struct {
    const float *p, *q;
    int p_step, q_step; /* to the next channel */
    float sign;
} tl_two_rows;

/* The first two rows of a transform: those that make row `row` of B' d, for a tile whose first input is `in`, in row y
 * of an image of so many rows, `pitch` apart. */
void tl_winograd_rows(tl_two_rows *of, const float *in, int y, int row, int extent, int pitch);

/* Items of `each` for every one of so many pieces: items first .. first + count - 1 of piece `at`. */
typedef void (*tl_winograd_work)(const void *t, int at, int first, int count);

/* This core's share of all items. */
void tl_winograd_share(const void *t, int pieces, int each, tl_winograd_work work);

/* Chains of fused multiply-adds, m[i][4][4] = sum over terms of u[i][term][4] * v[term][4], rows of four 16 elements
 * apart, u[i] and u[i + 1] u_step; of so many elements of a row, four further on in u and v, one after the other in m.
 * Those that are `resumed` go on from what is in m. */
void tl_winograd_chains(const float *u, int u_step, const float *v, float *m, int count, int terms, int elements);
void tl_winograd_chains_resumed(const float *u, int u_step, const float *v, float *m, int count, int terms);
#endif
