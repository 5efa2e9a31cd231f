/* Elman networks, backward, of halves. */
#define TL_HALVES
#include "tl_rnn_bw.inc"
