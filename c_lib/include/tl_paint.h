/* Painted memory: how far into an arena has a program gone? */
#ifndef TL_PAINT_H
#define TL_PAINT_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TL_PAINT_WORD 0x5aa5c33cu

static inline void tl_paint(uint8_t *arena, size_t bytes)
{
    const uint32_t word = TL_PAINT_WORD;
    for (size_t i = 0; i + sizeof word <= bytes; i += sizeof word)
        memcpy(arena + i, &word, sizeof word);
}

/* Bytes from the beginning to the last word that has lost its paint. */
static inline size_t tl_touched(const uint8_t *arena, size_t bytes)
{
    uint32_t word;
    for (; bytes >= sizeof word; bytes -= sizeof word) {
        memcpy(&word, arena + bytes - sizeof word, sizeof word); /* the SDK's string.h declares no memcmp */
        if (word != TL_PAINT_WORD)
            break;
    }
    return bytes;
}
#endif
