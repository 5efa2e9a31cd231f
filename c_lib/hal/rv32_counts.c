/* A plugin of QEMU 7.2: counts the instructions of every core of the emulated cluster (hal/rv32.c), or with -DTL_SINGLE
 * of a single core (hal/single.c; with -DTL_CORTEXM, too, of a Cortex-M), without those of the emulation itself. QEMU's
 * own counter is one for all harts. Built with -DTL_QEMU_PLUGIN for the machine that runs QEMU: cc -shared -fPIC
 * -DTL_QEMU_PLUGIN -o counts.so rv32_counts.c; qemu-system-riscv32 -plugin counts.so ... Debian ships no header for
 * plugins, so the few functions used are declared here. */
#if defined(TL_QEMU_PLUGIN)
#include "hal_cortexm_marks.h"
#include "rv32_marks.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
typedef void (*on_execution)(unsigned hart, void *given);
extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*call)(uint64_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, on_execution call, int flags,
                                                   void *given);
extern void qemu_plugin_register_atexit_cb(uint64_t id, void (*call)(uint64_t, void *), void *given);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t index);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);

#define PUBLIC __attribute__((visibility("default")))
PUBLIC int qemu_plugin_version = 1;

static void on_instructions(unsigned hart, void *how_many)
{
    count(hart, (uint32_t)(uintptr_t)how_many);
}

static void on_mark(unsigned hart, void *number)
{
    mark(hart, (uint32_t)(uintptr_t)number);
}

/* Is it a mark, and which: `lui x0, number`, or a hint of a Cortex-M. */
static int is_mark(const struct qemu_plugin_insn *instruction, uint32_t *number)
{
    uint32_t word = 0;
    if (qemu_plugin_insn_size(instruction) != 4)
        return 0;
    memcpy(&word, qemu_plugin_insn_data(instruction), 4);
#if defined(TL_CORTEXM)
    const uint32_t code = word & 0xf000ffffu;
    *number = (word >> 16 & 0xfff) + (code == TL_CORTEXM_MARK_CODE ? TL_RV32_RUN : 0);
    return code == TL_CORTEXM_MARK_CODE || code == TL_CORTEXM_AT_CODE;
#endif
    *number = word >> 12;
    return (word & 0xfff) == TL_RV32_MARKER;
}

/* One call for each run of instructions without a mark, at its first instruction. */
static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
    const size_t all = qemu_plugin_tb_n_insns(block);
    (void)id;
    for (size_t i = 0; i < all;) {
        struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(block, i);
        uint32_t number;
        if (is_mark(first, &number)) {
            qemu_plugin_register_vcpu_insn_exec_cb(first, on_mark, 0, (void *)(uintptr_t)number);
            i++;
            continue;
        }
        size_t run = 1;
        while (i + run < all && !is_mark(qemu_plugin_tb_get_insn(block, i + run), &number))
            run++;
        qemu_plugin_register_vcpu_insn_exec_cb(first, on_instructions, 0, (void *)(uintptr_t)run);
        i += run;
    }
}

static void at_exit(uint64_t id, void *given)
{
    (void)id;
    (void)given;
    end_phase();
    fprintf(stderr, "COUNTS instructions critical=%" PRIu64, tl_rv32_counted.critical);
    for (int i = CONTROLLERS; i < HARTS; i++)
        if (tl_rv32_counted.harts[i].instructions)
            fprintf(stderr, " core%d=%" PRIu64, i - CONTROLLERS, tl_rv32_counted.harts[i].instructions);
    fputc('\n', stderr);
    for (int i = 0; i < MOST_OPERATIONS; i++)
        if (tl_rv32_counted.operations[i])
            fprintf(stderr, "COUNTS operation %d=%" PRIu64 "\n", i, tl_rv32_counted.operations[i]);
}

PUBLIC int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int count_of_arguments, char **arguments)
{
    (void)info;
    (void)count_of_arguments;
    (void)arguments;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, at_exit, 0);
    return 0;
}
#else
typedef int rv32_counts_is_not_part_of_the_program;
#endif
