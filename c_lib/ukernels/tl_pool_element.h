/* What a maximum is taken of, and its gradient moves: floats, or halves where a source defines TL_HALVES first.
 * Internal to c_lib/kernels. */
#ifndef TL_POOL_ELEMENT_H
#define TL_POOL_ELEMENT_H
#include "tl_pool.h"

#ifdef TL_HALVES
typedef tl_half element;
#define READ(name) name##_f16 /* the member of the argument struct */
#define WIDENED(v) tl_from_half(v)
#define NARROWED(v) tl_to_half(v) /* a half again */
#define tl_maxpool2d_fw_rows_f32 tl_maxpool2d_fw_rows_f16
#define tl_maxpool2d_bw_tiled_f32 tl_maxpool2d_bw_tiled_f16
#else
typedef float element;
#define READ(name) name
#define WIDENED(v) (v)
#define NARROWED(v) (v)
#endif
#endif
