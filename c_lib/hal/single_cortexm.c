/* A Cortex-M from reset to main, and how it asks for semihosting. */
#if defined(TL_HAL_SINGLE) && defined(__arm__)
#include "tl_hal.h"

#define COPROCESSORS (*(volatile uint32_t *)0xe000ed88u)

extern uint32_t tl_single_stack_top[];
void tl_single_main(void) __attribute__((noreturn));
void tl_single_fail(const char *what) __attribute__((noreturn));
void tl_single_start(void) __attribute__((noreturn));

uint32_t tl_single_semihost(uint32_t operation, const void *block)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = block;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

__attribute__((used, noreturn)) static void fault(void)
{
    tl_single_fail("an access or an instruction that the core refuses");
}

void tl_single_start(void)
{
    COPROCESSORS |= 0xfu << 20; /* the float unit */
    __asm__ volatile("dsb\n isb" ::: "memory");
    tl_single_main();
}

typedef void (*handler)(void);
__attribute__((section(".vectors"), used)) static const handler vectors[16] = {
    (handler)tl_single_stack_top, tl_single_start, fault, fault, fault, fault, fault, fault,
};
#endif
