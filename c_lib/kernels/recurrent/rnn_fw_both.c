/* Elman networks, forward; two scans at a time. */
#define TL_BOTH
#include "tl_rnn_fw.inc"
