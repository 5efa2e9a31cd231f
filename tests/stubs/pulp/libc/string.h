/* All that the SDK's own string.h declares and generated code could use. */
#ifndef STUB_STRING_H
#define STUB_STRING_H
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
size_t strlen(const char *text);
#endif
