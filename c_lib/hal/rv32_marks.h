/* What the marks in a program mean (TL_RV32_MARK in hal_rv32_marks.h): instructions of every core and of every
 * operation, without those of the emulation itself. Whoever counts includes this once: rv32_counts.c for QEMU,
 * rv32_spike.c. */
#ifndef RV32_MARKS_H
#define RV32_MARKS_H
#include "hal_rv32_marks.h"
#include <stdint.h>

/* Pauses lie within each other on the cluster. On a single core they do not, but QEMU may start a block anew behind
 * one. */
#if defined(TL_SINGLE)
enum { NESTED = 0, CONTROLLERS = 0 };
#else
enum { NESTED = 1, CONTROLLERS = 1 };
#endif
enum { HARTS = 16, MOST_OPERATIONS = 16384 };

typedef struct {
    uint64_t instructions, phase;
    int running, paused;
} hart_state;
static struct {
    hart_state harts[HARTS];
    uint64_t critical;                    /* the slowest core of each phase, summed: what the team as a whole takes */
    uint64_t operations[MOST_OPERATIONS]; /* the same by operation; 0 in those that did not run */
    uint32_t operation;                   /* in which the team is */
} tl_rv32_counted = {.operation = MOST_OPERATIONS};

static inline void count(unsigned hart, uint32_t instructions)
{
    hart_state *h = &tl_rv32_counted.harts[hart % HARTS];
    if (h->running && !h->paused)
        h->phase += instructions;
}

static void end_phase(void)
{
    uint64_t longest = 0;
    for (int i = 0; i < HARTS; i++) {
        hart_state *h = &tl_rv32_counted.harts[i];
        if (h->phase > longest)
            longest = h->phase;
        h->instructions += h->phase;
        h->phase = 0;
    }
    tl_rv32_counted.critical += longest;
    if (tl_rv32_counted.operation < MOST_OPERATIONS)
        tl_rv32_counted.operations[tl_rv32_counted.operation] += longest;
}

/* Small numbers are positions of operations. Every core passes them, and all cores are in the same operation. */
static void mark(unsigned hart, uint32_t number)
{
    hart_state *h = &tl_rv32_counted.harts[hart % HARTS];
    switch (number) {
    case TL_RV32_RUN:
        h->running = 1;
        break;
    case TL_RV32_END:
        h->running = 0;
        break;
    case TL_RV32_PAUSE:
        h->paused = NESTED ? h->paused + 1 : 1;
        break;
    case TL_RV32_RESUME:
        h->paused = NESTED ? h->paused - 1 : 0;
        break;
    case TL_RV32_PHASE:
        end_phase();
        break;
    case TL_RV32_NEXT: /* every core passes it, and counts once */
        tl_rv32_counted.operation += hart % HARTS == CONTROLLERS;
        break;
    default:
        tl_rv32_counted.operation = number;
    }
}
#endif
