/* Host back end: threads as cores, one address space as both memories. */
#ifndef HAL_HOST_H
#define HAL_HOST_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define TL_L1 /* no section: sanitizers keep their red zones */
#define TL_L2
#define TL_CONST
#if defined(__APPLE__)
#define TL_DATA_L1 "__DATA,__data"
#define TL_DATA_CONST "__TEXT,__const"
#else
#define TL_DATA_L1 ".data"
#define TL_DATA_CONST ".rodata"
#endif
#define TL_DATA_L2 TL_DATA_L1
#define TL_ARENA_L1(name, bytes) TL_L1 static uint8_t name[bytes] __attribute__((aligned(16)))
#define TL_ARENA_L2(name, bytes) TL_L2 static uint8_t name[bytes] __attribute__((aligned(16)))

typedef struct {
    int done;
} tl_dma_t;

typedef struct {
    char *near;
    tl_far far;
    size_t row_bytes, rows, pitch;
    int inward;
} tl_far_t;
#if defined(TL_FAR)
#define TL_FAR_LINKED
#define TL_DATA_FAR TL_DATA_L1
typedef uint8_t tl_far_bytes[TL_FAR];
#endif

extern __thread int tl_host_core;
extern int tl_host_cores;
extern pthread_barrier_t tl_host_barrier;

static inline void tl_init(void)
{
}

static inline int tl_core_id(void)
{
    return tl_host_core;
}

static inline int tl_num_cores(void)
{
    return tl_host_cores;
}

static inline void tl_barrier(void)
{
    if (tl_host_cores > 1)
        pthread_barrier_wait(&tl_host_barrier);
}

/* Nanoseconds, modulo 2^32. */
static inline uint32_t tl_cycles(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)now.tv_sec * 1000000000u + (uint32_t)now.tv_nsec;
}

/* What PROFILE=1 counts. */
enum { TL_COUNTERS = 1 };
#define TL_COUNTER_NAMES {"nanoseconds"}
static inline void tl_counters(uint32_t *now)
{
    now[0] = tl_cycles();
}
#endif
