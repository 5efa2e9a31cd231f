/* A plugin of QEMU 7.2: counts the instructions of every core of the emulated cluster (hal/rv32.c), without those of
 * the emulation itself. QEMU's own counter is one for all harts. Built with -DTL_QEMU_PLUGIN for the machine that runs
 * QEMU: cc -shared -fPIC -DTL_QEMU_PLUGIN -o counts.so rv32_counts.c; qemu-system-riscv32 -plugin counts.so ... Debian
 * ships no header for plugins, so the few functions used are declared here. */
#if defined(TL_QEMU_PLUGIN)
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

enum { HARTS = 16 };
enum { RUN = 0x700, END, PAUSE, RESUME, PHASE }; /* the marks of hal/rv32.c */

typedef struct {
    uint64_t instructions, phase;
    int running, paused;
} hart_state;
static hart_state harts[HARTS];
static uint64_t critical; /* the slowest core of each phase, summed: what the team as a whole takes */

static void count(unsigned hart, void *given)
{
    hart_state *h = &harts[hart % HARTS];
    if (h->running && !h->paused)
        h->phase += (uintptr_t)given;
}

static void end_phase(void)
{
    uint64_t longest = 0;
    for (int i = 0; i < HARTS; i++) {
        if (harts[i].phase > longest)
            longest = harts[i].phase;
        harts[i].instructions += harts[i].phase;
        harts[i].phase = 0;
    }
    critical += longest;
}

static void mark(unsigned hart, void *given)
{
    hart_state *h = &harts[hart % HARTS];
    switch ((uintptr_t)given) {
    case RUN:
        h->running = 1;
        break;
    case END:
        h->running = 0;
        break;
    case PAUSE:
        h->paused = 1;
        break;
    case RESUME:
        h->paused = 0;
        break;
    case PHASE:
        end_phase();
        break;
    }
}

/* The number of a mark, or 0: `slti x0, x0, number`. */
static uint32_t mark_number(const struct qemu_plugin_insn *instruction)
{
    uint32_t word = 0;
    if (qemu_plugin_insn_size(instruction) != 4)
        return 0;
    memcpy(&word, qemu_plugin_insn_data(instruction), 4);
    return (word & 0xfffff) == 0x2013 ? word >> 20 : 0;
}

/* One call for each run of instructions without a mark, at its first instruction. */
static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
    const size_t all = qemu_plugin_tb_n_insns(block);
    (void)id;
    for (size_t i = 0; i < all;) {
        struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(block, i);
        const uint32_t number = mark_number(first);
        if (number) {
            qemu_plugin_register_vcpu_insn_exec_cb(first, mark, 0, (void *)(uintptr_t)number);
            i++;
            continue;
        }
        size_t run = 1;
        while (i + run < all && !mark_number(qemu_plugin_tb_get_insn(block, i + run)))
            run++;
        qemu_plugin_register_vcpu_insn_exec_cb(first, count, 0, (void *)(uintptr_t)run);
        i += run;
    }
}

static void at_exit(uint64_t id, void *given)
{
    (void)id;
    (void)given;
    end_phase();
    fprintf(stderr, "COUNTS instructions critical=%" PRIu64, critical);
    for (int i = 1; i < HARTS; i++)
        if (harts[i].instructions)
            fprintf(stderr, " core%d=%" PRIu64, i - 1, harts[i].instructions);
    fputc('\n', stderr);
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
