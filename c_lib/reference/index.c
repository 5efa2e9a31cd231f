/* What selects, one element at a time, on one core: what every kernel of it gives, bit by bit. */
#include "tl_index.h"

static int row_of(int index, int extent, int ignore)
{
    const int row = index < 0 ? index + extent : index;
    return index == ignore || row < 0 || row >= extent ? -1 : row;
}

void reference_take(const tl_take *a)
{
    const tl_word *x = a->x;
    tl_word *y = a->y;
    for (int o = 0; o < a->outer; o++)
        for (int m = 0; m < a->count; m++)
            for (int i = 0; i < a->inner; i++) {
                const int index = a->index[o * a->index_outer + m * a->index_count + i * a->index_inner];
                const int row = row_of(index, a->extent, a->ignore);
                y[o * a->y_outer + m * a->y_row + i] =
                    row < 0 ? 0 : x[o * a->x_outer + row * a->x_row + i * a->x_inner];
            }
}

void reference_put(const tl_put *a)
{
    for (int o = 0; o < a->outer; o++)
        for (int row = 0; row < a->rows; row++)
            for (int i = 0; i < a->inner; i++) {
                float total = a->init ? a->init[o * a->init_outer + row * a->init_row + i] : 0;
                for (int m = 0; m < a->count; m++) {
                    const int index = a->index[o * a->index_outer + m * a->index_count + i * a->index_inner];
                    const float g = a->g[o * a->g_outer + m * a->g_count + i * a->g_inner];
                    if (row_of(index, a->extent, a->ignore) == a->first + row)
                        total = a->set ? g : total + g;
                }
                a->y[o * a->y_outer + row * a->y_row + i] = total;
            }
}

void reference_scan(const tl_lines *a)
{
    for (int o = 0; o < a->outer; o++)
        for (int c = 0; c < a->extent; c++)
            for (int i = 0; i < a->inner; i++) {
                const float before = a->product ? 1 : 0;
                float total = c ? a->y[o * a->y_outer + (c - 1) * a->y_row + i] : before;
                const float x = a->x[o * a->x_outer + c * a->x_row + i];
                a->y[o * a->y_outer + c * a->y_row + i] = a->product ? total * x : total + x;
            }
}

/* Whether one comes before the other where what is no number counts as the largest; equal ones do not. */
static int before(float one, float other, int descending)
{
    if (one != one || other != other)
        return descending ? one != one && other == other : one == one && other != other;
    return descending ? one > other : one < other;
}

void reference_extreme(const tl_lines *a)
{
    for (int o = 0; o < a->outer; o++)
        for (int i = 0; i < a->inner; i++) {
            const float *x = a->x + o * a->x_outer + i;
            int place = 0;
            for (int c = 1; c < a->extent; c++) {
                const float best = x[place * a->x_row], value = x[c * a->x_row];
                const int first = value != value || (a->largest ? value > best : value < best);
                if (best == best && first) /* what is no number stays */
                    place = c;
            }
            a->y[o * a->y_outer + i] = x[place * a->x_row];
            a->index[o * a->index_outer + i] = place;
        }
}

/* Back from each element to the first that is no number, or to the best of all. */
void reference_running(const tl_lines *a)
{
    for (int o = 0; o < a->outer; o++)
        for (int i = 0; i < a->inner; i++)
            for (int c = 0; c < a->extent; c++) {
                const float *x = a->x + o * a->x_outer + i;
                int place = c;
                for (int d = c; d >= 0 && x[place * a->x_row] == x[place * a->x_row]; d--)
                    if (x[d * a->x_row] != x[d * a->x_row] || before(x[d * a->x_row], x[place * a->x_row], a->largest))
                        place = d;
                a->y[o * a->y_outer + c * a->y_row + i] = x[place * a->x_row];
                a->index[o * a->index_outer + c * a->index_row + i] = place;
            }
}

/* By insertion. */
void reference_order(const tl_lines *a)
{
    for (int o = 0; o < a->outer; o++)
        for (int i = 0; i < a->inner; i++) {
            const float *x = a->x + o * a->x_outer + i;
            float *y = a->y + o * a->y_outer + i;
            int32_t *index = a->index + o * a->index_outer + i;
            for (int c = 0; c < a->extent; c++) {
                int at = c < a->count ? c : a->count;
                while (at && before(x[c * a->x_row], y[(at - 1) * a->y_row], a->largest))
                    at--;
                for (int k = a->count - 1; k > at; k--) {
                    y[k * a->y_row] = y[(k - 1) * a->y_row];
                    index[k * a->index_row] = index[(k - 1) * a->index_row];
                }
                if (at < a->count) {
                    y[at * a->y_row] = x[c * a->x_row];
                    index[at * a->index_row] = c;
                }
            }
        }
}
