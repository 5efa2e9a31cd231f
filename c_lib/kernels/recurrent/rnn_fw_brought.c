/* Elman networks, forward; w comes through scratch. */
#define TL_BROUGHT
#include "tl_rnn_fw.inc"
