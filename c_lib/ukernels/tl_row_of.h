/* Internal to c_lib/kernels. */
#ifndef TL_ROW_OF_H
#define TL_ROW_OF_H
#include "tl_index.h"

/* The row an index means, or -1. */
static inline int tl_row_of(int index, int extent, int ignore)
{
    if (index == ignore)
        return -1;
    const int row = index < 0 ? index + extent : index;
    return row < extent ? row : -1;
}
#endif
