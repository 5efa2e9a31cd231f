/* Bare machines: what a compiler may call although the build is freestanding. */
#if defined(TL_HAL_RV32) || defined(TL_HAL_SINGLE)
#include "tl_hal.h"

__attribute__((used)) void *memcpy(void *to, const void *from, size_t bytes)
{
    char *d = to;
    const char *s = from;
    if (((uintptr_t)d | (uintptr_t)s) % 4 == 0)
        for (; bytes >= 4; bytes -= 4, d += 4, s += 4)
            *(uint32_t *)d = *(const uint32_t *)s;
    while (bytes--)
        *d++ = *s++;
    return to;
}

__attribute__((used)) void *memmove(void *to, const void *from, size_t bytes)
{
    char *d = to;
    const char *s = from;
    if (d <= s || d >= s + bytes)
        return memcpy(to, from, bytes);
    while (bytes--)
        d[bytes] = s[bytes];
    return to;
}

__attribute__((used)) void *memset(void *to, int byte, size_t bytes)
{
    char *d = to;
    while (bytes--)
        *d++ = (char)byte;
    return to;
}

__attribute__((used)) int memcmp(const void *a, const void *b, size_t bytes)
{
    const unsigned char *x = a, *y = b;
    for (; bytes; bytes--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}
#endif
