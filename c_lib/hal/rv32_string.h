/* The part of string.h that generated code uses, for compilers that come without a C library. */
#ifndef RV32_STRING_H
#define RV32_STRING_H
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);

/* By these names the compiler still expands small copies in place, although the build is freestanding. */
#define memcpy(to, from, bytes) __builtin_memcpy(to, from, bytes)
#define memmove(to, from, bytes) __builtin_memmove(to, from, bytes)
#define memset(to, byte, bytes) __builtin_memset(to, byte, bytes)
#endif
