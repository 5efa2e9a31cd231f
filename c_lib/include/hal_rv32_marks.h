/* Marks in a program of the emulated RISC-V cluster, for the program and for whoever counts its instructions. */
#ifndef HAL_RV32_MARKS_H
#define HAL_RV32_MARKS_H

#define TL_RV32_RUN 0xffff0u    /* this core works for the network from here */
#define TL_RV32_END 0xffff1u    /* and no longer */
#define TL_RV32_PAUSE 0xffff2u  /* the next instructions are the emulation's own */
#define TL_RV32_RESUME 0xffff3u /* end of a pause */
#define TL_RV32_PHASE 0xffff4u  /* all cores have met: the slowest one sets the pace */
#define TL_RV32_NEXT 0xffff5u   /* the next operation begins */

/* One instruction without effect: on QEMU a constant that goes into x0, on Spike a trap that the boot code answers. */
#if defined(TL_SPIKE)
#define TL_RV32_MARKER 0x0bu
#else
#define TL_RV32_MARKER 0x37u
#endif
#define TL_RV32_MARK(number) __asm__ volatile(".4byte %0" ::"i"(TL_RV32_MARKER | (unsigned)(number) << 12) : "memory")
#endif
