/* Elman networks, backward; w comes through scratch. */
#define TL_BROUGHT
#include "tl_rnn_bw.inc"
