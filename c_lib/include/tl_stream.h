/* Tiles of tensors on their way between L2 and L1. With two buffers a stream, while all cores compute on one tile the
 * DMA brings the next and takes the last one away; with one buffer a tile waits for the one before. With three buffers
 * the one behind the next is asked for as well, so that the DMA never waits for the cores between two of them. What is
 * updated in place is two streams that share a buffer more: some come, one is worked on, one leaves. What is there
 * already, or stays for the next tile, does not move. Stream s is driven by core s; every core calls every function.
 *
 *     tl_tiles t;
 *     tl_tiles_open(&t, streams, lanes, shape);
 *     while (tl_tiles_next(&t))
 *         kernel(tl_tiles_at(&t, 0), tl_tiles_at(&t, 1));   all of its reads are there, what it writes will leave
 *
 * What the last tile wrote has arrived behind the next barrier, but for a stream that lingers: that has behind the
 * barrier after tl_tiles_left. */
#ifndef TL_STREAM_H
#define TL_STREAM_H
#include "tl_hal.h"

/* What one tile takes of one operand: planes x rows x row_bytes, dense in L1. Three words, each read from L2 once. */
typedef struct {
    int l2;        /* bytes from the operand's first one */
    int row_bytes; /* 0: the buffer holds it already (reads), or it stays for the next tile to add to (writes) */
    unsigned rows : 15, planes : 15, buffer : 2;
} tl_part;

/* The way of an operand through all tiles; operands that go the same way share it. */
typedef struct {
    int pitch, plane_pitch; /* bytes between rows, between planes in L2 */
    tl_part parts[];        /* one a tile */
} tl_way;

/* An operand that is streamed: where it lives, and its buffers. */
typedef struct {
    char *l2;
    char *l1;
    int second; /* bytes from one buffer to the next; 0 when there is one */
    const tl_way *way;
} tl_stream;

/* One stream at work, in L1: reading its tables, which lie in L2, takes some fifteen cycles a word. */
typedef struct tl_lane {
    char *at[4];          /* where tiles lie, by their number: slow cores may still read the one while another is set */
    struct tl_lane *more; /* the next one that the same core drives, or 0 */
    tl_stream home;
    int pitch, plane_pitch;
    /* While tile k is worked on: of odd and of even tiles, out of k - 1, or into k + 1 and perhaps k + 2. */
    tl_dma_t job[2];
    unsigned char under_way[2], leaves; /* leaves: it takes results away */
} tl_lane;

/* What all tiles of an operation have in common: two registers, as every word that eight cores read in L2 takes them
 * some seventy cycles. */
typedef struct {
    unsigned char tiles;
    unsigned char lingers; /* 1 and the stream that still leaves when the operation ends, which has one tile; or 0 */
    unsigned char reads, count; /* streams: the first ones come, the others leave; all */
    unsigned char ahead;        /* 1: more buffers than one, others come while a tile is worked on; 0: one by one */
    unsigned char cores;        /* of the team: asking for it takes longer */
    unsigned short early;       /* bit s: an operation before this one starts the first transfer of stream s */
} tl_shape;

/* What each core knows of the operation under way, on its own stack. */
typedef struct {
    tl_lane *lanes; /* one a stream, in L1, each written by the core that drives it */
    tl_lane *own;   /* the first one that this core drives, or 0 */
    tl_shape shape;
    int tile;
    char **at; /* the lanes' `at` of this tile */
} tl_tiles;

/* Start the first transfers of an operation yet to come, those of `early`; its lanes and these buffers are its own from
 * now on. */
void tl_tiles_early(const tl_stream *streams, tl_lane *lanes, unsigned early, int cores);

/* Start bringing the first tile, but for what is early. */
void tl_tiles_open(tl_tiles *t, const tl_stream *streams, tl_lane *lanes, tl_shape shape);

/* All cores are done with the tile before, whose results leave. If there is a further one, its reads are there, its
 * write buffers free, and the next is coming; 0 behind the last one. */
int tl_tiles_next(tl_tiles *t);

/* What an operation before this one left under way has arrived. */
void tl_tiles_left(tl_lane *lanes, int stream, int cores);

/* A core copies so many bytes from one place of the outer memory to another; word by word they would keep all cores. */
void tl_pass_on(void *to, const void *from, int bytes, int core);

/* The same with three buffers each: two tiles come while one is worked on. */
void tl_tiles_open_two(tl_tiles *t, const tl_stream *streams, tl_lane *lanes, tl_shape shape);
int tl_tiles_next_two(tl_tiles *t);

static inline void *tl_tiles_at(const tl_tiles *t, int stream)
{
    return *(char **)((char *)t->at + stream * (int)sizeof(tl_lane));
}
#endif
