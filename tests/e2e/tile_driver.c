/* Runs every operation untiled, then in each of its tilings from the same contents of memory, and compares all of L2.
 * Transfers happen when they start or as late as when they are awaited, at random: a result must not depend on it. */
#include "cases.h"
#include "tl_stream.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *to;
    const char *from;
    size_t row_bytes, rows, to_pitch, from_pitch;
    int waiting, started;
} transfer;

tl_lane lanes[MOST_STREAMS];
uint8_t l1[L1_BYTES + GUARD] __attribute__((aligned(16)));
uint8_t l2[L2_BYTES] __attribute__((aligned(16)));
uint8_t scratch[SCRATCH_BYTES] __attribute__((aligned(16)));
static uint8_t before[L2_BYTES], expected[L2_BYTES];
static transfer transfers[MOST_STREAMS * sizeof(tl_lane)];
static unsigned dice = SEED;

static void check(int failed, const char *what)
{
    if (failed) {
        printf("%s\n", what);
        exit(3);
    }
}

static transfer *of(const tl_dma_t *job)
{
    return &transfers[(const char *)job - (const char *)lanes];
}

static void finish(transfer *t)
{
    for (size_t r = 0; r < t->rows; r++)
        memcpy(t->to + r * t->to_pitch, t->from + r * t->from_pitch, t->row_bytes);
    t->waiting = 0;
}

static void start(const tl_dma_t *job, transfer wanted)
{
    transfer *t = of(job);
    check(t->waiting, "a transfer was started whose job is still under way");
    *t = wanted;
    t->waiting = t->started = 1;
    dice = dice * 1664525u + 1013904223u;
    if (dice >> 31)
        finish(t);
}

void tl_dma_in(tl_dma_t *job, void *to, const void *from, size_t row_bytes, size_t rows, size_t pitch)
{
    memset(to, 0xfe, row_bytes * rows);
    start(job, (transfer){to, from, row_bytes, rows, row_bytes, pitch, 0, 0});
}

void tl_dma_out(tl_dma_t *job, void *to, const void *from, size_t row_bytes, size_t rows, size_t pitch)
{
    start(job, (transfer){to, from, row_bytes, rows, pitch, row_bytes, 0, 0});
}

void tl_dma_wait(tl_dma_t *job)
{
    transfer *t = of(job);
    check(!t->started, "waiting for a transfer that was never started");
    if (t->waiting)
        finish(t);
}

static int spilled(const one_case *c)
{
    for (int i = c->l1_bytes; i < (int)sizeof l1; i++)
        if (l1[i] != 0xff)
            return 1;
    for (size_t i = 0; i < sizeof transfers / sizeof transfers[0]; i++)
        if (transfers[i].waiting)
            return 1;
    return 0;
}

static void compare(const one_case *c, int number)
{
    memcpy(l2, before, sizeof l2);
    memset(l1, 0xff, sizeof l1);
    memset(transfers, 0, sizeof transfers);
    fprintf(stderr, "running %d\n", number);
    tl_cluster_run(c->cores, c->run, 0, 0, 0);
    if (memcmp(l2, expected, COMPARED_BYTES))
        printf("differs %d\n", number);
    else if (spilled(c))
        printf("spills %d\n", number);
    else
        printf("same %d\n", number);
}

int main(int argc, char **argv)
{
    FILE *file = argc == 3 ? fopen(argv[1], "rb") : 0;
    check(!file || fread(l2, 1, sizeof l2, file) != sizeof l2, "no image of L2");
    fclose(file);
    for (int i = 0; i < OPERATIONS; i++) {
        const one_operation *o = &operations[i];
        memcpy(before, l2, sizeof l2);
        memset(scratch, 0xff, sizeof scratch);
        tl_cluster_run(TEAM, o->run, 0, 0, 0);
        memcpy(expected, l2, sizeof l2);
        for (int k = 0; k < o->cases; k++)
            compare(&cases[o->first + k], o->first + k);
        memcpy(l2, expected, sizeof l2);
    }
    file = fopen(argv[2], "wb");
    check(!file || fwrite(l2, 1, sizeof l2, file) != sizeof l2 || fclose(file), "no room for the image of L2");
    return 0;
}
