/* The hardware layer: everything a kernel or a generated step may ask of the machine it runs on.
 *
 * One controller starts a function on all cores of the cluster (tl_cluster_run); inside it every core runs the same
 * code and meets the others at barriers. Exactly one of the back ends is compiled in:
 *   TL_HAL_HOST  threads as cores (default)      hal/host.c
 *   TL_HAL_RV32  bare-metal RISC-V (QEMU, Spike)  hal/rv32.c, hal/rv32_start.S
 *   TL_HAL_PULP  PULP-SDK (PMSIS)                 hal/pulp.c
 *   TL_HAL_SINGLE  one bare core: Cortex-M, RISC-V  hal/single.c
 */
#ifndef TL_HAL_H
#define TL_HAL_H
#include <stddef.h>
#include <stdint.h>

#define TL_MOST_CORES 16 /* of a team */

typedef uint32_t tl_far; /* a distance, in bytes: a core that takes it for an address finds nothing there */

#if defined(TL_HAL_PULP)
#include "hal_pulp.h"
#elif defined(TL_HAL_RV32)
#include "hal_rv32.h"
#elif defined(TL_HAL_SINGLE)
#include "hal_single.h"
#else
#include "hal_host.h"
#endif
/* Each hal_*.h supplies, as macros or inline functions:
 *   TL_L1, TL_L2                      section attributes (empty on the host, so that sanitizers keep their red zones)
 *   TL_CONST                          section of large tables that are never written
 *   TL_DATA_L1, TL_DATA_L2, TL_DATA_CONST  the sections of variables with contents, for the assembler (tl_binary.h)
 *   TL_ARENA_L1(name, bytes), TL_ARENA_L2  define uint8_t name[bytes] of that level, aligned to 16, without contents
 *   static inline int tl_core_id(void)     0 .. tl_num_cores()-1 inside tl_cluster_run
 *   static inline int tl_num_cores(void)   number of cores of the running team
 *   static inline void tl_barrier(void)    all cores of the team; orders memory
 *   static inline uint32_t tl_cycles(void) a free-running counter of this core: cycles, instructions or nanoseconds
 *   TL_COUNTERS, TL_COUNTER_NAMES          with NET_PROFILE: how many events it counts; their names, tl_cycles first
 *   static inline void tl_counters(uint32_t *now)  all of them
 *   typedef ... tl_dma_t                   one outstanding transfer
 *   typedef ... tl_far_t                   the same, the memory behind L2, of which the plan uses TL_FAR bytes
 *   TL_OP(position), TL_NEXT_OP            with TL_PROFILE, if it can: every core begins this operation, the next one
 *   TL_UNCOUNTED(statement)                if it can: what verification adds to a step is not the network's work */
#if !defined(TL_OP)
#define TL_OP(position)
#endif
#if !defined(TL_NEXT_OP)
#define TL_NEXT_OP ((void)0)
#endif
#if !defined(TL_UNCOUNTED)
#define TL_UNCOUNTED(statement) statement
#endif

typedef void (*tl_fn)(void *arg);

/* Controller: make both memories and the cluster ready; before anything else, and as often as one likes.
 *   tl_init()  supplied by the back end's header */

/* Controller only: run fn(arg) on cores 0..cores-1 and return when all have returned. `stacks` is cores x stack_bytes
 * of L1 for the cores' stacks; back ends that have their own (host threads) ignore it. */
void tl_cluster_run(int cores, tl_fn fn, void *arg, void *stacks, size_t stack_bytes);

/* Asynchronous copies between L2 and L1, started and awaited by one core. The L1 side is contiguous; the L2 side has
 * `rows` rows of `row_bytes`, `pitch` bytes apart. Any size: the back end splits what its engine cannot take at
 * once. */
void tl_dma_in(tl_dma_t *job, void *l1, const void *l2, size_t row_bytes, size_t rows, size_t pitch);
void tl_dma_out(tl_dma_t *job, void *l2, const void *l1, size_t row_bytes, size_t rows, size_t pitch);
void tl_dma_wait(tl_dma_t *job);

/* Asynchronous copies between L2 and a memory that no core reaches, where things are found by their distance from its
 * beginning; as rows, dense in L2. Started and awaited by one core of the team; what is under way may be done in any
 * order. */
void tl_far_in(tl_far_t *job, void *l2, tl_far from, size_t row_bytes, size_t rows, size_t pitch);
void tl_far_out(tl_far_t *job, tl_far to, const void *l2, size_t row_bytes, size_t rows, size_t pitch);
void tl_far_wait(tl_far_t *job);
/* The same at once, to anywhere; by the controller, too. */
void tl_far_read(void *to, tl_far from, size_t bytes);
void tl_far_write(tl_far to, const void *from, size_t bytes);

/* For profiles, where they are printed: the bytes of all transfers so far. */
uint32_t tl_dma_bytes(void);

/* The text console (printf subset is not offered: the firmware side formats for itself) and the end of the program. */
void tl_puts(const char *text);
void tl_put_number(uint32_t number);
void tl_exit(int code);

/* Where a verification run leaves what it computed: a byte stream in a file named by the runner. Writes from the
 * controller or from core 0. tl_record_open returns 0 when nobody listens. */
int tl_record_open(void);
void tl_record(const void *data, size_t bytes);

/* Files of the machine that runs the program or its simulator (under PULP-SDK in builds with TL_FILES, on the
 * simulator): -1, if it cannot be opened; 0, if all bytes were read or written. On the controller. */
int tl_file_open(const char *name, int writing);
int tl_file_seek(int file, uint32_t at); /* what is read next, in bytes from the beginning; 0, if it can be */
int tl_file_read(int file, void *data, size_t bytes);
int tl_file_write(int file, const void *data, size_t bytes);
void tl_file_close(int file);

/* Cores that work where there is scratch for at most so many; 0: all of them. */
static inline int tl_team(int most)
{
    const int cores = tl_num_cores();
    return most && most < cores ? most : cores;
}

/* The share of `total` items that number `id` of so many cores has: contiguous, in multiples of `grain` (the last share
 * takes the rest). Numbers beyond these have nothing. */
static inline void tl_share(int id, int cores, int total, int grain, int *lo, int *hi)
{
    const int blocks = (total + grain - 1) / grain;
    const int per = blocks / cores, extra = blocks % cores;
    const int first = id < cores ? id * per + (id < extra ? id : extra) : blocks;
    const int last = id < cores ? first + per + (id < extra ? 1 : 0) : blocks;
    *lo = first * grain < total ? first * grain : total;
    *hi = last * grain < total ? last * grain : total;
}

/* That of this core, if the first `cores` do them. */
static inline void tl_split_among(int cores, int total, int grain, int *lo, int *hi)
{
    tl_share(tl_core_id(), cores, total, grain, lo, hi);
}

/* The same for all cores. */
static inline void tl_split(int total, int grain, int *lo, int *hi)
{
    tl_split_among(tl_num_cores(), total, grain, lo, hi);
}
#endif
