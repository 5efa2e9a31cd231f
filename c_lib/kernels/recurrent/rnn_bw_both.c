/* Elman networks, backward; two scans at a time. */
#define TL_BOTH
#include "tl_rnn_bw.inc"
