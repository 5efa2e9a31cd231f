/* Elman networks, backward. */
#include "tl_rnn_bw.inc"
