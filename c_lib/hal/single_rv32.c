/* A RISC-V core from reset to main, and how it asks for semihosting. */
#if defined(TL_HAL_SINGLE) && defined(__riscv)
#include "tl_hal.h"

void tl_single_fail(const char *what) __attribute__((noreturn));
void tl_single_fault(void) __attribute__((noreturn));

__attribute__((used, aligned(4))) void tl_single_fault(void)
{
    tl_single_fail("an access or an instruction that the core refuses");
}

__asm__(".section .vectors, \"ax\", @progbits\n"
        ".globl tl_single_start\n"
        "tl_single_start:\n"
        "    la sp, tl_single_stack_top\n"
        "    la t0, tl_single_fault\n"
        "    csrw mtvec, t0\n"
        "    tail tl_single_main\n"
        /* three words that debuggers and emulators recognise together, on one page */
        ".section .text.tl_single_semihost, \"ax\", @progbits\n"
        ".option push\n"
        ".option norvc\n"
        ".align 4\n"
        ".globl tl_single_semihost\n"
        ".type tl_single_semihost, @function\n"
        "tl_single_semihost:\n"
        "    slli x0, x0, 0x1f\n"
        "    ebreak\n"
        "    srai x0, x0, 7\n"
        "    ret\n"
        ".option pop\n"
        ".text\n");
#endif
