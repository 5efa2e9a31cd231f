/* GRU, backward; two scans at a time. */
#define TL_BOTH
#include "tl_gru_bw.inc"
