/* The first elements of each line in order, by counting ranks. What is no number counts as the largest. */
#include "tl_index.h"

/* How many elements come before x[c], a number: those beyond it, and equal ones on its left. */
static int rank_of_number(const tl_lines *a, const float *x, int c)
{
    const float value = x[c * a->x_row];
    int rank = 0;
    for (int d = 0; d < a->extent; d++) {
        const float other = x[d * a->x_row];
        rank += (a->largest ? !(other <= value) : other < value) || (other == value && d < c);
    }
    return rank;
}

static int rank_of_none(const tl_lines *a, const float *x, int c)
{
    int rank = 0;
    for (int d = 0; d < a->extent; d++) {
        const float other = x[d * a->x_row];
        rank += other == other ? !a->largest : d < c;
    }
    return rank;
}

void tl_order_f32(const tl_lines *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->inner, i = u % a->inner;
        const float *x = a->x + o * a->x_outer + i;
        for (int c = 0; c < a->extent; c++) {
            const float value = x[c * a->x_row];
            const int rank = value == value ? rank_of_number(a, x, c) : rank_of_none(a, x, c);
            if (rank < a->count) {
                a->y[o * a->y_outer + rank * a->y_row + i] = value;
                a->index[o * a->index_outer + rank * a->index_row + i] = c;
            }
        }
    }
}
