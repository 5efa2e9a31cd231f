/* Elman networks, forward, of halves. */
#define TL_HALVES
#include "tl_rnn_fw.inc"
