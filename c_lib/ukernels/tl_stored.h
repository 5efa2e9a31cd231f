/* What a kernel reads and writes one by one: floats, or halves where a source defines TL_HALVES first. Internal to
 * c_lib/kernels. */
#ifndef TL_STORED_H
#define TL_STORED_H
#include "tl_half.h"

#ifdef TL_HALVES
typedef tl_half element;
#define READ(name) name##_f16  /* the member of the argument struct */
#define NAMED(name) name##_f16 /* the function */
#define WIDENED(v) tl_from_half(v)
#define NARROWED(v) tl_to_half(v) /* a half again */
#else
typedef float element;
#define READ(name) name
#define NAMED(name) name##_f32
#define WIDENED(v) (v)
#define NARROWED(v) (v)
#endif
#endif
