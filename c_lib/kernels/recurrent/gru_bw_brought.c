/* GRU, backward; w comes through scratch. */
#define TL_BROUGHT
#include "tl_gru_bw.inc"
