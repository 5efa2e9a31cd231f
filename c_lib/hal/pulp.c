/* PULP-SDK back end: the cluster is opened once; each run sends it one task, whose master forks the team once. */
#if defined(TL_HAL_PULP)
#include "tl_hal.h"
#include <stdio.h>

#if defined(ARCHI_CC_CORE_ID)
#error "clusters with a controller core of their own start their team in another way"
#endif

/* A transfer's size is 16 bits wide in the SDK; a multiple of 16 keeps the pieces aligned. */
enum { LARGEST_TRANSFER = 65520 };

static struct pi_device cluster;
static struct pi_cluster_conf configuration;
static int is_open;
static struct {
    tl_fn fn;
    void *arg;
    int cores;
} job;
PI_L1 int tl_pulp_team;

/* ---- console and end ---- */

void tl_puts(const char *text)
{
    printf("%s", text);
}

void tl_pulp_fail(const char *what)
{
    printf("FAULT: %s\n", what);
    pmsis_exit(3);
}

/* ---- the record: a file that GVSoC writes for us (pulp_files.c), only in builds that ask for it ---- */

#if defined(TL_RECORD_FILE)
static int record = -1;

int tl_record_open(void)
{
    tl_pulp_open();
    record = tl_file_open(TL_RECORD_FILE, 1);
    if (record < 0)
        tl_pulp_fail("opening the record");
    return 1;
}

void tl_record(const void *data, size_t bytes)
{
    if (tl_file_write(record, data, bytes))
        tl_pulp_fail("writing the record");
}

static void close_record(void)
{
    if (record >= 0)
        tl_file_close(record);
}
#else
int tl_record_open(void)
{
    tl_pulp_open();
    return 0;
}

void tl_record(const void *data, size_t bytes)
{
    (void)data;
    (void)bytes;
}

static void close_record(void)
{
}
#endif

void tl_exit(int code)
{
    close_record();
    pmsis_exit(code);
}

/* ---- the team ---- */

void tl_pulp_open(void)
{
    if (is_open)
        return;
    pi_cluster_conf_init(&configuration);
    configuration.id = 0;
    pi_open_from_conf(&cluster, &configuration);
    if (pi_cluster_open(&cluster))
        tl_pulp_fail("opening the cluster");
#if defined(TL_FAR)
    tl_pulp_open_far();
#endif
    is_open = 1;
}

static void start_cycles(void)
{
    static int started;
    if (started)
        return;
    started = 1;
    pi_perf_conf(TL_COUNTED);
    pi_perf_cl_reset();
    pi_perf_cl_start();
}

static void on_master(void *unused)
{
    (void)unused;
    start_cycles();
    tl_pulp_team = job.cores;
    pi_cl_team_fork(job.cores, job.fn, job.arg);
}

/* Core i's stack is the i-th of `stacks`: the SDK puts the master's first and the others behind it. */
void tl_cluster_run(int cores, tl_fn fn, void *arg, void *stacks, size_t stack_bytes)
{
    struct pi_cluster_task task = {0};
    if (cores < 1 || cores > pi_cl_cluster_nb_cores())
        tl_pulp_fail("the cluster has fewer cores than the plan asks for");
    tl_pulp_open();
    job.fn = fn;
    job.arg = arg;
    job.cores = cores;
    pi_cluster_task(&task, on_master, 0);
    task.nb_cores = cores;
    if (stacks && stack_bytes) { /* else the SDK takes its own from the heap of L1 */
        task.stacks = stacks;
        task.stack_size = (uint32_t)stack_bytes;
        task.slave_stack_size = (uint32_t)stack_bytes;
    }
    if (pi_cluster_send_task_to_cl(&cluster, &task))
        tl_pulp_fail("sending the cluster its task");
}

/* ---- transfers ---- */

typedef struct {
    uint32_t l1, l2;
    pi_cl_dma_dir_e direction;
} side;

#if defined(ARCHI_MCHAN_DEMUX_ADDR) && !(defined(ARCHI_HAS_MCHAN_64) && ARCHI_HAS_MCHAN_64)
/* The engine has a port for each core. The SDK's functions go by the one that all share, one core after the other
 * behind a lock: with seven streams that is 150 cycles a tile. Words that follow a counter's number belong to it. */
#define COMMAND (ARCHI_MCHAN_DEMUX_ADDR + MCHAN_CMD_OFFSET)
#define STATUS (ARCHI_MCHAN_DEMUX_ADDR + MCHAN_STATUS_OFFSET)

static inline void join(side at, size_t row_bytes, size_t rows, size_t pitch)
{
    const int flat = rows == 1 || pitch == row_bytes;
    __asm__ volatile("" ::: "memory"); /* what a transfer takes away is written before it starts */
    pulp_write32(COMMAND, plp_dma_getCmd(at.direction, (unsigned)(row_bytes * rows), flat ? PLP_DMA_1D : PLP_DMA_2D,
                                         PLP_DMA_TRIG_EVT, PLP_DMA_NO_TRIG_IRQ, PLP_DMA_PRIV));
    pulp_write32(COMMAND, at.l1);
    pulp_write32(COMMAND, at.l2);
    if (flat)
        return;
    pulp_write32(COMMAND, (uint32_t)row_bytes);
    pulp_write32(COMMAND, (uint32_t)pitch);
}

