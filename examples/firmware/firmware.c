/* A firmware around a generated step: its own data, its own loop, states that survive a loss of power. It needs of the
 * project what net.h offers; samples, references and main.c are left out:
 *
 *   trainlib-deploy --model net.py --cores 8 --l1 64k --out net
 *   make -C net host MAIN=$PWD/firmware.c        or qemu, spike; with PULP-SDK sourced: run
 */
#include "net.h"
#include "tl_hal.h"
#include <string.h>

enum { CLASSES = NET_OUTPUT_SIZE, VALUES = NET_INPUT_SIZE, STEPS = 300, TESTS = 200 };

/* ---- the sensor: a pattern for each class, and noise ---- */

static uint32_t dice = 1;

static float noise(void)
{
    dice = dice * 1664525u + 1013904223u;
    return (float)(int32_t)dice * (1.0f / 2147483648.0f);
}

static int32_t sense(float *values)
{
    const int32_t label = (int32_t)((noise() + 1.0f) * 0.5f * CLASSES) % CLASSES;
    for (int i = 0; i < VALUES; i++)
        values[i] = (float)((i + 1) * (label + 2) % 7) * 0.3f - 0.9f + 0.7f * noise();
    return label;
}

/* What net_train_next learns from: written where the step reads it. */
int net_next_sample(float *input, int32_t *target)
{
    *target = sense(input);
    return 0;
}

/* ---- the flash: here a piece of memory with pages and two slots; a firmware calls its driver instead ---- */

enum { PAGE = 256, SLOT = (NET_STATE_BYTES + PAGE - 1) / PAGE * PAGE };
static uint8_t flash[2][SLOT], page[PAGE];

static int flash_read(const tl_store *store, int slot, uint32_t at, void *data, uint32_t bytes)
{
    (void)store;
    memcpy(data, flash[slot] + at, bytes);
    return 0;
}

static int flash_erase(const tl_store *store, int slot)
{
    (void)store;
    memset(flash[slot], 0xff, SLOT);
    return 0;
}

static int flash_write(const tl_store *store, int slot, uint32_t at, const void *data)
{
    memcpy(flash[slot] + at, data, store->page);
    return 0;
}

static const tl_store store = {flash_read, flash_erase, flash_write, PAGE, page, 0};

/* ---- what it does ---- */

static void say(const char *what, int number)
{
    char digits[12], *at = digits + sizeof digits - 1;
    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    tl_puts(what);
    tl_puts(at);
    tl_puts("\n");
}

/* Of TESTS samples that it has not seen, those that it names rightly. */
static int rightly_named(void)
{
    float values[VALUES];
    int right = 0;
    for (int i = 0; i < TESTS; i++) {
        const int32_t label = sense(values);
        int best = 0;
        net_forward(values);
        for (int c = 1; c < CLASSES; c++)
            best = net_output()[c] > net_output()[best] ? c : best;
        right += best == label;
    }
    return right;
}

static void start(void)
{
    net_init();
    const int fault = net_load_from(&store);
    tl_puts(fault ? tl_state_words(fault) : "goes on");
    say(" at step ", net_steps());
}

int main(void)
{
    start();
    say("right at first: ", rightly_named());
    while (net_steps() < STEPS) {
        net_train_next(NET_LEARNING_RATE);
        if (net_steps() % 100 == 0 && net_save_to(&store))
            tl_puts("not saved\n");
    }
    start(); /* as after a loss of power */
    const int right = rightly_named();
    say("right in the end: ", right);
    tl_exit(right < TESTS * 9 / 10);
    return 0;
}
