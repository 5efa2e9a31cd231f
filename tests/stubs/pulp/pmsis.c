/* See pmsis.h. Every misuse ends the program. */
#include "pmsis.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTERS = 16, PIECES = 4096 };

typedef struct {
    pi_cl_dma_copy_t what;
    int counter, two_dimensions;
} piece;

__thread int stub_core;
static __thread int current_counter = -1; /* later pieces of this core join it */
int stub_opened, stub_counters, stub_transfers;
pthread_barrier_t stub_barrier;
struct pi_cluster_task stub_last_task;
static piece pending[PIECES];
static int pieces, taken[COUNTERS], timer_runs;
static unsigned counted;
static pthread_mutex_t engine = PTHREAD_MUTEX_INITIALIZER;

static void demand(int fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr, "misuse of the SDK: %s\n", what);
    exit(9);
}

void pi_cluster_conf_init(struct pi_cluster_conf *conf)
{
    conf->id = 0;
}

void pi_open_from_conf(struct pi_device *device, void *conf)
{
    device->config = conf;
}

int pi_cluster_open(struct pi_device *device)
{
    demand(device->config != 0, "opening without a configuration");
    device->open = 1;
    stub_opened++;
    return 0;
}

struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *), void *arg)
{
    task->entry = entry;
    task->arg = arg;
    task->stacks = 0;
    task->stack_size = 0;
    task->nb_cores = pi_cl_cluster_nb_cores();
    return task; /* slave_stack_size keeps what it had */
}

int pi_cluster_send_task_to_cl(struct pi_device *device, struct pi_cluster_task *task)
{
    demand(device->open, "a task for a closed cluster");
    demand(!task->stacks == !task->stack_size, "stacks without a size, or a size without stacks");
    stub_last_task = *task;
    task->entry(task->arg);
    return 0;
}

typedef struct {
    int core;
    void (*entry)(void *);
    void *arg;
} member;

static void *as_core(void *given)
{
    member *m = given;
    stub_core = m->core;
    m->entry(m->arg);
    return 0;
}

void pi_cl_team_fork(int cores, void (*entry)(void *), void *arg)
{
    pthread_t threads[8];
    member members[8];
    demand(cores >= 1 && cores <= 8, "team size");
    pthread_barrier_init(&stub_barrier, 0, (unsigned)cores);
    for (int i = 0; i < cores; i++)
        members[i] = (member){i, entry, arg};
    for (int i = 1; i < cores; i++)
        demand(!pthread_create(&threads[i], 0, as_core, &members[i]), "thread");
    as_core(&members[0]);
    for (int i = 1; i < cores; i++)
        pthread_join(threads[i], 0);
    pthread_barrier_destroy(&stub_barrier);
}

static int take_counter(void)
{
    for (int i = 0; i < COUNTERS; i++)
        if (!taken[i]) {
            taken[i] = 1;
            stub_counters++;
            return i;
        }
    demand(0, "no counter is free");
    return -1;
}

/* The counter that it has; one that joins has that of this core's last transfer. */
static uint32_t issue(const pi_cl_dma_copy_t *copy, int two_dimensions)
{
    pthread_mutex_lock(&engine);
    demand(pieces < PIECES, "too many transfers");
    if (!copy->merge)
        current_counter = take_counter();
    demand(current_counter >= 0, "joining a transfer that was never begun");
    demand(!two_dimensions || copy->length <= 0xffff, "a row longer than 16 bits");
    demand(!two_dimensions || copy->size % copy->length == 0, "a broken row");
    pending[pieces++] = (piece){*copy, current_counter, two_dimensions};
    stub_transfers++;
    const uint32_t counter = (uint32_t)current_counter;
    pthread_mutex_unlock(&engine);
    return counter;
}

static void issue_copy(pi_cl_dma_copy_t *copy, int two_dimensions)
{
    const uint32_t counter = issue(copy, two_dimensions);
    if (!copy->merge)
        copy->ext = counter;
}

void pi_cl_dma_memcpy(pi_cl_dma_copy_t *copy)
{
    issue_copy(copy, 0);
}

