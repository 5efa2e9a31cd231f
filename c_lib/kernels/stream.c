/* Tiles on their way between L2 and L1. What a tile costs beside its work is mostly the way through here of the core
 * that drives a stream: one call a tile, inlined but for what is rare. */
#include "tl_stream.h"

enum { NONE = -1 }; /* no tile */

/* Several planes: those but the last are awaited at once, as there is one job a stream. */
static __attribute__((noinline)) void planes(tl_lane *lane, const tl_part *p, char *l2, char *l1, int leaves)
{
    for (unsigned i = 0; i < p->planes; i++) {
        if (i)
            tl_dma_wait(&lane->job);
        if (leaves)
            tl_dma_out(&lane->job, l2, l1, (size_t)p->row_bytes, p->rows, (size_t)lane->pitch);
        else
            tl_dma_in(&lane->job, l1, l2, (size_t)p->row_bytes, p->rows, (size_t)lane->pitch);
        l1 += p->row_bytes * (int)p->rows, l2 += lane->plane_pitch;
    }
}

static inline void await(tl_lane *lane)
{
    if (!lane->under_way)
        return;
    lane->under_way = 0;
    tl_dma_wait(&lane->job);
}

/* What tile `next` reads comes. What is last here and in `leave` needs no frame on the stack. */
static __attribute__((noinline)) void fetch(tl_lane *lane, int next)
{
    const tl_part *at = &lane->home.way->parts[next], p = *at;
    char *l2 = lane->home.l2 + p.l2, *l1 = lane->home.l1 + (int)p.buffer * lane->home.second;
    lane->at[next & 1] = l1;
    if (!p.row_bytes)
        return;
    lane->under_way = 1;
    if (p.planes > 1)
        planes(lane, at, l2, l1, 0);
    else
        tl_dma_in(&lane->job, l1, l2, (size_t)p.row_bytes, p.rows, (size_t)lane->pitch);
}

/* What tile `done` computed leaves, and tile `next` has its place; either may be NONE. */
static __attribute__((noinline)) void leave(tl_lane *lane, int done, int next)
{
    const tl_part *parts = lane->home.way->parts, *at = &parts[done];
    char *l1 = lane->at[done & 1]; /* which may be where `next` will be noted */
    if (next != NONE)
        lane->at[next & 1] = lane->home.l1 + (int)parts[next].buffer * lane->home.second;
    if (done == NONE || !at->row_bytes)
        return;
    const tl_part p = *at;
    char *l2 = lane->home.l2 + p.l2;
    lane->under_way = 1;
    if (p.planes > 1)
        planes(lane, at, l2, l1, 1);
    else
        tl_dma_out(&lane->job, l2, l1, (size_t)p.row_bytes, p.rows, (size_t)lane->pitch);
}

/* This core's streams turn from one tile to another. */
static inline void turn(const tl_tiles *t, int done, int next)
{
    for (tl_lane *lane = t->own; lane; lane = lane->more)
        if (lane->leaves)
            leave(lane, done, next);
        else if (next != NONE)
            fetch(lane, next);
}

/* What a stream needs to know of its tables. */
static inline void bring(tl_lane *lane, const tl_stream *stream)
{
    lane->home = *stream;
    lane->pitch = lane->home.way->pitch;
    lane->plane_pitch = lane->home.way->plane_pitch;
    lane->under_way = 0;
}

/* A stream's core is the same in every operation: it awaits what it has started. */
void tl_tiles_early(const tl_stream *streams, tl_lane *lanes, unsigned early, int cores)
{
    for (int s = tl_core_id(); early >> s; s += cores)
        if (early >> s & 1) {
            bring(&lanes[s], &streams[s]);
            fetch(&lanes[s], 0);
        }
}

void tl_tiles_open(tl_tiles *t, const tl_stream *streams, tl_lane *lanes, tl_shape shape)
{
    tl_lane **last = &t->own;
    t->lanes = lanes;
    t->shape = shape;
    t->tile = NONE;
    for (int s = tl_core_id(); s < shape.count; s += shape.cores) {
        tl_lane *lane = &lanes[s];
        *last = lane;
        last = &lane->more;
        lane->leaves = s >= shape.reads;
        if (shape.early >> s & 1)
            continue;
        bring(lane, &streams[s]);
        if (lane->leaves)
            leave(lane, NONE, 0);
        else
            fetch(lane, 0);
    }
    *last = 0;
}

/* What is on its way has arrived, for all cores. */
static inline void meet(const tl_tiles *t)
{
    for (tl_lane *lane = t->own; lane; lane = lane->more)
        await(lane);
    tl_barrier();
}

/* One buffer a stream: the tile before leaves, then this one comes. */
static __attribute__((noinline)) int alone(tl_tiles *t)
{
    const int tile = t->tile;
    t->at = &t->lanes[0].at[tile & 1];
    if (tile) {
        tl_barrier();
        turn(t, tile - 1, tile);
    }
    meet(t);
    return 1;
}

/* Two: the tile before leaves and the next one comes while this one is worked on. */
static __attribute__((noinline)) int ahead(tl_tiles *t)
{
    const int tile = t->tile, next = tile + 1 < t->shape.tiles ? tile + 1 : NONE;
    t->at = &t->lanes[0].at[tile & 1];
    meet(t);
    turn(t, tile - 1, next); /* before the first one there is NONE */
    return 1;
}

/* The last tile leaves. */
static __attribute__((noinline)) int closed(const tl_tiles *t)
{
    meet(t);
    turn(t, t->shape.tiles - 1, NONE);
    for (tl_lane *lane = t->own; lane; lane = lane->more)
        await(lane);
    return 0;
}

/* Chooses before anything is put on the stack. */
int tl_tiles_next(tl_tiles *t)
{
    if (++t->tile == t->shape.tiles)
        return closed(t);
    return t->shape.ahead ? ahead(t) : alone(t);
}
