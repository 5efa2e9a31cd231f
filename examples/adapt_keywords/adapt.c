/* Adapts the network to a user: every second example was just heard, the others are old ones that lie beside the weights.
 * What was heard comes from a file here; a device writes it where the step reads it, in the same way:
 *
 *   make -C device host MAIN=$PWD/adapt.c DATA=heard.bin STEPS=1920 SAVE=adapted.state      or qemu, spike; under PULP-SDK: run
 */
#include "net.h"
#include "tl_hal.h"
#include "weights.h"
#include <string.h>

enum { EXAMPLE = NET_INPUT_SIZE / NET_EXAMPLES, ROW = EXAMPLE + 1, KEPT = sizeof net_l2.replay / ROW };
enum { SEED_HEARD = 1, SEED_OLD = 2 };
_Static_assert(sizeof net_l2.replay == KEPT * ROW, "old examples are what a step takes, byte for byte, and a label");

static tl_examples heard;

/* The number of the next one: all of them in a new order, again and again. The step alone says which: nothing to save. */
static uint32_t drawn(uint32_t count, uint32_t seed, uint32_t before)
{
    tl_shuffle order;
    tl_shuffle_begin(&order, count, seed, before / count);
    return tl_shuffle_at(&order, before % count);
}

int net_next_sample(uint8_t *input, int32_t *target)
{
    for (uint32_t i = 0; i < NET_EXAMPLES; i++) {
        const uint32_t number = (uint32_t)net_steps() * NET_EXAMPLES + i;
        if (number % 2) {
            const uint8_t *row = net_l2.replay + drawn(KEPT, SEED_OLD, number / 2) * ROW;
            memcpy(input + i * EXAMPLE, row, EXAMPLE);
            target[i] = row[EXAMPLE];
        } else if (tl_examples_take(&heard, &net_sample, drawn(heard.count, SEED_HEARD, number / 2), i)) {
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    float last = 0.0f;
    net_init();
#ifdef TL_LOAD_FILE
    tl_state_demand(tl_state_from_file(&net_state, TL_LOAD_FILE), "loading " TL_LOAD_FILE);
#endif
    tl_data_demand(tl_examples_from_file(&heard, &net_sample, TL_DATA_FILE), TL_DATA_FILE);
    while (net_steps() < TL_STEPS) {
        last = net_train_next(NET_LEARNING_RATE);
        tl_data_demand(last == last ? TL_DATA_FINE : TL_DATA_NAN, "adapting");
    }
    tl_puts("the last loss: ");
    tl_put_decimal(last);
    tl_puts("\n");
    tl_state_demand(tl_state_to_file(&net_state, TL_SAVE_FILE), "saving " TL_SAVE_FILE);
    tl_exit(0);
    return 0;
}
