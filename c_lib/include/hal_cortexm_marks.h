/* Marks in a program for Cortex-M, for the program and for whoever counts its instructions (hal/rv32_counts.c). */
#ifndef HAL_CORTEXM_MARKS_H
#define HAL_CORTEXM_MARKS_H

enum { TL_CORTEXM_RUN, TL_CORTEXM_END, TL_CORTEXM_PAUSE, TL_CORTEXM_RESUME, TL_CORTEXM_PHASE };

/* One instruction without effect: a hint to fetch what lies so many bytes before it, which no compiler writes. That
 * for data (pld) is the position of an operation, that for code (pli) one of the words above. */
#define TL_CORTEXM_AT_CODE 0xf000f81fu
#define TL_CORTEXM_MARK_CODE 0xf000f91fu
#define TL_CORTEXM_HINT(code, number)                                                                                  \
    __asm__ volatile(".hword %c0, %c1" ::"i"((code) & 0xffffu), "i"((code) >> 16 | ((number) & 0xfff)) : "memory")
#define TL_CORTEXM_AT(position) TL_CORTEXM_HINT(TL_CORTEXM_AT_CODE, position)
#define TL_CORTEXM_MARK(word) TL_CORTEXM_HINT(TL_CORTEXM_MARK_CODE, word)
#endif
