/* Copies between L2 and the memory behind it, which no core reaches. A step starts one, goes on with other work, and
 * awaits it; copies under way have different numbers. */
#ifndef TL_CARRY_H
#define TL_CARRY_H
#include "tl_hal.h"

typedef struct {
    void *near;
    tl_far far;                              /* of the tensor */
    uint32_t offset, row_bytes, rows, pitch; /* of it: rows are pitch apart, and dense in L2 */
    tl_far_t *jobs;                          /* copies under way, by number */
    int job, inward;
} tl_carry;

typedef struct {
    tl_far_t *jobs;
    int job;
} tl_arrival;

/* All cores call these; the first one does it. What came is there behind the next barrier. */
void tl_carry_start(const tl_carry *a);
void tl_carry_await(const tl_arrival *a);
#endif
