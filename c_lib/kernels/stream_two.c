/* Tiles that come two ahead of the one at work. */
#define TL_AHEAD 2
#include "tl_tiles.inc"

void tl_tiles_open_two(tl_tiles *t, const tl_stream *streams, tl_lane *lanes, tl_shape shape)
{
    begin(t, streams, lanes, shape);
}

/* Chooses before anything is put on the stack. */
int tl_tiles_next_two(tl_tiles *t)
{
    return ++t->tile == t->shape.tiles ? closed(t) : ahead(t);
}
