/* What each operation of a step costs, in the counters of the machine it runs on: see tl_counters in tl_hal.h. */
#ifndef TL_PROFILE_H
#define TL_PROFILE_H
#include "tl_hal.h"

typedef struct {
    const char *name;
    uint32_t macs; /* multiply-adds, of all cores */
} tl_operation;

typedef struct {
    uint32_t counts[TL_COUNTERS];
    uint32_t moved;  /* bytes between L2 and L1 */
    uint32_t waited; /* of the first counter: what was spent on transfers, and not on work beside them */
} tl_cost;

/* Core 0, before the first operation of a run. */
void tl_profile_begin(void);

/* In L1, and without a function to call: what takes cycles to count is among what is counted. Core 0, between tiles,
 * where all wait for it: how long that took for transfers. The cycles when an operation began. */
extern uint32_t tl_profile_waits, tl_profile_since;

/* Core 0, when all cores have finished an operation, in that cycle: what was counted since the last call. */
void tl_profile_end(tl_cost *cost, uint32_t cycles);

static inline void tl_profile_from_here(void)
{
    tl_profile_since = tl_cycles();
}

/* Controller: one line an operation, and the sum. */
void tl_profile_print(const tl_operation *operations, const tl_cost *costs, int count);
#endif
