/* The type of the operands that a kernel multiplies. What is written once for all types is compiled for halves by a
 * source that defines TL_HALVES first; functions that others call have a name of their own there. */
#ifndef TL_ELEMENT_H
#define TL_ELEMENT_H
#include "tl_half.h"
#include "tl_tile_pairs.h"

#ifdef TL_HALVES
typedef tl_half tl_element;
#define TL_READ(name) name##_f16 /* the member of an argument struct */
#define tl_column_pack tl_column_pack_f16
#define tl_columns_of tl_columns_of_f16
#define tl_pixels_gather tl_pixels_gather_f16
#define tl_pixels_locate tl_pixels_locate_f16
#define tl_pixels_table tl_pixels_table_f16
#define tl_plane_copy tl_plane_copy_f16
#define tl_line_four tl_line_four_f16
#define tl_lines_any tl_lines_any_f16
#define tl_strip_at tl_strip_at_f16
#define tl_strip_any tl_strip_any_f16
/* An element as a float, and a float as an element. */
#define TL_WIDENED(element) tl_from_half(element)
#define TL_ROUNDED(value) tl_to_half(value)
/* What becomes of a packed panel [kc][4]. */
#define TL_FINISH(panel, kc) tl_pairs_of_terms(panel, kc)
#else
typedef float tl_element;
#define TL_WIDENED(element) (element)
#define TL_ROUNDED(value) (value)
#define TL_FINISH(panel, kc) ((void)0)
#define TL_READ(name) name
#endif
#endif
