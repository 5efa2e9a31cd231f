/* Reading and writing at indices that the step computes or is given; running sums; order. See docs/kernels.md.
 *
 * Tensors are seen as [outer][extent][inner], where an index selects along the middle dimension. A negative index
 * counts from the end; what is `ignore` or out of range reads zero and writes nothing. */
#ifndef TL_INDEX_H
#define TL_INDEX_H
#include "tl_hal.h"

typedef uint32_t __attribute__((may_alias)) tl_word; /* a float or an int32_t that is only moved */

/* y[o][m][i] = x[o][index[o][m][i]][i]. All have strides in elements; neighbours along i lie side by side in y. */
typedef struct {
    const void *x;
    const int32_t *index;
    void *y;
    int outer, extent, count, inner;
    int x_outer, x_row, x_inner;
    int index_outer, index_count, index_inner;
    int y_outer, y_row;
    int ignore;
} tl_take;

/* y[o][index[o][m][i]][i] += g[o][m][i] (or = with `set`) in the order of m, on top of `init` or zeros. y and init
 * hold rows first .. first + rows - 1 of all `extent`; the other elements are somebody else's. */
typedef struct {
    const float *g;
    const int32_t *index;
    const float *init; /* may be null */
    float *y;
    int outer, extent, count, inner;
    int first, rows;
    int g_outer, g_count, g_inner;
    int index_outer, index_count, index_inner;
    int y_outer, y_row, init_outer, init_row;
    int ignore, set;
} tl_put;

/* Something of every line of x: values [outer][count][inner], and where in their line they stand. */
typedef struct {
    const float *x;
    float *y;
    int32_t *index; /* places, where they are asked for */
    int outer, extent, count, inner;
    int x_outer, x_row, y_outer, y_row, index_outer, index_row;
    int product; /* of running sums: products instead */
    int largest; /* the largest, or the largest first; else the smallest */
} tl_lines;

#endif
