/* Boot code of the emulated RISC-V cluster: every hart enters at _start in machine mode. */
    .option norvc
    .option norelax
    .equ TRAP_STACK, 8192

    .section .text.start, "ax", @progbits
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
1:  mv    sp, t0
    addi  a0, a0, -1
    mv    tp, a0
    tail  tl_rv32_core

    .align 2
trap:                               /* every trap is a failure: report, stop the machine */
    csrr  sp, mscratch
    csrr  a0, mcause
    csrr  a1, mepc
    csrr  a2, mtval
    csrr  a3, mhartid
    tail  tl_rv32_trap

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

/* uint32_t tl_rv32_semihost(uint32_t operation, const void *block): three words that the emulator recognises together */
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
