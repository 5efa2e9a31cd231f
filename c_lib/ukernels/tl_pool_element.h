/* What a maximum is taken of, and its gradient moves: floats, or halves where a source defines TL_HALVES first.
 * Internal to c_lib/kernels. */
#ifndef TL_POOL_ELEMENT_H
#define TL_POOL_ELEMENT_H
#include "tl_pool.h"
#include "tl_stored.h"

#ifdef TL_HALVES
#define tl_maxpool2d_fw_rows_f32 tl_maxpool2d_fw_rows_f16
#define tl_maxpool2d_bw_tiled_f32 tl_maxpool2d_bw_tiled_f16
#endif
#endif
