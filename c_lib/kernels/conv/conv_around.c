/* A copy of planes with what is around them. */
#include "tl_around.h"
#include "tl_plane.h"

void tl_around_copy(const tl_around *p)
{
    tl_plane_rows r = tl_plane_share(p->team, p->n * p->channels, p->rows);
    tl_copied c = {.left = p->left, .columns = p->columns};
    while (tl_plane_next(&r, p->rows)) {
        const int n = p->n == 1 ? 0 : r.plane / p->channels;
        c.top = p->top + r.row, c.rows = r.end - r.row;
        tl_plane_clear(&c, p->pitch.h, p->h, p->wd, p->to + (r.plane * p->rows + r.row) * p->columns);
        tl_plane_copy(&c, p->from + n * p->pitch.n + (r.plane - n * p->channels) * p->pitch.c);
    }
}
