/* GRU, backward. */
#include "tl_gru_bw.inc"
