/* Tiles on their way between L2 and L1. What a tile costs beside its work is mostly the way through here of the core that
 * drives a stream: one call a tile, inlined but for what is rare. */
#include "tl_stream.h"

/* Planes behind the first one. Those but the last are awaited at once: there is one job a stream. */
static __attribute__((noinline)) void more_planes(tl_lane *lane, const tl_part *p, char *l1)
{
    char *l2 = lane->home.l2 + p->l2;
    for (int i = 1; i < p->planes; i++) {
        l1 += p->row_bytes * p->rows, l2 += lane->home.plane_pitch;
        tl_dma_wait(&lane->job);
        if (lane->home.writes)
            tl_dma_out(&lane->job, l2, l1, (size_t)p->row_bytes, (size_t)p->rows, (size_t)lane->home.pitch);
        else
            tl_dma_in(&lane->job, l1, l2, (size_t)p->row_bytes, (size_t)p->rows, (size_t)lane->home.pitch);
    }
}

static inline void start(tl_lane *lane, const tl_part *p, char *l1)
{
    char *l2 = lane->home.l2 + p->l2;
    if (lane->home.writes)
        tl_dma_out(&lane->job, l2, l1, (size_t)p->row_bytes, (size_t)p->rows, (size_t)lane->home.pitch);
    else
        tl_dma_in(&lane->job, l1, l2, (size_t)p->row_bytes, (size_t)p->rows, (size_t)lane->home.pitch);
    lane->under_way = 1;
    if (p->planes > 1)
        more_planes(lane, p, l1);
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
    const tl_part *p = &t->parts[done * t->count + stream];
    if (lane->home.writes && p->moves)
        start(lane, p, lane->at[done & 1]);
}

/* What tile `next` reads comes. */
static inline void fetch(const tl_tiles *t, int stream, int next)
{
    tl_lane *lane = &t->lanes[stream];
    const tl_part *p = &t->parts[next * t->count + stream];
    char *at = lane->home.l1 + p->buffer * lane->home.second;
    lane->at[next & 1] = at;
    if (!lane->home.writes && p->moves)
        start(lane, p, at);
}

static void bring(tl_lane *lane, const tl_early *early)
{
    lane->home = early->home;
    lane->at[0] = lane->home.l1;
    start(lane, &early->first, lane->at[0]);
}

/* A stream's core is the same in every operation: it awaits what it has started. */
void tl_tiles_early(tl_lane *lanes, const tl_early *early, int count, int cores)
{
    const int core = tl_core_id();
    for (int i = 0; i < count; i++)
        if (early[i].stream % cores == core)
            bring(&lanes[early[i].stream], &early[i]);
}

void tl_tiles_open(const tl_tiles *t)
{
    for (int s = tl_core_id(); s < t->count; s += t->cores) {
        tl_lane *lane = &t->lanes[s];
        if (t->early >> s & 1) {
            lane->home.second = t->streams[s].second;
        } else {
            lane->home = t->streams[s];
            lane->under_way = 0;
            fetch(t, s, 0);
        }
    }
}

/* One buffer a stream: the tile before leaves, then this one comes. */
static __attribute__((noinline)) void swap(const tl_tiles *t, int tile)
{
    tl_barrier();
    for (int s = tl_core_id(); s < t->count; s += t->cores) {
        leave(t, s, tile - 1);
        fetch(t, s, tile);
    }
}

void tl_tiles_begin(const tl_tiles *t, int tile)
{
    const int first = tl_core_id(), step = t->cores, count = t->count;
    if (!t->ahead && tile)
        swap(t, tile);
    for (int s = first; s < count; s += step)
        await(&t->lanes[s]);
    tl_barrier();
    if (!t->ahead)
        return;
    for (int s = first; s < count; s += step) {
        if (tile)
            leave(t, s, tile - 1);
        if (tile + 1 < t->tiles)
            fetch(t, s, tile + 1);
    }
}

void tl_tiles_close(const tl_tiles *t)
{
    for (int s = tl_core_id(); s < t->count; s += t->cores)
        await(&t->lanes[s]);
    tl_barrier();
    for (int s = tl_core_id(); s < t->count; s += t->cores) {
        leave(t, s, t->tiles - 1);
        await(&t->lanes[s]);
    }
    tl_barrier();
}
