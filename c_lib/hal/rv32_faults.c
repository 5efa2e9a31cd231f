/* Emulated RISC-V back end: the walls around what the linker placed, and the report of whoever runs into them. */
#if defined(TL_HAL_RV32)
#include "rv32_machine.h"

#define SET_CSR(name, value) __asm__ volatile("csrw " #name ", %0" ::"r"((uint32_t)(value)))

extern char tl_rv32_constants_end[], tl_rv32_data_end[];
extern char _start[];
extern volatile int net_position __attribute__((weak));
extern const char *const data_operations[] __attribute__((weak)); /* the name of the operation at each position */

void tl_rv32_put_hex(uint32_t value)
{
    char text[11] = "0x";
    for (int i = 0; i < 8; i++)
        text[2 + i] = "0123456789abcdef"[value >> (28 - 4 * i) & 15];
    text[10] = 0;
    tl_puts(text);
}

void tl_rv32_put_number(uint32_t value)
{
    char text[11];
    int at = 10;
    text[at] = 0;
    do {
        text[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    tl_puts(text + at);
}

void tl_rv32_fail(const char *what)
{
    tl_puts("FAULT: ");
    tl_puts(what);
    tl_puts("\n");
    tl_rv32_stop(3);
}

static void put_place(uint32_t address)
{
    static const struct {
        const char *name, *start, *end;
    } levels[] = {{"L1", tl_rv32_l1, tl_rv32_l1_end}, {"L2", tl_rv32_l2, tl_rv32_l2_end}};
    for (int i = 0; i < 2; i++) {
        const uint32_t end = (uint32_t)levels[i].end;
        if (address < end || address - end > 0x1000000)
            continue;
        tl_puts(", ");
        tl_rv32_put_number(address - end);
        tl_puts(" bytes past the last planned byte of ");
        tl_puts(levels[i].name);
    }
    if (address < (uint32_t)tl_rv32_constants_end && address >= (uint32_t)_start)
        tl_puts(", a constant");
}

__attribute__((noreturn, used)) void tl_rv32_trap(uint32_t cause, uint32_t pc, uint32_t address, uint32_t hart)
{
    tl_puts(cause == 5   ? "FAULT: load from "
            : cause == 7 ? "FAULT: store to "
            : cause == 1 ? "FAULT: execution of "
                         : "FAULT: exception at ");
    tl_rv32_put_hex(address);
    put_place(address);
    tl_puts("; hart=");
    tl_rv32_put_number(hart);
    tl_puts(" pc=");
    tl_rv32_put_hex(pc);
    tl_puts(" cause=");
    tl_rv32_put_number(cause);
    if (&net_position) {
        tl_puts(" net_position=");
        tl_rv32_put_number((uint32_t)net_position);
    }
    if (&net_position && data_operations) {
        tl_puts(" in ");
        tl_puts(data_operations[net_position]);
    }
    tl_puts("\n");
    tl_rv32_stop(4);
}

/* ---- memory protection ---- */

static uint32_t block_of(uint32_t base, uint32_t size) /* naturally aligned power of two */
{
    return base >> 2 | (size / 8 - 1);
}

enum { LOCK = 0x80, TOP_OF_RANGE = 0x08, BLOCK = 0x18, R = 1, W = 2, X = 4 };
#define RANGE(access) (LOCK | TOP_OF_RANGE | (access))
#define DEVICE (LOCK | BLOCK | R | W)
#define FOUR(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)

/* The first entry that matches decides; the last one matches everything and allows nothing. */
void tl_rv32_raise_walls(void)
{
    SET_CSR(pmpaddr0, (uint32_t)_start >> 2);
    SET_CSR(pmpaddr1, (uint32_t)tl_rv32_constants_end >> 2);
    SET_CSR(pmpaddr2, (uint32_t)tl_rv32_data_end >> 2);
    SET_CSR(pmpaddr3, (uint32_t)tl_rv32_l1 >> 2);
    SET_CSR(pmpaddr4, (uint32_t)tl_rv32_l1_end >> 2);
    SET_CSR(pmpaddr5, (uint32_t)tl_rv32_l2 >> 2);
    SET_CSR(pmpaddr6, (uint32_t)tl_rv32_l2_end >> 2);
    SET_CSR(pmpaddr7, block_of((uint32_t)WAKE, 0x1000));
    SET_CSR(pmpaddr8, block_of(tl_rv32_devices[0], 0x1000));
    SET_CSR(pmpaddr9, block_of(tl_rv32_devices[1], 0x1000));
    SET_CSR(pmpaddr10, (uint32_t)tl_rv32_l3 >> 2);
    SET_CSR(pmpaddr11, (uint32_t)tl_rv32_l3_end >> 2);
    SET_CSR(pmpaddr12, 0xffffffff);
    SET_CSR(pmpcfg0, FOUR(0, RANGE(R | X), RANGE(R | W), 0));
    SET_CSR(pmpcfg1, FOUR(RANGE(R | W), 0, RANGE(R | W), DEVICE));
    SET_CSR(pmpcfg2, FOUR(DEVICE, DEVICE, 0, 0));
    SET_CSR(pmpcfg3, FOUR(LOCK | BLOCK, 0, 0, 0));
}

/* The only entry that is not locked; while it is off, the last one decides. */
void tl_rv32_door(int open)
{
    SET_CSR(pmpcfg2, FOUR(DEVICE, DEVICE, 0, open ? TOP_OF_RANGE | R | W : 0));
}
#endif
