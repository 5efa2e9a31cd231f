/* Variables whose contents lie in a file: as text, ten million numbers take a compiler minutes and gigabytes.
 *
 *   TL_CONTENTS(type, name, TL_DATA_L2, TL_PART("file", bytes) TL_ZERO(bytes) ...)   a variable
 *   TL_TABLE(name, TL_PART("file", bytes) ...)                                       a constant one
 *
 * The parts of a file come one behind the other; a source takes them from one file.
 *
 * Assemblers look for the file where the compiler looks for headers (-I), and in the directory they run in. `.incbin`
 * is spelled out: so compiler caches notice that the object depends on more than the source. */
#ifndef TL_BINARY_H
#define TL_BINARY_H
#include "tl_hal.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files hold the least byte first");

#define TL_QUOTED(text) #text
#define TL_EXPANDED(text) TL_QUOTED(text)
#define TL_SYMBOL(name) TL_EXPANDED(__USER_LABEL_PREFIX__) #name
#if defined(__APPLE__)
#define TL_KIND(name)
#define TL_SIZE(name)
#define TL_TAKEN "Ltaken" /* bytes of the file, so far */
#else
#define TL_KIND(name) ".type " TL_SYMBOL(name) ", %object\n"
#define TL_SIZE(name) ".size " TL_SYMBOL(name) ", . - " TL_SYMBOL(name) "\n"
#define TL_TAKEN ".Ltaken"
#endif
__asm__(".set " TL_TAKEN ", 0\n");
#define TL_PART(file, bytes)                                                                                           \
    ".incbin \"" file "\", " TL_TAKEN ", " #bytes "\n.set " TL_TAKEN ", " TL_TAKEN " + " #bytes "\n"
#define TL_ZERO(bytes) ".zero " #bytes "\n"
#define TL_AS(name, place, contents)                                                                                   \
    __asm__(".pushsection " place "\n.globl " TL_SYMBOL(name) "\n" TL_KIND(name) ".balign 16\n" TL_SYMBOL(             \
        name) ":\n" contents TL_SIZE(name) ".popsection\n")
#define TL_TABLE(name, contents) TL_AS(name, TL_DATA_CONST, contents)

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TL_RED_ZONES
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define TL_RED_ZONES
#endif
#if defined(TL_RED_ZONES)
/* The sanitizer guards what the compiler defines. */
#include <string.h>
#define TL_CONTENTS(type, name, place, contents)                                                                       \
    TL_TABLE(name##_contents, contents);                                                                               \
    type name;                                                                                                         \
    __attribute__((constructor)) static void fill_##name(void)                                                         \
    {                                                                                                                  \
        extern const type name##_contents;                                                                             \
        memcpy(&name, &name##_contents, sizeof name);                                                                  \
    }                                                                                                                  \
    _Static_assert(1, "a semicolon follows")
#else
#define TL_CONTENTS(type, name, place, contents) TL_AS(name, place, contents)
#endif
#endif
