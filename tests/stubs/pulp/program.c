/* What tests/unit/test_hal_pulp.py runs: a team, transfers of odd sizes both ways, the record. */
#include "tl_hal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 700000
static uint8_t l1[ROOM], l2[ROOM], expected[ROOM];
static uint8_t stacks[8 * 512] __attribute__((aligned(16)));
static int seen[8], cores;
static uint32_t before, after;

static void check(int fine, const char *what)
{
    if (fine)
        return;
    printf("FAIL %s\n", what);
    fflush(stdout);
    exit(1);
}

static void on_core(void *arg)
{
    check(arg == seen, "argument");
    check(tl_num_cores() == cores, "team size");
    before = tl_cycles();
    seen[tl_core_id()]++;
    tl_barrier();
    for (int i = 0; i < cores; i++)
        check(seen[i] == 1, "barrier");
    tl_barrier();
    after = tl_cycles();
}

static void team(int size)
{
    cores = size;
    memset(seen, 0, sizeof seen);
    tl_cluster_run(size, on_core, seen, stacks, 512);
    check(stub_last_task.nb_cores == size, "cores of the task");
    check(stub_last_task.stacks == stacks, "stacks of the task");
    check(stub_last_task.stack_size == 512 && stub_last_task.slave_stack_size == 512, "stack sizes of the task");
    check(after > before, "cycles");
}

static void fill(uint8_t *to, unsigned seed)
{
    for (int i = 0; i < ROOM; i++)
        to[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

static void transfer(size_t row_bytes, size_t rows, size_t pitch, int in, int expected_pieces)
{
    tl_dma_t job;
    const int transfers = stub_transfers;
    fill(l1, 1);
    fill(l2, 2);
    memcpy(expected, in ? l1 : l2, ROOM);
    for (size_t r = 0; r < rows; r++)
        memcpy(expected + 3 + r * (in ? row_bytes : pitch), (in ? l2 : l1) + 3 + r * (in ? pitch : row_bytes),
               row_bytes);
    if (in)
        tl_dma_in(&job, l1 + 3, l2 + 3, row_bytes, rows, pitch);
    else
        tl_dma_out(&job, l2 + 3, l1 + 3, row_bytes, rows, pitch);
    check(stub_counters == (row_bytes && rows ? 1 : 0), "one counter a transfer");
    check(stub_transfers - transfers == expected_pieces, "number of pieces");
    tl_dma_wait(&job);
    check(stub_counters == 0, "the counter is free again");
    check(memcmp(in ? l1 : l2, expected, ROOM) == 0, in ? "data in" : "data out");
}

int main(int argc, char **argv)
{
    (void)argv;
    check(tl_record_open() == 1, "record");
    tl_record("abc", 3);
    for (int size = 1; size <= 8; size++)
        team(size);
    check(stub_opened == 1, "the cluster is opened once");
    for (int in = 0; in < 2; in++) {
        transfer(1, 1, 0, in, 1);
        transfer(65535, 1, 0, in, 2);
        transfer(65536, 1, 0, in, 2);
        transfer(200001, 1, 7, in, 4);
        transfer(17, 5, 17, in, 1);  /* rows that touch: one dimension */
        transfer(12, 33, 50, in, 1); /* one piece of two dimensions */
        transfer(1000, 131, 1001, in, 3);
        transfer(40000, 3, 50000, in, 3); /* a row a piece */
        transfer(70001, 3, 80000, in, 6); /* rows that are too long themselves */
        transfer(0, 5, 8, in, 0);
        transfer(8, 0, 8, in, 0);
    }
    static char text[5];
    const int file = tl_file_open("given.bin", 0);
    check(file >= 0 && !tl_file_read(file, text, 4) && !strcmp(text, "four"), "a file is read");
    check(tl_file_read(file, text, 2), "its end is noticed");
    check(!tl_file_seek(file, 1) && !tl_file_read(file, text, 3) && !strcmp(text, "ourr"), "any byte of it is found");
    tl_file_close(file);
    check(tl_file_open("missing.bin", 0) < 0, "a file that is not there");
    if (argc > 1)
        tl_cluster_run(9, on_core, seen, stacks, 512);
    tl_record("defg", 4);
    tl_puts("DONE\n");
    tl_exit(0);
    return 1;
}