void pi_cl_dma_memcpy_2d(pi_cl_dma_copy_t *copy)
{
    issue_copy(copy, 1);
}

/* The SDK cuts sizes to 16 bits here, too. */
void pi_cl_dma_cmd(uint32_t ext, uint32_t loc, uint32_t size, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd)
{
    cmd->id = issue(&(pi_cl_dma_copy_t){.ext = ext, .loc = loc, .size = (uint16_t)size, .dir = dir}, 0);
}

void pi_cl_dma_cmd_2d(uint32_t ext, uint32_t loc, uint32_t size, uint32_t stride, uint32_t length, pi_cl_dma_dir_e dir,
                      pi_cl_dma_cmd_t *cmd)
{
    const pi_cl_dma_copy_t copy = {
        .ext = ext, .loc = loc, .size = (uint16_t)size, .dir = dir, .stride = stride, .length = length};
    cmd->id = issue(&copy, 1);
}

static void carry_out(const piece *p)
{
    const uint32_t length = p->two_dimensions ? p->what.length : p->what.size;
    char *loc = (char *)(uintptr_t)p->what.loc, *ext = (char *)(uintptr_t)p->what.ext;
    for (uint32_t done = 0; done < p->what.size; done += length, loc += length, ext += p->what.stride)
        if (p->what.dir == PI_CL_DMA_DIR_EXT2LOC)
            memcpy(loc, ext, length);
        else
            memcpy(ext, loc, length);
}

static void complete(int counter)
{
    int kept = 0;
    for (int i = 0; i < pieces; i++)
        if (pending[i].counter == counter)
            carry_out(&pending[i]);
        else
            pending[kept++] = pending[i];
    pieces = kept;
}

static void release(int counter)
{
    demand(counter >= 0 && counter < COUNTERS && taken[counter], "waiting for a counter that is not taken");
    taken[counter] = 0;
    stub_counters--;
}

void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd)
{
    pthread_mutex_lock(&engine);
    complete((int)cmd->id);
    release((int)cmd->id);
    pthread_mutex_unlock(&engine);
}

#include "ports.h"

void pmsis_exit(int code)
{
    fflush(stdout);
    exit(code);
}

void pi_perf_conf(unsigned events)
{
    demand(stub_core == 0 && events >> PI_PERF_CYCLES & 1, "the cycle counter is what we want, on the master");
    counted = events;
}

void pi_perf_cl_reset(void)
{
    timer_runs = 0;
}

void pi_perf_cl_start(void)
{
    timer_runs = 1;
}

uint32_t pi_perf_cl_read(int event)
{
    static uint32_t cycles;
    demand(timer_runs && counted >> event & 1, "reading a counter that does not run");
    return __atomic_add_fetch(&cycles, 1, __ATOMIC_SEQ_CST);
}

/* The simulator's file calls. */
uint32_t semihost(uint32_t operation, const void *block)
{
    static FILE *files[2]; /* written, read */
    const uint32_t *words = block;
    if (operation == 1) {
        const int reads = words[1] == 1;
        demand((reads || words[1] == 5) && strlen((char *)(uintptr_t)words[0]) == words[2],
               "open: mode or length of the name");
        files[reads] = fopen((char *)(uintptr_t)words[0], reads ? "rb" : "wb");
        return files[reads] ? 7 + reads : -1;
    }
    if (operation == 6) {
        demand(words[0] == 8, "read: handle");
        return (int)(words[2] - fread((void *)(uintptr_t)words[1], 1, words[2], files[1]));
    }
    if (operation == 5) {
        demand(words[0] == 7, "write: handle");
        return (int)(words[2] - fwrite((void *)(uintptr_t)words[1], 1, words[2], files[0]));
    }
    if (operation == 10) {
        demand(words[0] == 8, "seek: handle");
        return fseek(files[1], (long)words[1], SEEK_SET);
    }
    demand(operation == 2 && ((uintptr_t)block == 7 || (uintptr_t)block == 8), "close: handle");
    return fclose(files[(uintptr_t)block - 7]);
}
