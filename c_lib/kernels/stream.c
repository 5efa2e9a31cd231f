/* Tiles that come one by one, or one ahead of the one at work. */
#define TL_AHEAD 1
#include "tl_tiles.inc"

/* A stream's core is the same in every operation: it awaits what it has started. */
void tl_tiles_early(const tl_stream *streams, tl_lane *lanes, unsigned early, int cores)
{
    for (int s = tl_core_id(); early >> s; s += cores)
        if (early >> s & 1) {
            bring(&lanes[s], &streams[s]);
            fetch(&lanes[s], 0);
        }
}

void tl_tiles_left(tl_lane *lanes, int stream, int cores)
{
    if (tl_core_id() == stream % cores)
        await(&lanes[stream], 0);
}

void tl_tiles_open(tl_tiles *t, const tl_stream *streams, tl_lane *lanes, tl_shape shape)
{
    begin(t, streams, lanes, shape);
}

/* One buffer a stream: the tile before leaves, then this one comes. */
static __attribute__((noinline)) int alone(tl_tiles *t)
{
    const int tile = t->tile;
    t->at = &AT(t->lanes, tile);
    if (tile) {
        tl_barrier();
        turn(t, tile - 1, tile, tile);
    }
    meet(t, tile);
    return 1;
}

/* Chooses before anything is put on the stack. */
int tl_tiles_next(tl_tiles *t)
{
    if (++t->tile == t->shape.tiles)
        return closed(t);
    return t->shape.ahead ? ahead(t) : alone(t);
}
