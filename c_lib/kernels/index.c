/* Reading and writing at run-time indices. Every element of a result has one owner, who works in a fixed order. */
#include "tl_index.h"

/* The row an index means, or -1. */
static inline int row_of(int index, int extent, int ignore)
{
    if (index == ignore)
        return -1;
    const int row = index < 0 ? index + extent : index;
    return row < extent ? row : -1;
}

void tl_take_32(const tl_take *a)
{
    const tl_word *x = a->x;
    tl_word *y = a->y;
    int lo, hi;
    tl_split(a->outer * a->count, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->count, m = u % a->count;
        const int32_t *index = a->index + o * a->index_outer + m * a->index_count;
        const tl_word *plane = x + o * a->x_outer;
        for (int i = 0; i < a->inner; i++) {
            const int row = row_of(index[i * a->index_inner], a->extent, a->ignore);
            y[u * a->inner + i] = row < 0 ? 0 : plane[row * a->x_row + i * a->x_inner];
        }
    }
}

void tl_put_f32(const tl_put *a)
{
    int lo, hi; /* the rows of y that are mine */
    tl_split(a->outer * a->extent, 1, &lo, &hi);
    for (int i = lo * a->inner; i < hi * a->inner; i++)
        a->y[i] = a->init ? a->init[i] : 0.0f;
    for (int o = lo / a->extent; o * a->extent < hi; o++) {
        for (int m = 0; m < a->count; m++) {
            const int32_t *index = a->index + o * a->index_outer + m * a->index_count;
            const float *g = a->g + o * a->g_outer + m * a->g_count;
            for (int i = 0; i < a->inner; i++) {
                const int row = row_of(index[i * a->index_inner], a->extent, a->ignore);
                const int place = o * a->extent + row;
                if (row < 0 || place < lo || place >= hi) {
                    if (a->index_inner == 0)
                        break;
                    continue;
                }
                float *target = &a->y[place * a->inner + i];
                *target = a->set ? g[i * a->g_inner] : *target + g[i * a->g_inner];
            }
        }
    }
}

void tl_scan_f32(const tl_scan *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int start = u / a->inner * a->extent * a->inner + u % a->inner;
        float total = a->product ? 1.0f : 0.0f;
        for (int c = 0; c < a->extent; c++) {
            const float x = a->x[start + c * a->inner];
            total = a->product ? total * x : total + x;
            a->y[start + c * a->inner] = total;
        }
    }
}

void tl_extreme_f32(const tl_extreme *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const float *x = a->x + u / a->inner * a->extent * a->inner + u % a->inner;
        float best = x[0];
        int place = 0;
        for (int c = 1; c < a->extent; c++) {
            const float value = x[c * a->inner];
            if (a->smallest ? value < best : value > best) {
                best = value;
                place = c;
            }
        }
        a->y[u] = best;
        a->index[u] = place;
    }
}

void tl_order_f32(const tl_order *a)
{
    int lo, hi;
    tl_split(a->outer * a->inner, 1, &lo, &hi);
    for (int u = lo; u < hi; u++) {
        const int o = u / a->inner, i = u % a->inner;
        const float *x = a->x + o * a->extent * a->inner + i;
        for (int c = 0; c < a->extent; c++) {
            const float value = x[c * a->inner];
            int rank = 0;
            for (int d = 0; d < a->extent; d++) {
                const float other = x[d * a->inner];
                rank += (a->descending ? other > value : other < value) || (other == value && d < c);
            }
            if (rank < a->count) {
                a->y[(o * a->count + rank) * a->inner + i] = value;
                a->index[(o * a->count + rank) * a->inner + i] = c;
            }
        }
    }
}
