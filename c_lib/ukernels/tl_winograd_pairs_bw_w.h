/* Weight gradients of 3 x 3 convolutions of halves, of stride 1, by Winograd's F(3x3, 2x2) (tl_winograd_bw_w.h);
 * internal to c_lib/kernels.
 *
 * Sums go over tiles, and two tiles that follow each other are a pair: their transformed gradients, or inputs, lie in a
 * word, those of a last tile without a partner beside zeros. Both are added and subtracted as halves. For each row of
 * the transformed 4 x 4 the products of 4 x 4 channels are made, and the core that has the sums of a block of tiles
 * adds them to the weights. */
#ifndef TL_WINOGRAD_PAIRS_BW_W_H
#define TL_WINOGRAD_PAIRS_BW_W_H
#include "tl_winograd_pairs.h"
#include "tl_conv.h"

#define TL_WINOGRAD_PAIRS_BLOCK 64 /* tiles in a chain */

typedef struct {
    const tl_conv2d *a;
    int high, wide; /* tiles of an image */
    int row;        /* of the transformed 4 x 4 */
    int group;
    int out, outs;          /* channels of the gradients in z, the first one within its group */
    int in, ins;            /* and of the inputs in v */
    int begins;             /* the weights begin with this block */
    int tile, tiles, pairs; /* in z and v */
    int first, last, alone; /* sums of a block begin with these, are complete with them; always both */
    tl_pair *z;             /* [outs / 4][pairs][4 elements of the row][4 channels] */
    tl_pair *v;             /* [ins / 4][pairs][4 elements][4 channels] */
    float *m;               /* [4 elements][4 outs][4 ins], of each core, or of each unit where sums go on */
    tl_pair zeros[6];       /* outside of the image; constants lie in L2 */
} tl_winograd_pairs_bw_w;

/* Two rows of halves of one channel, and from there to the next channel: zeros where one is outside. */
typedef struct {
    const tl_half *p, *q;
    int p_next, q_next;
} tl_half_rows;

/* The sum of two pairs or their difference. */
#define TL_OF_BOTH(plus, a, b) ((plus) ? tl_pair_plus(a, b) : tl_pair_minus(a, b))

/* One of the transformed elements, of the first or the second tile of a pair; the first one comes first. */
static inline void tl_winograd_lane(tl_pair *to, int second, tl_pair element)
{
    *to = second ? (*to & 0xffff) | element << 16 : element & 0xffff;
}

/* Two pairs of tiles, `at`, fours of channels first .. first + count - 1. */
void tl_winograd_pairs_bw_w_gradients(const void *of, int at, int first, int count);
void tl_winograd_pairs_bw_w_inputs(const void *of, int at, int first, int count);
/* Four channels of gradients, `at`; fours of channels of inputs. Complete sums go to the weights. */
void tl_winograd_pairs_bw_w_products(const void *of, int at, int first, int count);
#endif
