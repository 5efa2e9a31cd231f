/* Whole rows added or written at indices, one index a row: each row of the result has one owner. */
#include "tl_promise.h"
#include "tl_row_of.h"

static void add_row(float *to, const float *g, int n)
{
    for (int i = 0; i < n; i++)
        to[i] += g[i];
}

static void set_row(float *to, const float *g, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = g ? g[i] : 0.0f;
}

void tl_put_rows_f32(const tl_put *a)
{
    int lo, hi; /* the rows of y that are mine */
    TL_PROMISE(a->index_inner == 0 && a->g_inner == 1);
    tl_split(a->outer * a->rows, 1, &lo, &hi);
    for (int o = lo / a->rows; o * a->rows < hi; o++) {
        const int mine = lo - o * a->rows > 0 ? lo - o * a->rows : 0;
        const int end = hi - o * a->rows < a->rows ? hi - o * a->rows : a->rows;
        float *y = a->y + o * a->y_outer;
        for (int row = mine; row < end; row++)
            set_row(y + row * a->y_row, a->init ? a->init + o * a->init_outer + row * a->init_row : 0, a->inner);
        for (int m = 0; m < a->count; m++) {
            const int index = a->index[o * a->index_outer + m * a->index_count];
            const int row = tl_row_of(index, a->extent, a->ignore) - a->first;
            if (row >= mine && row < end)
                (a->set ? set_row : add_row)(y + row * a->y_row, a->g + o * a->g_outer + m * a->g_count, a->inner);
        }
    }
}
