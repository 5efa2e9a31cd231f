/* Writes the device tree of the cluster for Spike: nine harts and their software interrupts, nothing else, so that
 * PULP's own addresses are free. Built with -DTL_DEVICE_TREE for the machine that runs Spike; the one argument is the
 * instruction set, which Spike takes from here: tree rv32imc_zicntr_zfinx > spike.dtb
 */
#if defined(TL_DEVICE_TREE)
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BEGIN = 1, END, PROPERTY, FINISH = 9 }; /* tokens of a flattened tree */
enum { HEADER = 40, RESERVED = 16, HARTS = 9, SOFTWARE = 3, TIMER = 7 };

static uint8_t tree[8192];
static char names[4096];
static size_t at = HEADER + RESERVED, names_end;

static void put_word(size_t where, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        tree[where + (size_t)i] = (uint8_t)(value >> (24 - 8 * i));
}

static void word(uint32_t value)
{
    put_word(at, value);
    at += 4;
}

static void bytes(const void *data, size_t size)
{
    memcpy(tree + at, data, size);
    at += (size + 3) & ~(size_t)3;
}

static void begin(const char *name)
{
    word(BEGIN);
    bytes(name, strlen(name) + 1);
}

static void end(void)
{
    word(END);
}

static void property(const char *name, const void *data, size_t size)
{
    word(PROPERTY);
    word((uint32_t)size);
    word((uint32_t)names_end);
    bytes(data, size);
    strcpy(names + names_end, name);
    names_end += strlen(name) + 1;
}

static void text(const char *name, const char *value)
{
    property(name, value, strlen(value) + 1);
}

static void cells(const char *name, const uint32_t *values, int count)
{
    uint8_t data[16 * HARTS];
    for (int i = 0; i < 4 * count; i++)
        data[i] = (uint8_t)(values[i / 4] >> (24 - 8 * (i % 4)));
    property(name, data, (size_t)(4 * count));
}

static void cell(const char *name, uint32_t value)
{
    cells(name, &value, 1);
}

static void hart(uint32_t number, const char *instruction_set)
{
    char name[] = "cpu@0";
    name[4] = (char)('0' + number);
    begin(name);
    text("device_type", "cpu");
    text("compatible", "riscv");
    text("status", "okay");
    text("riscv,isa", instruction_set);
    text("mmu-type", "riscv,sv32");
    cell("reg", number);
    cell("riscv,pmpregions", 16);
    cell("riscv,pmpgranularity", 4);
    begin("interrupt-controller");
    text("compatible", "riscv,cpu-intc");
    property("interrupt-controller", "", 0);
    cell("#interrupt-cells", 1);
    cell("phandle", number + 1);
    end();
    end();
}

static void interrupts(void)
{
    static const uint32_t where[4] = {0, 0x02000000, 0, 0xc0000};
    uint32_t wires[4 * HARTS];
    for (uint32_t i = 0; i < HARTS; i++) {
        wires[4 * i] = wires[4 * i + 2] = i + 1;
        wires[4 * i + 1] = SOFTWARE;
        wires[4 * i + 3] = TIMER;
    }
    begin("soc");
    text("compatible", "simple-bus");
    cell("#address-cells", 2);
    cell("#size-cells", 2);
    property("ranges", "", 0);
    begin("clint@2000000");
    text("compatible", "riscv,clint0");
    cells("reg", where, 4);
    cells("interrupts-extended", wires, 4 * HARTS);
    end();
    end();
}

static void root(const char *instruction_set)
{
    begin("");
    text("compatible", "pulp-cluster");
    cell("#address-cells", 2);
    cell("#size-cells", 2);
    begin("cpus");
    cell("#address-cells", 1);
    cell("#size-cells", 0);
    cell("timebase-frequency", 10000000);
    for (uint32_t i = 0; i < HARTS; i++)
        hart(i, instruction_set);
    end();
    interrupts();
    begin("htif");
    text("compatible", "ucb,htif0");
    end();
    end();
    word(FINISH);
}

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;
    root(arguments[1]);
    const uint32_t strings = (uint32_t)at, structure = HEADER + RESERVED;
    bytes(names, names_end);
    const uint32_t header[10] = {0xd00dfeed, (uint32_t)at,        structure,          strings, HEADER, 17, 16,
                                 0,          (uint32_t)names_end, strings - structure};
    for (int i = 0; i < 10; i++)
        put_word((size_t)(4 * i), header[i]);
    return fwrite(tree, 1, at, stdout) != at;
}
#else
typedef int rv32_tree_is_not_part_of_the_program;
#endif
