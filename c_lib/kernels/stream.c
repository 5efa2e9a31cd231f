/* Tiles on their way between L2 and L1. What a tile costs beside its work is mostly the way through here of the core that
 * drives a stream: one call a tile, inlined but for what is rare. */
#include "tl_stream.h"

static inline void transfer(tl_lane *lane, tl_part p, char *l2, char *l1, int leaves)
{
    if (leaves)
        tl_dma_out(&lane->job, l2, l1, (size_t)p.row_bytes, p.rows, (size_t)lane->pitch);
    else
        tl_dma_in(&lane->job, l1, l2, (size_t)p.row_bytes, p.rows, (size_t)lane->pitch);
}

/* Planes behind the first one. Those but the last are awaited at once: there is one job a stream. */
static __attribute__((noinline)) void more_planes(tl_lane *lane, const tl_part *p, char *l1, int leaves)
{
    char *l2 = lane->home.l2 + p->l2;
    for (unsigned i = 1; i < p->planes; i++) {
        l1 += p->row_bytes * (int)p->rows, l2 += lane->plane_pitch;
        tl_dma_wait(&lane->job);
        transfer(lane, *p, l2, l1, leaves);
    }
}

static inline void start(tl_lane *lane, tl_part p, const tl_part *at, char *l1, int leaves)
{
    transfer(lane, p, lane->home.l2 + p.l2, l1, leaves);
    lane->under_way = 1;
    if (p.planes > 1)
        more_planes(lane, at, l1, leaves);
}

static inline void await(tl_lane *lane)
{
    if (lane->under_way)
        tl_dma_wait(&lane->job);
    lane->under_way = 0;
}

/* What tile `done` computed leaves. */
static inline void leave(const tl_tiles *t, int stream, int done)
{
    tl_lane *lane = &t->lanes[stream];
    if (stream < t->shape.reads)
        return;
    const tl_part *at = &lane->home.way->parts[done], p = *at;
    if (p.row_bytes)
        start(lane, p, at, lane->at[done & 1], 1);
}

/* What tile `next` reads comes. */
static inline void fetch(tl_lane *lane, int reads, int next)
{
    const tl_part *at = &lane->home.way->parts[next], p = *at;
    char *l1 = lane->home.l1 + (int)p.buffer * lane->home.second;
    lane->at[next & 1] = l1;
    if (reads && p.row_bytes)
        start(lane, p, at, l1, 0);
}

/* The first tile of one stream. */
static inline void bring(tl_lane *lane, const tl_stream *stream, int reads)
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

/* One buffer a stream: the tile before leaves, then this one comes. */
static __attribute__((noinline)) void swap(const tl_tiles *t, int tile)
{
    tl_barrier();
    for (int s = tl_core_id(); s < t->shape.count; s += t->shape.cores) {
        leave(t, s, tile - 1);
        fetch(&t->lanes[s], s < t->shape.reads, tile);
    }
}

/* The last tile leaves. */
static __attribute__((noinline)) int closed(const tl_tiles *t)
{
    for (int s = tl_core_id(); s < t->shape.count; s += t->shape.cores)
        await(&t->lanes[s]);
    tl_barrier();
    for (int s = tl_core_id(); s < t->shape.count; s += t->shape.cores) {
        leave(t, s, t->shape.tiles - 1);
        await(&t->lanes[s]);
    }
    return 0;
}

int tl_tiles_next(tl_tiles *t)
{
    const int first = tl_core_id(), step = t->shape.cores, count = t->shape.count, ahead = t->shape.ahead;
    const int tile = ++t->tile;
    if (tile == t->shape.tiles)
        return closed(t);
    t->at = &t->lanes[0].at[tile & 1];
    if (!ahead && tile)
        swap(t, tile);
    for (int s = first; s < count; s += step)
        await(&t->lanes[s]);
    tl_barrier();
    if (!ahead)
        return 1;
    for (int s = first; s < count; s += step) {
        if (tile)
            leave(t, s, tile - 1);
        if (tile + 1 < t->shape.tiles)
            fetch(&t->lanes[s], s < t->shape.reads, tile + 1);
    }
    return 1;
}
