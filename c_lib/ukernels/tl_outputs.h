/* The outputs that a weight gradient adds up, block by block; internal to c_lib/kernels. A block is as many whole rows
 * of an image as have 64 outputs at most, or 64 of a longer row. Kernels with one tap see an image as one row. */
#ifndef TL_OUTPUTS_H
#define TL_OUTPUTS_H
#include "tl_block.h"
#include "tl_conv.h"

/* An output. */
typedef struct {
    int n, oy, ox;
} tl_output;

/* `run` outputs further on, within a row. */
static inline void tl_output_skip(const tl_conv2d *a, int run, tl_output *at)
{
    at->ox += run;
    if (at->ox == a->wo)
        at->ox = 0, ++at->oy;
    if (at->oy == a->ho)
        at->oy = 0, ++at->n;
}

/* The blocks of an image: of so many rows, or several of a row. */
typedef struct {
    int row, height; /* outputs of a row, and rows, of what counts as one */
    int rows, across, image;
} tl_blocks;

static inline tl_blocks tl_blocks_of(const tl_conv2d *a)
{
    tl_blocks b = {a->wo, a->ho, 1, 1, 0};
    if (a->kh * a->kw == 1)
        b.row = a->ho * a->wo, b.height = 1;
    if (b.row > TL_KC)
        b.across = (b.row + TL_KC - 1) / TL_KC;
    else if (b.height > 1 && b.row > 0)
        b.rows = TL_KC / b.row;
    b.image = (b.height + b.rows - 1) / b.rows * b.across;
    return b;
}

/* Outputs of the block that begins at one. */
static inline int tl_block_size(const tl_conv2d *a, const tl_blocks *b, const tl_output *at)
{
    const int done = b->height < a->ho ? at->oy * a->wo + at->ox : at->ox, rest = b->row - done;
    const int rows = a->ho - at->oy < b->rows ? a->ho - at->oy : b->rows;
    return b->across == 1 ? rows * b->row : rest < TL_KC ? rest : TL_KC;
}

/* Where block `index` of all images begins. */
static inline tl_output tl_block_at(const tl_conv2d *a, const tl_blocks *b, int index)
{
    const int n = index / b->image, in_image = index - n * b->image, row = in_image / b->across;
    tl_output at = {n, row * b->rows, (in_image - row * b->across) * TL_KC};
    if (b->height < a->ho)
        at.oy = at.ox / a->wo, at.ox -= at.oy * a->wo;
    return at;
}
#endif
