/* CRC-32 as zlib has it, four bits at a time; a sum begins with 0. */
#ifndef TL_CHECKSUM_H
#define TL_CHECKSUM_H
#include <stdint.h>

static inline uint32_t tl_checksum(uint32_t sum, const void *data, uint32_t bytes)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *at = (const uint8_t *)data;
    sum = ~sum;
    for (; bytes; bytes--) {
        sum ^= *at++;
        sum = sum >> 4 ^ table[sum & 15];
        sum = sum >> 4 ^ table[sum & 15];
    }
    return ~sum;
}
#endif
