/* Stands in for PULP-SDK on the machine that runs the tests: the few calls that c_lib/hal/pulp.c makes, in our own
 * words. Threads are cores. The DMA engine is strict: a transfer happens when it is awaited, its size has 16 bits, and
 * issuing it overwrites the start of its descriptor, as the SDK does. */
#ifndef STUB_PMSIS_H
#define STUB_PMSIS_H
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define PI_L1
#define PI_L2
enum { PI_PERF_INSTR = 1, PI_PERF_LD_STALL, PI_PERF_IMISS = 4, PI_PERF_TCDM_CONT = 16, PI_PERF_CYCLES };

typedef enum { PI_CL_DMA_DIR_LOC2EXT = 0, PI_CL_DMA_DIR_EXT2LOC = 1 } pi_cl_dma_dir_e;

typedef struct {
    uint32_t ext, loc, id;
    uint16_t size;
    pi_cl_dma_dir_e dir;
    uint8_t merge;
    uint32_t stride, length;
} pi_cl_dma_copy_t;

typedef struct {
    uint32_t id;
} pi_cl_dma_cmd_t;

struct pi_device {
    void *config;
    int open;
};
struct pi_cluster_conf {
    int id;
};
struct pi_cluster_task {
    void (*entry)(void *);
    void *arg;
    void *stacks;
    uint32_t stack_size, slave_stack_size;
    int nb_cores;
};

#if defined(STUB_PORTS) /* of the DMA engine, one for each core, as the SDK's archi and hal describe it */
#define ARCHI_MCHAN_DEMUX_ADDR 0x10204400u
enum { MCHAN_CMD_OFFSET, MCHAN_STATUS_OFFSET = 4, ARCHI_CL_EVT_DMA0 = 8 };
enum { PLP_DMA_1D, PLP_DMA_2D, PLP_DMA_NO_TRIG_IRQ = 0, PLP_DMA_TRIG_EVT, PLP_DMA_PRIV = 0 };
uint32_t plp_dma_getCmd(int ext2loc, unsigned size, int is2D, int trigEvt, int trigIrq, int broadcast);
uint32_t pulp_read32(uint32_t address);
void pulp_write32(uint32_t address, uint32_t value);
void eu_evt_maskWaitAndClr(unsigned mask);
#endif

extern __thread int stub_core;
extern pthread_barrier_t stub_barrier;
extern struct pi_cluster_task stub_last_task;
extern int stub_opened;    /* how often the cluster was */
extern int stub_counters;  /* of the DMA engine: how many are taken now */
extern int stub_transfers; /* how many were issued */

void pi_cluster_conf_init(struct pi_cluster_conf *conf);
void pi_open_from_conf(struct pi_device *device, void *conf);
int pi_cluster_open(struct pi_device *device);
struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *), void *arg);
int pi_cluster_send_task_to_cl(struct pi_device *device, struct pi_cluster_task *task);
void pi_cl_team_fork(int cores, void (*entry)(void *), void *arg);
void pi_cl_dma_memcpy(pi_cl_dma_copy_t *copy);
void pi_cl_dma_memcpy_2d(pi_cl_dma_copy_t *copy);
void pi_cl_dma_cmd(uint32_t ext, uint32_t loc, uint32_t size, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd);
void pi_cl_dma_cmd_2d(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length, pi_cl_dma_dir_e dir,
                      pi_cl_dma_cmd_t *cmd);
void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd);
void pmsis_exit(int code);
void pi_perf_conf(unsigned events);
void pi_perf_cl_reset(void);
void pi_perf_cl_start(void);
uint32_t pi_perf_cl_read(int event);

static inline int pi_cl_cluster_nb_cores(void)
{
    return 8;
}

static inline uint32_t pi_core_id(void)
{
    return (uint32_t)stub_core;
}

static inline void pi_cl_team_barrier(void)
{
    pthread_barrier_wait(&stub_barrier);
}
#endif
