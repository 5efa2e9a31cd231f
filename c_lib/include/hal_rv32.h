/* Emulated RISC-V back end: hart 0 is the controller, harts 1.. are the cluster's cores; see hal/rv32.c. */
#ifndef HAL_RV32_H
#define HAL_RV32_H
#include "hal_rv32_marks.h"
#include <stddef.h>
#include <stdint.h>

#define TL_L1 __attribute__((section(".l1")))
#define TL_L2 __attribute__((section(".l2")))
#define TL_CONST
#define TL_DATA_L1 ".l1,\"aw\",@progbits"
#define TL_DATA_L2 ".l2,\"aw\",@progbits"
#define TL_DATA_CONST ".rodata"
#define TL_ARENA_L1(name, bytes) TL_L1 static uint8_t name[bytes] __attribute__((aligned(16)))
#define TL_ARENA_L2(name, bytes) TL_L2 static uint8_t name[bytes] __attribute__((aligned(16)))

typedef struct {
    char *to;
    const char *from;
    size_t row_bytes, rows, to_pitch, from_pitch;
} tl_dma_t;

typedef struct {
    char *near;
    tl_far far;
    size_t row_bytes, rows, pitch;
    int inward;
} tl_far_t;
#if defined(TL_FAR)
#define TL_FAR_LINKED
#define TL_DATA_FAR ".l3,\"aw\",@progbits"
typedef uint8_t tl_far_bytes[TL_FAR];
#endif

extern volatile int tl_rv32_team;
void tl_rv32_barrier(void);

#if defined(TL_PROFILE)
#define TL_OP(position) TL_RV32_MARK(position)
#define TL_NEXT_OP TL_RV32_MARK(TL_RV32_NEXT)
#endif
#define TL_UNCOUNTED(statement)                                                                                        \
    do {                                                                                                               \
        TL_RV32_MARK(TL_RV32_PAUSE);                                                                                   \
        statement;                                                                                                     \
        TL_RV32_MARK(TL_RV32_RESUME);                                                                                  \
    } while (0)

/* The boot code keeps the core's number in tp, which nothing else uses: there is no thread-local storage. */
static inline void tl_init(void)
{
}

static inline int tl_core_id(void)
{
    int core;
    __asm__("mv %0, tp" : "=r"(core));
    return core;
}

static inline int tl_num_cores(void)
{
    return tl_rv32_team;
}

static inline void tl_barrier(void)
{
    TL_UNCOUNTED(tl_rv32_barrier());
}

/* Instructions. Spike counts them by hart; QEMU has one counter for all: between two barriers the sum over the team. */
static inline uint32_t tl_cycles(void)
{
    uint32_t count;
    __asm__ volatile("csrr %0, minstret" : "=r"(count)::"memory");
    return count;
}
#endif
