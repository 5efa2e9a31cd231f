/* Tiles on their way between L2 and L1. */
#include "tl_stream.h"

static int plane_bytes(const tl_part *p)
{
    return p->row_bytes * p->rows;
}

/* Planes but the last are awaited at once: there is one job a stream. */
static void start_in(tl_dma_t *job, const tl_stream *s, const tl_part *p)
{
    char *l1 = s->l1 + p->buffer * s->second;
    for (int i = 0; i < p->planes; i++) {
        if (i)
            tl_dma_wait(job);
        tl_dma_in(job, l1 + i * plane_bytes(p), s->l2 + p->l2 + i * s->plane_pitch, (size_t)p->row_bytes,
                  (size_t)p->rows, (size_t)s->pitch);
    }
}

static void start_out(tl_dma_t *job, const tl_stream *s, const tl_part *p)
{
    char *l1 = s->l1 + p->buffer * s->second;
    for (int i = 0; i < p->planes; i++) {
        if (i)
            tl_dma_wait(job);
        tl_dma_out(job, s->l2 + p->l2 + i * s->plane_pitch, l1 + i * plane_bytes(p), (size_t)p->row_bytes,
                   (size_t)p->rows, (size_t)s->pitch);
    }
}

static void fetch(const tl_tiles *t, int tile)
{
    const tl_part *parts = t->parts + tile * t->count;
    for (int s = 0; s < t->count; s++) {
        if (t->streams[s].writes || !parts[s].moves)
            continue;
        start_in(&t->lanes[s].in, &t->streams[s], &parts[s]);
        t->lanes[s].in_flight = 1;
    }
}

static void await_in(const tl_tiles *t)
{
    for (int s = 0; s < t->count; s++) {
        if (t->lanes[s].in_flight)
            tl_dma_wait(&t->lanes[s].in);
        t->lanes[s].in_flight = 0;
    }
}

static void await_out(tl_lane *lane, int buffer)
{
    if (lane->out_flight[buffer])
        tl_dma_wait(&lane->out[buffer]);
    lane->out_flight[buffer] = 0;
}

void tl_tiles_open(const tl_tiles *t)
{
    if (tl_core_id() != 0)
        return;
    for (int s = 0; s < t->count; s++)
        t->lanes[s].in_flight = t->lanes[s].out_flight[0] = t->lanes[s].out_flight[1] = 0;
    fetch(t, 0);
}

void tl_tiles_begin(const tl_tiles *t, int tile)
{
    if (tl_core_id() == 0) {
        if (!t->ahead && tile > 0)
            fetch(t, tile);
        await_in(t);
        if (t->ahead && tile + 1 < t->tiles)
            fetch(t, tile + 1);
        for (int s = 0; s < t->count; s++)
            if (t->streams[s].writes)
                await_out(&t->lanes[s], t->parts[tile * t->count + s].buffer);
    }
    tl_barrier();
}

void tl_tiles_end(const tl_tiles *t, int tile)
{
    const tl_part *parts = t->parts + tile * t->count;
    tl_barrier();
    if (tl_core_id() != 0)
        return;
    for (int s = 0; s < t->count; s++) {
        if (!t->streams[s].writes || !parts[s].moves)
            continue;
        start_out(&t->lanes[s].out[parts[s].buffer], &t->streams[s], &parts[s]);
        t->lanes[s].out_flight[parts[s].buffer] = 1;
    }
}

void tl_tiles_close(const tl_tiles *t)
{
    if (tl_core_id() != 0)
        return;
    for (int s = 0; s < t->count; s++) {
        await_out(&t->lanes[s], 0);
        await_out(&t->lanes[s], 1);
    }
}
