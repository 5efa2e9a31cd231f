/* Tiles on their way between L2 and L1. */
#include "tl_stream.h"

static char *buffer_of(const tl_lane *lane, const tl_part *p)
{
    return lane->home.l1 + p->buffer * lane->home.second;
}

/* Planes but the last are awaited at once: there is one job a stream. */
static void start_in(tl_lane *lane)
{
    const tl_stream *s = &lane->home;
    const tl_part *p = &lane->next;
    char *l1 = buffer_of(lane, p), *l2 = s->l2 + p->l2;
    for (int i = 0; i < p->planes; i++, l1 += p->row_bytes * p->rows, l2 += s->plane_pitch) {
        if (i)
            tl_dma_wait(&lane->in);
        tl_dma_in(&lane->in, l1, l2, (size_t)p->row_bytes, (size_t)p->rows, (size_t)s->pitch);
    }
    lane->in_flight = 1;
}

static void start_out(tl_lane *lane)
{
    const tl_stream *s = &lane->home;
    const tl_part *p = &lane->now;
    tl_dma_t *job = &lane->out[p->buffer];
    char *l1 = lane->at, *l2 = s->l2 + p->l2;
    for (int i = 0; i < p->planes; i++, l1 += p->row_bytes * p->rows, l2 += s->plane_pitch) {
        if (i)
            tl_dma_wait(job);
        tl_dma_out(job, l2, l1, (size_t)p->row_bytes, (size_t)p->rows, (size_t)s->pitch);
    }
    lane->out_flight[p->buffer] = 1;
}

/* Learn what a tile moves, and bring it. */
static void fetch(tl_lane *lane, const tl_part *part)
{
    lane->next = *part;
    if (!lane->home.writes && lane->next.moves)
        start_in(lane);
}

static void open_lane(tl_lane *lane, const tl_stream *home, const tl_part *first)
{
    lane->home = *home;
    lane->in_flight = lane->out_flight[0] = lane->out_flight[1] = 0;
    fetch(lane, first);
}

static void await_in(tl_lane *lane)
{
    if (lane->in_flight)
        tl_dma_wait(&lane->in);
    lane->in_flight = 0;
}

static void await_out(tl_lane *lane, int buffer)
{
    if (lane->out_flight[buffer])
        tl_dma_wait(&lane->out[buffer]);
    lane->out_flight[buffer] = 0;
}

/* A stream's core is the same in every operation: it awaits what it has started. */
void tl_tiles_early(tl_lane *lanes, const tl_early *early, int count, int cores)
{
    const int core = tl_core_id();
    for (int i = 0; i < count; i++)
        if (early[i].stream % cores == core)
            open_lane(&lanes[early[i].stream], &early[i].home, &early[i].first);
}

void tl_tiles_open(const tl_tiles *t)
{
    for (int s = tl_core_id(); s < t->count; s += t->cores)
        if (t->early >> s & 1)
            t->lanes[s].home.second = t->streams[s].second;
        else
            open_lane(&t->lanes[s], &t->streams[s], &t->parts[s]);
}

void tl_tiles_begin(const tl_tiles *t, int tile)
{
    for (int s = tl_core_id(); s < t->count; s += t->cores) {
        tl_lane *lane = &t->lanes[s];
        if (!t->ahead && tile > 0)
            fetch(lane, &t->parts[tile * t->count + s]);
        await_in(lane);
        lane->now = lane->next;
        lane->at = buffer_of(lane, &lane->now);
        if (t->ahead && tile + 1 < t->tiles)
            fetch(lane, &t->parts[(tile + 1) * t->count + s]);
        await_out(lane, lane->now.buffer);
    }
    tl_barrier();
}

void tl_tiles_end(const tl_tiles *t)
{
    for (int s = tl_core_id(); s < t->count; s += t->cores)
        if (t->lanes[s].home.writes && t->lanes[s].now.moves)
            start_out(&t->lanes[s]);
}

void tl_tiles_close(const tl_tiles *t)
{
    for (int s = tl_core_id(); s < t->count; s += t->cores) {
        await_out(&t->lanes[s], 0);
        await_out(&t->lanes[s], 1);
    }
    tl_barrier();
}
