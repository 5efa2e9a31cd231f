/* GRU, backward, of halves. */
#define TL_HALVES
#include "tl_gru_bw.inc"
