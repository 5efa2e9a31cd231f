/* Tiles of tensors on their way between L2 and L1, two buffers each: while all cores compute on one tile, the DMA
 * brings the next and takes the last one away. What is updated in place is two streams that share three buffers: one
 * comes, one is worked on, one leaves. Stream s is driven by core s; every core calls every function. */
#ifndef TL_STREAM_H
#define TL_STREAM_H
#include "tl_hal.h"

/* An operand that is streamed: where it lives, and its buffers. */
typedef struct {
    char *l2;
    char *l1;
    int second; /* bytes from one buffer to the next; 0 when there is one */
    int pitch;  /* bytes between rows, between planes in L2 */
    int plane_pitch;
    int writes; /* 0: brought in, 1: taken away */
} tl_stream;

/* What one tile takes of one operand: planes x rows x row_bytes, dense in L1. */
typedef struct {
    int l2; /* bytes from the operand's first one */
    int row_bytes;
    short rows, planes;
    signed char buffer; /* 0, 1 or 2 */
    signed char moves;  /* 0: the buffer holds it already (reads), or it stays for the next tile to add to (writes) */
} tl_part;

/* The first transfer of a stream, started by an operation before its own, when its second buffer is not there yet. */
typedef struct {
    tl_stream home;
    tl_part first;
    int stream;
} tl_early;

/* One stream at work, in L1: reading its tables, which lie in L2, takes some fifteen cycles a word. */
typedef struct {
    tl_stream home;
    char *at[2];  /* where even tiles lie, and odd ones: slow cores may still read the one while the other is set */
    tl_dma_t job; /* at most one transfer is under way: out of tile k - 2 or into tile k, while k - 1 is worked on */
    int under_way;
} tl_lane;

typedef struct {
    const tl_stream *streams;
    const tl_part *parts; /* [tiles][count] */
    int count, tiles;
    int ahead; /* 1: two buffers each, the next tile comes while one is worked on; 0: one buffer, one after the other */
    tl_lane *lanes; /* one a stream, in L1, each written by the core that drives it */
    int cores;      /* of the team: asking for it takes longer */
    unsigned early; /* bit s: an operation before has started the first transfer of stream s */
} tl_tiles;

/* Start the first transfers of an operation yet to come; its lanes and these buffers are its own from now on. */
void tl_tiles_early(tl_lane *lanes, const tl_early *early, int count, int cores);

void tl_tiles_open(const tl_tiles *t); /* start bringing tile 0, but for what is early */
/* All cores are done with the tile before, whose results leave; tile's reads are there, its write buffers free; the next
 * is coming. */
void tl_tiles_begin(const tl_tiles *t, int tile);
void tl_tiles_close(const tl_tiles *t); /* all results have arrived */

static inline void *tl_tiles_at(const tl_tiles *t, int stream, int tile)
{
    return t->lanes[stream].at[tile & 1];
}
#endif
