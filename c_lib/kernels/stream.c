/* Tiles on their way between L2 and L1. What a tile costs beside its work is mostly the way through here of the core
 * that drives a stream: one call a tile, inlined but for what is rare. */
#include "tl_stream.h"

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
    if (lane->under_way)
        tl_dma_wait(&lane->job);
    lane->under_way = 0;
}

/* What tile `done` computed leaves. What is last here and in `fetch` needs no frame on the stack. */
static __attribute__((noinline)) void leave(tl_lane *lane, int done)
{
    const tl_part *at = &lane->home.way->parts[done], p = *at;
    char *l2 = lane->home.l2 + p.l2, *l1 = lane->at[done & 1];
    if (!p.row_bytes)
        return;
    lane->under_way = 1;
    if (p.planes > 1)
        planes(lane, at, l2, l1, 1);
    else
        tl_dma_out(&lane->job, l2, l1, (size_t)p.row_bytes, p.rows, (size_t)lane->pitch);
}

/* What tile `next` reads comes. */
static __attribute__((noinline)) void fetch(tl_lane *lane, int reads, int next)
{
    const tl_part *at = &lane->home.way->parts[next], p = *at;
    char *l2 = lane->home.l2 + p.l2, *l1 = lane->home.l1 + (int)p.buffer * lane->home.second;
    lane->at[next & 1] = l1;
    if (!reads || !p.row_bytes)
        return;
    lane->under_way = 1;
    if (p.planes > 1)
        planes(lane, at, l2, l1, 0);
    else
        tl_dma_in(&lane->job, l1, l2, (size_t)p.row_bytes, p.rows, (size_t)lane->pitch);
}

/* The first tile of one stream. */
static __attribute__((noinline)) void bring(tl_lane *lane, const tl_stream *stream, int reads)
{
    lane->home = *stream;
    lane->pitch = lane->home.way->pitch;
    lane->plane_pitch = lane->home.way->plane_pitch;
    lane->under_way = 0;
    fetch(lane, reads, 0);
}

/* A stream's core is the same in every operation: it awaits what it has started. */
void tl_tiles_early(const tl_stream *streams, tl_lane *lanes, unsigned early, int cores)
{
    for (int s = tl_core_id(); early >> s; s += cores)
        if (early >> s & 1)
            bring(&lanes[s], &streams[s], 1);
}

void tl_tiles_open(tl_tiles *t, const tl_stream *streams, tl_lane *lanes, tl_shape shape)
{
    t->lanes = lanes;
    t->shape = shape;
    t->tile = -1;
    for (int s = tl_core_id(); s < shape.count; s += shape.cores)
        if (!(shape.early >> s & 1))
            bring(&lanes[s], &streams[s], s < shape.reads);
}

/* What is on its way has arrived, for all cores. */
static inline void meet(const tl_tiles *t)
{
    for (int s = tl_core_id(); s < t->shape.count; s += t->shape.cores)
        await(&t->lanes[s]);
    tl_barrier();
}

/* One buffer a stream: the tile before leaves, then this one comes. */
static __attribute__((noinline)) int alone(tl_tiles *t)
{
    const int tile = t->tile;
    t->at = &t->lanes[0].at[tile & 1];
    if (tile) {
        tl_barrier();
        for (int s = tl_core_id(); s < t->shape.count; s += t->shape.cores) {
            if (s >= t->shape.reads)
                leave(&t->lanes[s], tile - 1);
            fetch(&t->lanes[s], s < t->shape.reads, tile);
        }
    }
    meet(t);
    return 1;
}

/* Two: the tile before leaves and the next one comes while this one is worked on. */
static __attribute__((noinline)) int ahead(tl_tiles *t)
{
    const int tile = t->tile;
    t->at = &t->lanes[0].at[tile & 1];
    meet(t);
    for (int s = tl_core_id(); s < t->shape.count; s += t->shape.cores) {
        if (tile && s >= t->shape.reads)
            leave(&t->lanes[s], tile - 1);
        if (tile + 1 < t->shape.tiles)
            fetch(&t->lanes[s], s < t->shape.reads, tile + 1);
    }
    return 1;
}

/* The last tile leaves. */
static __attribute__((noinline)) int closed(const tl_tiles *t)
{
    meet(t);
    for (int s = tl_core_id(); s < t->shape.count; s += t->shape.cores) {
        if (s >= t->shape.reads)
            leave(&t->lanes[s], t->shape.tiles - 1);
        await(&t->lanes[s]);
    }
    return 0;
}

/* Chooses before anything is put on the stack. */
int tl_tiles_next(tl_tiles *t)
{
    if (++t->tile == t->shape.tiles)
        return closed(t);
    return t->shape.ahead ? ahead(t) : alone(t);
}
