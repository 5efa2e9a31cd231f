/* GRU, forward. */
#include "tl_gru_fw.inc"
