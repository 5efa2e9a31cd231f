/* GRU, forward, of halves. */
#define TL_HALVES
#include "tl_gru_fw.inc"
