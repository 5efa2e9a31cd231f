/* PULP-SDK back end (PMSIS): the cluster's event unit, DMA engine and timer through the SDK's own inline functions. */
#ifndef HAL_PULP_H
#define HAL_PULP_H
#include "pmsis.h"
#include <stddef.h>
#include <stdint.h>

#define TL_L1 PI_L1
#define TL_L2 PI_L2
/* In the banks of L2 that the SDK's link script leaves to data: the private ones, which it fills first, are
 * its heap. */
#define TL_CONST __attribute__((section(".l2_data.constant")))
/* The sections of PI_L1, PI_L2 and TL_CONST for an assembler. */
#define TL_DATA_L1 ".data_l1,\"aw\",@progbits"
#define TL_DATA_L2 ".l2_data,\"aw\",@progbits"
#define TL_DATA_CONST ".l2_data.constant,\"a\",@progbits"

/* Not PI_L1: what is in that section lies in L2 a second time, and the controller copies it when the cluster opens. The
 * compilers take any section but .bss itself for one with contents; the assembler does not. */
#define TL_TEXT(tokens) #tokens
#define TL_ARENA_L1(name, bytes)                                                                                       \
    extern uint8_t name[bytes];                                                                                        \
    __asm__(".pushsection .bss_l1." #name ",\"aw\",@nobits\n.balign 16\n.globl " #name "\n.type " #name                \
            ", @object\n.size " #name ", " TL_TEXT(bytes) "\n" #name ":\n.zero " TL_TEXT(bytes) "\n.popsection")
#define TL_ARENA_L2(name, bytes) TL_L2 static uint8_t name[bytes] __attribute__((aligned(16)))

typedef struct {
    union {
        pi_cl_dma_cmd_t command; /* the SDK keeps the transfer's counter in it, */
        uint32_t counter;        /* or it is taken at this core's own port */
    };
    int pending;
} tl_dma_t;

#if defined(TL_FAR)
#include "bsp/ram.h"
typedef struct {
    pi_cl_ram_req_t request;
    int pending;
} tl_far_t;
#else
typedef int tl_far_t;
#endif

/* Called on the controller before anything touches L1: until the cluster is open there is none. */
void tl_pulp_open(void);
void tl_pulp_open_far(void);
void tl_pulp_fail(const char *what);

static inline void tl_init(void)
{
    tl_pulp_open();
}

static inline int tl_core_id(void)
{
    return (int)pi_core_id();
}

/* Set when a team starts: asking the event unit takes 40 instructions, and every kernel shares out its work. */
extern int tl_pulp_team;

static inline int tl_num_cores(void)
{
    return tl_pulp_team;
}

static inline void tl_barrier(void)
{
    pi_cl_team_barrier();
}

/* Cycles of the cluster, one timer for all its cores; started by the first tl_cluster_run. */
static inline uint32_t tl_cycles(void)
{
    return pi_perf_cl_read(PI_PERF_CYCLES);
}

/* What PROFILE=1 counts: cycles of the cluster, then events of the calling core. Simulators count all of them at once;
 * chips may have one counter for all events, and then show the same number in each column. */
enum { TL_COUNTERS = 5 };
#define TL_COUNTER_NAMES {"cycles", "instructions", "load stalls", "L1 conflicts", "fetch stalls"}
#define TL_DMA_BYTES_PER_CYCLE 8.0f
#define TL_COUNTED                                                                                                     \
    (1u << PI_PERF_CYCLES | 1u << PI_PERF_INSTR | 1u << PI_PERF_LD_STALL | 1u << PI_PERF_TCDM_CONT |                   \
     1u << PI_PERF_IMISS)
static inline void tl_counters(uint32_t *now)
{
    now[0] = pi_perf_cl_read(PI_PERF_CYCLES);
    now[1] = pi_perf_cl_read(PI_PERF_INSTR);
    now[2] = pi_perf_cl_read(PI_PERF_LD_STALL);
    now[3] = pi_perf_cl_read(PI_PERF_TCDM_CONT);
    now[4] = pi_perf_cl_read(PI_PERF_IMISS);
}
#endif
