/* Cortex-M back end (no operating system): one core, one memory for tensors, code and constants in flash; see hal/cortexm.c. */
#ifndef HAL_CORTEXM_H
#define HAL_CORTEXM_H
#include "hal_cortexm_marks.h"
#include <stddef.h>
#include <stdint.h>

#define TL_L1 TL_L2
#define TL_L2 __attribute__((section(".l2")))
#define TL_CONST
#define TL_DATA_L1 TL_DATA_L2
#define TL_DATA_L2 ".l2,\"aw\",%progbits"
#define TL_DATA_CONST ".rodata"
#define TL_ARENA_L1(name, bytes) TL_ARENA_L2(name, bytes)
#define TL_ARENA_L2(name, bytes) static uint8_t name[bytes] __attribute__((section(".bss.arena"), aligned(16)))

/* A transfer is a copy, and done at once. */
typedef struct {
    int done;
} tl_dma_t;
typedef int tl_far_t; /* there is no such memory */

#if defined(TL_PROFILE)
#define TL_OP(position) TL_CORTEXM_AT(position)
#endif
#define TL_UNCOUNTED(statement)                                                                                        \
    do {                                                                                                               \
        TL_CORTEXM_MARK(TL_CORTEXM_PAUSE);                                                                             \
        statement;                                                                                                     \
        TL_CORTEXM_MARK(TL_CORTEXM_RESUME);                                                                            \
    } while (0)

static inline void tl_init(void)
{
}

static inline int tl_core_id(void)
{
    return 0;
}

static inline int tl_num_cores(void)
{
    return 1;
}

static inline void tl_barrier(void)
{
    TL_CORTEXM_MARK(TL_CORTEXM_PHASE);
}

/* Cycles of the core (DWT), where it counts them: emulators do not. */
static inline uint32_t tl_cycles(void)
{
    return *(volatile uint32_t *)0xe0001004u;
}

enum { TL_COUNTERS = 1 };
#define TL_COUNTER_NAMES {"cycles"}
static inline void tl_counters(uint32_t *now)
{
    now[0] = tl_cycles();
}
#endif