/* At most LARGEST_TRANSFER bytes, under a counter of their own. */
static inline void begin(tl_dma_t *transfer, side at, size_t row_bytes, size_t rows, size_t pitch)
{
    transfer->pending = 1;
    transfer->counter = pulp_read32(COMMAND);
    join(at, row_bytes, rows, pitch);
}

static inline void finish(tl_dma_t *transfer)
{
    const uint32_t own = 1u << transfer->counter;
    while (pulp_read32(STATUS) & own)
        eu_evt_maskWaitAndClr(1 << ARCHI_CL_EVT_DMA0);
    pulp_write32(STATUS, own);
    __asm__ volatile("" ::: "memory"); /* what has arrived is read behind that */
}
#else
static inline void begin(tl_dma_t *transfer, side at, size_t row_bytes, size_t rows, size_t pitch)
{
    const uint32_t bytes = (uint32_t)(row_bytes * rows);
    transfer->pending = 1;
    if (rows == 1 || pitch == row_bytes)
        pi_cl_dma_cmd(at.l2, at.l1, bytes, at.direction, &transfer->command);
    else
        pi_cl_dma_cmd_2d(at.l2, at.l1, bytes, (uint32_t)pitch, (uint32_t)row_bytes, at.direction, &transfer->command);
}

static void join(side at, size_t row_bytes, size_t rows, size_t pitch)
{
    pi_cl_dma_copy_t piece = {.ext = at.l2, .loc = at.l1, .dir = at.direction, .merge = 1};
    piece.size = (uint16_t)(row_bytes * rows);
    piece.stride = (uint32_t)pitch;
    piece.length = (uint32_t)row_bytes;
    if (rows == 1 || pitch == row_bytes)
        pi_cl_dma_memcpy(&piece);
    else
        pi_cl_dma_memcpy_2d(&piece);
}

static inline void finish(tl_dma_t *transfer)
{
    pi_cl_dma_cmd_wait(&transfer->command);
}
#endif

/* The first piece takes one of the engine's counters, the others join it. */
static void push(tl_dma_t *transfer, side at, size_t row_bytes, size_t rows, size_t pitch)
{
    if (transfer->pending)
        join(at, row_bytes, rows, pitch);
    else
        begin(transfer, at, row_bytes, rows, pitch);
}

static void push_row(tl_dma_t *transfer, side at, size_t bytes)
{
    while (bytes) {
        const size_t some = bytes < LARGEST_TRANSFER ? bytes : LARGEST_TRANSFER;
        push(transfer, at, some, 1, some);
        at.l1 += (uint32_t)some;
        at.l2 += (uint32_t)some;
        bytes -= some;
    }
}

static uint32_t moved[TL_MOST_CORES]; /* counted for profiles only */

uint32_t tl_dma_bytes(void)
{
    uint32_t sum = 0;
    for (int core = 0; core < TL_MOST_CORES; core++)
        sum += moved[core];
    return sum;
}

/* What the engine does not take at once. A function of its own, so that whoever seldom calls it needs no stack. */
static __attribute__((noinline)) void start_pieces(tl_dma_t *transfer, uint32_t l1, uint32_t l2, size_t row_bytes,
                                                   size_t rows, size_t pitch, pi_cl_dma_dir_e direction)
{
    side at = {l1, l2, direction};
    transfer->pending = 0;
    if (rows == 1 || pitch == row_bytes) {
        push_row(transfer, at, row_bytes * rows);
        return;
    }
    const size_t at_once = row_bytes > LARGEST_TRANSFER || !row_bytes ? 1 : LARGEST_TRANSFER / row_bytes;
    while (rows) {
        const size_t some = rows < at_once ? rows : at_once;
        if (some == 1)
            push_row(transfer, at, row_bytes);
        else
            push(transfer, at, row_bytes, some, pitch);
        at.l1 += (uint32_t)(some * row_bytes);
        at.l2 += (uint32_t)(some * pitch);
        rows -= some;
    }
}

/* In one piece where that is possible: one function for both directions, which puts nothing on the stack. */
static __attribute__((noinline)) void start(tl_dma_t *transfer, uint32_t l1, uint32_t l2, size_t row_bytes, size_t rows,
                                            size_t pitch, pi_cl_dma_dir_e direction)
{
    const size_t bytes = row_bytes * rows;
    const side at = {l1, l2, direction};
    if (bytes == 0 || bytes > LARGEST_TRANSFER)
        start_pieces(transfer, l1, l2, row_bytes, rows, pitch, direction);
    else
        begin(transfer, at, row_bytes, rows, pitch);
#ifdef NET_PROFILE
    moved[tl_core_id()] += (uint32_t)bytes;
#endif
}

void tl_dma_in(tl_dma_t *transfer, void *l1, const void *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    start(transfer, (uint32_t)(uintptr_t)l1, (uint32_t)(uintptr_t)l2, row_bytes, rows, pitch, PI_CL_DMA_DIR_EXT2LOC);
}

void tl_dma_out(tl_dma_t *transfer, void *l2, const void *l1, size_t row_bytes, size_t rows, size_t pitch)
{
    start(transfer, (uint32_t)(uintptr_t)l1, (uint32_t)(uintptr_t)l2, row_bytes, rows, pitch, PI_CL_DMA_DIR_LOC2EXT);
}

void tl_dma_wait(tl_dma_t *transfer)
{
    if (!transfer->pending)
        return;
    transfer->pending = 0;
    finish(transfer);
}
#endif
