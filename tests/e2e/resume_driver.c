/* N steps at once; k steps, a save, another life, a load and the rest: for every k. Then the last save with power lost
 * at every byte; where the state is large, at every byte of the first and last EDGE that are erased or written and at
 * CUTS places in between. `STEP(sample)` calls net_train_step. Prints the bytes of the states it compared. */
#include "data.h"
#include "net.h"
#include "weights.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 10, PAGE = 256, SMALL = 10000, EDGE = 64, CUTS = 500, SLOT = (NET_STATE_BYTES / PAGE + 1) * PAGE };

static uint8_t flash[2][SLOT], last[NET_STATE_BYTES], found[NET_STATE_BYTES], page[PAGE];
static float losses[STEPS];
static long budget = -1;
static jmp_buf power;

static int read_slot(const tl_store *store, int slot, uint32_t at, void *data, uint32_t bytes)
{
    (void)store;
    memcpy(data, flash[slot] + at, bytes);
    return 0;
}

static void change(uint8_t *at, uint8_t value)
{
    if (!budget--)
        longjmp(power, 1);
    *at = value;
}

static int erase_slot(const tl_store *store, int slot)
{
    (void)store;
    for (int i = 0; i < SLOT; i++)
        change(&flash[slot][i], 0xff);
    return 0;
}

static int write_slot(const tl_store *store, int slot, uint32_t at, const void *data)
{
    for (uint32_t i = 0; i < store->page; i++)
        change(&flash[slot][at + i], ((const uint8_t *)data)[i]);
    return 0;
}

static const tl_store store = {read_slot, erase_slot, write_slot, PAGE, page, 0};

static void demand(int fine, const char *what, int k)
{
    if (fine)
        return;
    printf("%s, k = %d\n", what, k);
    exit(1);
}

/* The contents of RAM are lost. */
static void restart(void)
{
    for (int i = 0; i < net_state.count; i++)
        memset(net_state.pieces[i].data, 0xa5, net_state.pieces[i].bytes);
    net_init();
}

static void go_on(int k)
{
    for (int step = net_steps(); step < STEPS; step++) {
        const float loss = STEP(step % DATA_SAMPLES);
        demand(!memcmp(&loss, &losses[step], sizeof loss), "another loss", k);
    }
    net_save(found);
    demand(!memcmp(found, last, sizeof last), "another state", k);
}

/* The place to try behind this one; a slot is erased, then written. */
static long next(long at)
{
    const long in_slot = at % SLOT, far = SLOT / (CUTS / 2) + 1;
    if (SLOT < SMALL || in_slot < EDGE || in_slot >= SLOT - EDGE)
        return at + 1;
    return in_slot + far < SLOT - EDGE ? at + far : at - in_slot + SLOT - EDGE;
}

/* The save after step k, cut off: step k or the one before is there. */
static long cut_everywhere(const uint8_t (*was)[SLOT], const uint8_t *now, int k)
{
    static long cuts;
    for (volatile long at = 0; at < 2 * SLOT; at = next(at), cuts++) {
        memcpy(flash, was, sizeof flash);
        net_load(now, NET_STATE_BYTES);
        budget = at;
        if (!setjmp(power))
            net_save_to(&store);
        budget = -1;
        restart();
        demand(net_load_from(&store) == 0, "nothing left", k);
        demand(net_steps() == k - 1 || (net_steps() == k && at >= SLOT), "a mixture", k);
    }
    go_on(k);
    return cuts;
}

int main(void)
{
    static uint8_t states[STEPS + 1][NET_STATE_BYTES], was[2][SLOT];
    net_init();
    for (int step = 0; step < STEPS; step++) {
        net_save(states[step]);
        losses[step] = STEP(step % DATA_SAMPLES);
    }
    net_save(last);
    memcpy(states[STEPS], last, sizeof last);
    memset(flash, 0xff, sizeof flash);
    for (int k = 0; k <= STEPS; k++) {
        memcpy(was, flash, sizeof flash);
        restart();
        demand(net_load(states[k], NET_STATE_BYTES) == 0, "does not load", k);
        demand(net_save_to(&store) == 0, "does not save", k);
        restart();
        demand(net_load_from(&store) == 0 && net_steps() == k, "does not come back", k);
        go_on(k);
    }
    const long cuts = cut_everywhere((const uint8_t (*)[SLOT])was, states[STEPS], STEPS);
    printf("fine: %d steps, %d bytes, %ld cuts\n", STEPS, NET_STATE_BYTES, cuts);
    return 0;
}
