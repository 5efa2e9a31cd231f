/* What compilers make of pointers in short loops; internal to c_lib/kernels. */
#ifndef TL_POINTER_H
#define TL_POINTER_H

/* Keeps the compiler from walking an operand with a pointer for each unrolled step: there are no registers for that. */
#define TL_ONE_POINTER(p) __asm__("" : "+r"(p));
#endif
