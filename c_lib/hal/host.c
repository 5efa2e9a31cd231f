/* Host back end: threads as cores, copies by memcpy, the record in a file. */
#if !defined(TL_HAL_PULP) && !defined(TL_HAL_RV32) && !defined(TL_HAL_SINGLE)
#define _GNU_SOURCE
#include "tl_hal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 64

__thread int tl_host_core;
int tl_host_cores = 1;
pthread_barrier_t tl_host_barrier;

typedef struct {
    int core;
    tl_fn fn;
    void *arg;
} member;

static void *as_core(void *given)
{
    const member *m = given;
    tl_host_core = m->core;
    m->fn(m->arg);
    return 0;
}

static void check(int failed, const char *what)
{
    if (failed) {
        fprintf(stderr, "%s failed\n", what);
        exit(3);
    }
}

void tl_cluster_run(int cores, tl_fn fn, void *arg, void *stacks, size_t stack_bytes)
{
    pthread_t threads[MOST_THREADS];
    member members[MOST_THREADS];
    (void)stacks;
    (void)stack_bytes;
    check(cores < 1 || cores > MOST_THREADS, "team size");
    tl_host_cores = cores;
    check(pthread_barrier_init(&tl_host_barrier, 0, (unsigned)cores), "barrier");
    for (int i = 0; i < cores; i++)
        members[i] = (member){i, fn, arg};
    for (int i = 1; i < cores; i++)
        check(pthread_create(&threads[i], 0, as_core, &members[i]), "thread");
    as_core(&members[0]);
    for (int i = 1; i < cores; i++)
        pthread_join(threads[i], 0);
    pthread_barrier_destroy(&tl_host_barrier);
    tl_host_cores = 1;
}

static uint32_t moved;

uint32_t tl_dma_bytes(void)
{
    return moved;
}

void tl_dma_in(tl_dma_t *job, void *l1, const void *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    for (size_t r = 0; r < rows; r++)
        memcpy((char *)l1 + r * row_bytes, (const char *)l2 + r * pitch, row_bytes);
    __atomic_fetch_add(&moved, (uint32_t)(row_bytes * rows), __ATOMIC_RELAXED);
    job->done = 1;
}

void tl_dma_out(tl_dma_t *job, void *l2, const void *l1, size_t row_bytes, size_t rows, size_t pitch)
{
    for (size_t r = 0; r < rows; r++)
        memcpy((char *)l2 + r * pitch, (const char *)l1 + r * row_bytes, row_bytes);
    __atomic_fetch_add(&moved, (uint32_t)(row_bytes * rows), __ATOMIC_RELAXED);
    job->done = 1;
}

void tl_dma_wait(tl_dma_t *job)
{
    check(!job->done, "waiting for a transfer that was never started");
}

/* Carried out when it is awaited: what is used too early, or overwritten, shows. */
#if defined(TL_FAR)
extern tl_far_bytes tl_far_memory;
#else
enum { TL_FAR = 0 };
static uint8_t tl_far_memory[1];
#endif

static uint8_t *far_place(tl_far at, size_t bytes)
{
    check(at > TL_FAR || bytes > TL_FAR - at, "staying within what is planned behind L2");
    return tl_far_memory + at;
}

void tl_far_in(tl_far_t *job, void *l2, tl_far from, size_t row_bytes, size_t rows, size_t pitch)
{
    *job = (tl_far_t){l2, from, row_bytes, rows, pitch, 1};
}

void tl_far_out(tl_far_t *job, tl_far to, const void *l2, size_t row_bytes, size_t rows, size_t pitch)
{
    *job = (tl_far_t){(char *)(uintptr_t)l2, to, row_bytes, rows, pitch, 0};
}

void tl_far_wait(tl_far_t *job)
{
    for (; job->rows; job->rows--) {
        if (job->inward)
            tl_far_read(job->near, job->far, job->row_bytes);
        else
            tl_far_write(job->far, job->near, job->row_bytes);
        job->near += job->row_bytes;
        job->far += (tl_far)job->pitch;
    }
}

void tl_far_read(void *to, tl_far from, size_t bytes)
{
    memcpy(to, far_place(from, bytes), bytes);
}

void tl_far_write(tl_far to, const void *from, size_t bytes)
{
    memcpy(far_place(to, bytes), from, bytes);
}

void tl_puts(const char *text)
{
    fputs(text, stdout);
    fflush(stdout);
}

int tl_file_open(const char *name, int writing)
{
    return writing ? open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644) : open(name, O_RDONLY);
}

int tl_file_seek(int file, uint32_t at)
{
    return lseek(file, at, SEEK_SET) != (off_t)at;
}

int tl_file_read(int file, void *data, size_t bytes)
{
    return read(file, data, bytes) != (ssize_t)bytes;
}

int tl_file_write(int file, const void *data, size_t bytes)
{
    return write(file, data, bytes) != (ssize_t)bytes;
}

void tl_file_close(int file)
{
    close(file);
}

static FILE *record;

static void check_record(int failed, const char *what)
{
    if (failed) {
        fprintf(stderr, "%s the record: %s\n", what, strerror(errno));
        exit(3);
    }
}

void tl_exit(int code)
{
    if (record)
        check_record(fclose(record), "closing");
    exit(code);
}

int tl_record_open(void)
{
    const char *path = getenv("TL_RECORD");
    if (path && *path) {
        record = fopen(path, "wb");
        check_record(!record, "opening");
    }
    return record != 0;
}

void tl_record(const void *data, size_t bytes)
{
    check_record(fwrite(data, 1, bytes, record) != bytes, "writing");
}
#endif
