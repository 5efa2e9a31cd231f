/* What compilers make of short loops; internal to c_lib/kernels. */
#ifndef TL_POINTER_H
#define TL_POINTER_H

/* Keeps the compiler from walking an operand with a pointer for each unrolled step: there are no registers for that. */
#define TL_ONE_POINTER(p) __asm__("" : "+r"(p));

/* A loop of few steps, whose arrays are to be in registers: at -O2 GCC unrolls none that makes code longer. */
#if defined(__clang__) || __GNUC__ < 8
#define TL_UNROLLED
#else
#define TL_UNROLLED _Pragma("GCC unroll 16")
#endif
#endif
