/* Elman networks, backward, of halves; w comes through scratch. */
#define TL_HALVES
#define TL_BROUGHT
#include "tl_rnn_bw.inc"
