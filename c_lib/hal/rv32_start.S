/* Boot code of the emulated RISC-V cluster: every hart enters at _start in machine mode. */
    .option norvc
    .option norelax
    .equ TRAP_STACK, 8192

    .macro EACH_SAVED instruction
    .set  place, 0
    .irp  register, ra, t0, t1, t2, t3, t4, t5, t6, a0, a1, a2, a3, a4, a5, a6, a7
    \instruction \register, place(sp)
    .set  place, place + 4
    .endr
    .endm

    .section .boot, "ax", @progbits
    .globl _start
_start:
    li    t0, 8                     /* mie.MSIE: an interrupt ends wfi; mstatus.MIE stays 0, so it never traps */
    csrw  mie, t0
    li    t0, 0x2000                /* mstatus.FS: float unit on, where floats have their own registers */
    csrs  mstatus, t0
    csrwi 0x320, 0                  /* mcountinhibit: count */
    la    t0, trap
    csrw  mtvec, t0
    csrr  a0, mhartid
    li    t0, TRAP_STACK            /* the controller's stack is its own; a core's boot stack is also its trap stack */
    addi  t1, a0, 1
    mul   t0, t0, t1
    la    t1, tl_rv32_trap_stacks
    add   t0, t0, t1
    csrw  mscratch, t0
    bnez  a0, 1f
    la    sp, tl_rv32_stack_top
    li    tp, 0
    tail  tl_rv32_controller
1:  addi  sp, t0, -2048            /* the upper part is for traps */
    addi  a0, a0, -1
    mv    tp, a0
    tail  tl_rv32_core

    .align 2
trap:
#if defined(TL_SPIKE)
    csrrw sp, mscratch, sp          /* a mark (hal_rv32_marks.h) is an instruction that does not exist */
    addi  sp, sp, -64
    EACH_SAVED sw
    csrr  t0, mcause
    li    t1, 2
    bne   t0, t1, fault
    csrr  a0, mtval
    andi  t0, a0, 0x7f
    li    t1, 0x0b
    bne   t0, t1, fault
entered:
    csrr  a1, minstret
    csrr  a2, mhartid
    call  tl_rv32_marked            /* where this core's counter goes */
    csrr  t0, mepc
    addi  t0, t0, 4
    csrw  mepc, t0
leaving:
    csrr  t0, minstret
    sw    t0, 0(a0)
    EACH_SAVED lw
    addi  sp, sp, 64
    csrrw sp, mscratch, sp
    mret
left:
#endif
fault:                              /* every other trap is a failure: report, stop the machine */
    csrr  a0, mhartid
    la    sp, tl_rv32_trap_stacks + TRAP_STACK
    li    t0, TRAP_STACK
    mul   t0, t0, a0
    add   sp, sp, t0
    mv    a3, a0
    csrr  a0, mcause
    csrr  a1, mepc
    csrr  a2, mtval
    tail  tl_rv32_trap

#if defined(TL_SPIKE)
    .section .rodata
    .globl tl_rv32_around_a_mark
    .align 2
tl_rv32_around_a_mark:              /* bytes of the code above that a core's counter sees between two marks */
    .word entered - trap, left - leaving
#endif

/* void tl_rv32_call_on(tl_fn fn, void *arg, void *stack_top) */
    .text
    .globl tl_rv32_call_on
tl_rv32_call_on:
    addi  sp, sp, -16
    sw    ra, 12(sp)
    sw    s0, 8(sp)
    mv    s0, sp
    mv    sp, a2
    mv    t0, a0
    mv    a0, a1
    jalr  t0
    mv    sp, s0
    lw    s0, 8(sp)
    lw    ra, 12(sp)
    addi  sp, sp, 16
    ret

/* uint32_t tl_rv32_semihost(uint32_t operation, const void *block): three words that the emulator recognises
 * together */
    .align 4
    .globl tl_rv32_semihost
tl_rv32_semihost:
    slli  x0, x0, 0x1f
    ebreak
    srai  x0, x0, 7
    ret

    .section .bss.tl_stacks, "aw", @nobits
    .align 4
tl_rv32_trap_stacks:
    .zero 9 * TRAP_STACK
    .zero 16384
tl_rv32_stack_top:
