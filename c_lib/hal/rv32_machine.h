/* Inside the emulated RISC-V back end: what each simulator supplies, and what the rest of it offers. */
#ifndef RV32_MACHINE_H
#define RV32_MACHINE_H
#include "tl_hal.h"

enum { EMULATED_CORES = 8 };

#define WAKE ((volatile uint32_t *)0x02000000) /* one word a hart: its pending software interrupt */
#define FENCE() __asm__ volatile("fence rw, rw" ::: "memory")

#define MARK_RUN TL_RV32_MARK(TL_RV32_RUN)
#define MARK_END TL_RV32_MARK(TL_RV32_END)
#define MARK_PAUSE TL_RV32_MARK(TL_RV32_PAUSE)
#define MARK_RESUME TL_RV32_MARK(TL_RV32_RESUME)
#define MARK_PHASE TL_RV32_MARK(TL_RV32_PHASE)

extern char tl_rv32_l1[], tl_rv32_l1_end[], tl_rv32_l2[], tl_rv32_l2_end[], tl_rv32_l3[], tl_rv32_l3_end[];

/* rv32_qemu.c, rv32_spike.c; and tl_puts and files */
extern const uint32_t tl_rv32_devices[2]; /* pages that the program may touch for the simulator's sake */
const char *tl_rv32_record_named(char *line, size_t bytes); /* by the command line; 0 where it names none */
void tl_rv32_stop(int code) __attribute__((noreturn));

/* rv32_record.c */
void tl_rv32_close_record(void);

/* rv32_faults.c */
void tl_rv32_raise_walls(void);
void tl_rv32_door(int open); /* of this hart, to the memory behind L2 */
void tl_rv32_put_hex(uint32_t value);
void tl_rv32_put_number(uint32_t value);
void tl_rv32_fail(const char *what) __attribute__((noreturn));
#endif
