/* PULP-SDK back end: the memory behind L2 is HyperRAM, to and from which the controller's uDMA copies. */
#if defined(TL_HAL_PULP) && defined(TL_FAR)
#include "bsp/ram/hyperram.h"
#include "tl_hal.h"

enum { DRIVER_SLOTS = 2 }; /* copies that it takes at once; with four waiting, GVSoC's never ends one */

static struct pi_device ram;
static uint32_t ram_begin;
static tl_far_t *under_way[DRIVER_SLOTS]; /* the oldest first */

void tl_pulp_open_far(void)
{
    static struct pi_hyperram_conf conf;
    pi_hyperram_conf_init(&conf);
    pi_open_from_conf(&ram, &conf);
    if (pi_ram_open(&ram) || pi_ram_alloc(&ram, &ram_begin, TL_FAR))
        tl_pulp_fail("opening the HyperRAM");
}

static tl_far_t *begun(tl_far_t *job)
{
    if (under_way[DRIVER_SLOTS - 1])
        tl_far_wait(under_way[0]);
    under_way[under_way[0] != 0] = job;
    job->pending = 1;
    return job;
}

static void copy(tl_far_t *job, void *l2, tl_far at, size_t row_bytes, size_t rows, size_t pitch, int inward)
{
    pi_cl_ram_req_t *request = &begun(job)->request;
    if (rows == 1)
        pi_cl_ram_copy(&ram, ram_begin + at, l2, row_bytes, inward, request);
    else
        pi_cl_ram_copy_2d(&ram, ram_begin + at, l2, row_bytes * rows, pitch, row_bytes, inward, request);
}

void tl_far_in(tl_far_t *job, void *l2, tl_far from, size_t row_bytes, size_t rows, size_t pitch)
{
    copy(job, l2, from, row_bytes, rows, pitch, 1);
}

void tl_far_out(tl_far_t *job, tl_far to, const void *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    copy(job, (void *)(uintptr_t)l2, to, row_bytes, rows, pitch, 0);
}

void tl_far_wait(tl_far_t *job)
{
    if (!job->pending)
        return;
    pi_cl_ram_read_wait(&job->request);
    job->pending = 0;
    if (under_way[0] == job)
        under_way[0] = under_way[1];
    under_way[1] = 0;
}

void tl_far_read(void *to, tl_far from, size_t bytes)
{
    tl_far_t job;
    if (hal_is_fc()) {
        pi_ram_read(&ram, ram_begin + from, to, bytes);
        return;
    }
    tl_far_in(&job, to, from, bytes, 1, 0);
    tl_far_wait(&job);
}

void tl_far_write(tl_far to, const void *from, size_t bytes)
{
    pi_ram_write(&ram, ram_begin + to, (void *)(uintptr_t)from, bytes);
}
#endif
