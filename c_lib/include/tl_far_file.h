/* What lies behind L2 before the first step, from a file. */
#ifndef TL_FAR_FILE_H
#define TL_FAR_FILE_H
#include "tl_hal.h"

/* Bytes from a distance on: the next ones of the file, or zeros. */
typedef struct {
    uint32_t at, bytes;
    int stored;
} tl_far_part;

/* Ends the program where the file cannot be read. On the controller. */
void tl_far_fill(const char *name, const tl_far_part *parts, int count);
#endif
