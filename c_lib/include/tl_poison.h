/* Poison: fills memory that the plan says is not in use, so that a wrong lifetime shows in the results. */
#ifndef TL_POISON_H
#define TL_POISON_H
#include <stdint.h>
#include <string.h>

#define TL_POISON_WORD 0x7fe5a5a5u /* a NaN as a float, far out of range as an index, true as a mask */

/* `size` bytes at `offset` of an arena, in use from operation `birth` until `death` begins. */
typedef struct {
    uint32_t offset, size;
    int birth, death;
} tl_lifetime;

static inline void tl_poison_fill(uint8_t *at, uint32_t bytes)
{
    const uint32_t word = TL_POISON_WORD;
    for (uint32_t i = 0; i < bytes; i += sizeof word)
        memcpy(at + i, &word, sizeof word);
}

/* One core, before the step: nothing is in use yet. */
static inline void tl_poison_all(uint8_t *arena, const tl_lifetime *table, int count)
{
    for (int i = 0; i < count; i++)
        tl_poison_fill(arena + table[i].offset, table[i].size);
}

/* One core, before operation `position`: what dies there. */
static inline void tl_poison_dead(uint8_t *arena, const tl_lifetime *table, int count, int position)
{
    for (int i = 0; i < count; i++)
        if (table[i].death == position)
            tl_poison_fill(arena + table[i].offset, table[i].size);
}
#endif
