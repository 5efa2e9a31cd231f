/* Rows of w on their way through scratch, where w does not fit the inner memory; internal to c_lib/kernels.
 *
 * A block of rows lies dense in one of two buffers, with which scratch begins. While all cores work on it the next one
 * comes, behind the last block of a step the first one of the next. Core 0 starts and awaits the transfers. At the
 * barrier where a block begins everyone is done with the block before, whose buffer is then free. */
#ifndef TL_BROUGHT_H
#define TL_BROUGHT_H
#include "tl_moment.h"

typedef struct {
    tl_dma_t job;
    int rows; /* of w */
    int left; /* blocks that are not on their way yet */
    int next; /* the first row of the one that is started next */
    int at;   /* the buffer of the block that is worked on next */
} feed;

INLINE float *buffer_of(const tl_recurrent *a, int at)
{
    return a->scratch + at * a->rows * a->hidden;
}

/* What lies in scratch behind the buffers. */
INLINE float *behind(const tl_recurrent *a)
{
    return buffer_of(a, 2);
}

static inline void bring(const tl_recurrent *a, feed *f)
{
    const int n = a->hidden, count = smaller(a->rows, f->rows - f->next);
    const size_t bytes = (size_t)(count * n) * sizeof(float);
    tl_dma_in(&f->job, buffer_of(a, f->at), a->w + f->next * n, bytes, 1, bytes);
    f->next = f->next + count < f->rows ? f->next + count : 0;
    f->left--;
}

/* All of w will be wanted `times` times. */
APART void open_feed(const tl_recurrent *a, feed *f, int gates, int times)
{
    f->rows = gates * a->hidden;
    f->left = times * ((f->rows + a->rows - 1) / a->rows);
    f->next = f->at = 0;
    if (tl_core_id() == 0 && f->left)
        bring(a, f);
}

/* The next block is there, for all cores. */
APART const float *next_block(const tl_recurrent *a, feed *f)
{
    const float *block = buffer_of(a, f->at);
    f->at ^= 1;
    if (tl_core_id() == 0)
        tl_dma_wait(&f->job);
    tl_barrier();
    if (tl_core_id() == 0 && f->left)
        bring(a, f);
    return block;
}
#endif
