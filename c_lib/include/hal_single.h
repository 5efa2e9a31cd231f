/* One core without an operating system, one memory for tensors, code and constants in flash; see hal/single.c. */
#ifndef HAL_SINGLE_H
#define HAL_SINGLE_H
#include <stddef.h>
#include <stdint.h>
#if defined(__arm__)
#include "hal_cortexm_marks.h"
#define TL_SINGLE_MARK(word) TL_CORTEXM_MARK(TL_CORTEXM_##word)
#define TL_SINGLE_AT(position) TL_CORTEXM_AT(position)
#else
#include "hal_rv32_marks.h"
#define TL_SINGLE_MARK(word) TL_RV32_MARK(TL_RV32_##word)
#define TL_SINGLE_AT(position) TL_RV32_MARK(position)
#endif

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
#define TL_OP(position) TL_SINGLE_AT(position)
#endif
#define TL_UNCOUNTED(statement)                                                                                        \
    do {                                                                                                               \
        TL_SINGLE_MARK(PAUSE);                                                                                         \
        statement;                                                                                                     \
        TL_SINGLE_MARK(RESUME);                                                                                        \
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
    TL_SINGLE_MARK(PHASE);
}

/* Cycles of the core where it counts them: emulators do not. */
static inline uint32_t tl_cycles(void)
{
#if defined(__arm__)
    return *(volatile uint32_t *)0xe0001004u; /* DWT */
#else
    uint32_t count;
    __asm__ volatile("csrr %0, mcycle" : "=r"(count)::"memory");
    return count;
#endif
}

enum { TL_COUNTERS = 1 };
#define TL_COUNTER_NAMES {"cycles"}
static inline void tl_counters(uint32_t *now)
{
    now[0] = tl_cycles();
}
#endif
