/* Elman networks, forward. */
#include "tl_rnn_fw.inc"
