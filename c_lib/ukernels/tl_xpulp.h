/* PULP's own instructions in assembler, spelled as .insn, so that any compiler for RISC-V takes them; internal to
 * c_lib/kernels. Nothing inside a hardware loop may be compressed; its end is its last instruction. */
#ifndef TL_XPULP_H
#define TL_XPULP_H
#define TL_LOAD_BY(by, to, from) ".insn i 0x0b, 2, " to ", " by "(" from ")\n" /* p.lw to, by(from!) */
#define TL_LOAD(to, from) TL_LOAD_BY("4", to, from)
#define TL_LOAD_STEP(to, from, by) ".insn r 0x0b, 7, 0x10, " to ", " from ", " by "\n"      /* p.lw to, by(from!) */
#define TL_LOAD_HALF_STEP(to, from, by) ".insn r 0x0b, 7, 0x28, " to ", " from ", " by "\n" /* p.lhu to, by(from!) */
#define TL_STORE_ON(from, to) ".insn s 0x2b, 2, " from ", 4(" to ")\n"                      /* p.sw from, 4(to!) */
#define TL_LOAD_HALF(to, from) ".insn i 0x0b, 5, " to ", 2(" from ")\n"                     /* p.lhu to, 2(from!) */
#define TL_STORE_HALF(from, to) ".insn s 0x2b, 1, " from ", 2(" to ")\n"                    /* p.sh from, 2(to!) */
#define TL_STORE_HALF_STEP(from, to, by) ".insn r 0x2b, 5, 0, " by ", " to ", " from "\n"   /* p.sh from, by(to!) */
#define TL_STORE_STEP(from, to, by) ".insn r 0x2b, 6, 0, " by ", " to ", " from "\n"        /* p.sw from, by(to!) */
#define TL_FROM_HALF(to, from) ".insn r 0x53, 0, 0x20, " to ", " from ", x2\n"              /* fcvt.s.h */
#define TL_TO_HALF(to, from) ".insn r 0x53, 0, 0x22, " to ", " from ", x0\n"                /* fcvt.h.s */
#define TL_DOT(to, a, b) ".insn r 0x33, 0, 0x4b, " to ", " a ", " b "\n"                    /* vfdotpex.s.h */
#define TL_PACK(to, a, b) ".insn r 0x33, 2, 0x58, " to ", " a ", " b "\n"                   /* vfcpka.h.s */
#define TL_PAIR_OF(to, a, b) ".insn r 0x57, 0, 0x68, " to ", " b ", " a "\n"                /* pv.pack.h, a below */
#define TL_ABOVE(to, a, b) ".insn r 0x57, 0, 0x0a, " to ", " a ", " b "\n"                  /* pv.cmpgt.h */
#define TL_HIGHER(to, a, b) ".insn r 0x57, 0, 0x1a, " to ", " a ", " b "\n"                 /* pv.cmpgtu.h */
#define TL_PLUS(to, a, b) ".insn r 0x33, 2, 0x41, " to ", " a ", " b "\n"                   /* vfadd.h */
#define TL_MINUS(to, a, b) ".insn r 0x33, 2, 0x42, " to ", " a ", " b "\n"                  /* vfsub.h */
#define TL_MAX(to, a, b) ".insn r 0x33, 6, 0x02, " to ", " a ", " b "\n"                  /* p.max, of whole numbers */
#define TL_MIN(to, a, b) ".insn r 0x33, 4, 0x02, " to ", " a ", " b "\n"                  /* p.min */
#define TL_CLIP(to, a, b) ".insn r 0x33, 6, 0x0a, " to ", " a ", " b "\n"                 /* p.clipu: from 0 to b */
#define TL_ADD_PRODUCT(to, a, b) ".insn r 0x33, 0, 0x21, " to ", " a ", " b "\n"          /* p.mac, of whole numbers */
#define TL_TAKE_PRODUCT(to, a, b) ".insn r 0x33, 1, 0x21, " to ", " a ", " b "\n"         /* p.msu */
#define TL_LOOP(count, halfwords) ".insn i 0x7b, 4, x0, " count ", " halfwords "\n"       /* lp.setup */
#define TL_OUTER_LOOP(count, halfwords) ".insn i 0x7b, 4, x1, " count ", " halfwords "\n" /* around another */
/* pv.shuffle2.h: two halves in the place of `to`, which of it (0, 1) or of b (2, 3). */
#define TL_CHOOSE_HALVES(to, b, which) ".insn r 0x57, 0, 0x64, " to ", " b ", " which "\n"
#define TL_MAC(to, a, b) "fmadd.s " to ", " a ", " b ", " to "\n"
#define TL_MAC_ONTO_0(to, a, b) "fmadd.s " to ", " a ", " b ", x0\n"
/* What is in no hardware loop may be compressed. */
#define TL_SHORT(code) ".option rvc\n" code ".option norvc\n"
#define TL_EACH(what, ...) what(__VA_ARGS__)
#define TL_ALL_FIVE(a0, a1, b0, b1, b2) a0 a1 b0 b1 b2

/* Four sums of a row begin. */
#define TL_ZEROS(s0, s1, s2, s3) "li " s0 ", 0\nli " s1 ", 0\nli " s2 ", 0\nli " s3 ", 0\n"
/* Four sums and the output that a4 points at; ra: bytes to its next row. */
#define TL_START(s0, s1, s2, s3) "lw " s1 ", 4(a4)\nlw " s2 ", 8(a4)\nlw " s3 ", 12(a4)\n" TL_LOAD_STEP(s0, "a4", "ra")
/* One number for all four. */
#define TL_ALIKE(s0, s1, s2, s3) TL_LOAD(s0, "a4") "mv " s1 ", " s0 "\nmv " s2 ", " s0 "\nmv " s3 ", " s0 "\n"
#define TL_SAVE(s0, s1, s2, s3) "sw " s1 ", 4(a4)\nsw " s2 ", 8(a4)\nsw " s3 ", 12(a4)\n" TL_STORE_STEP(s0, "a4", "ra")
/* The same as halves, so many bytes apart, wherever the first one lies. */
#define TL_SAVE_HALVES_AT(by1, by2, by3, s0, s1, s2, s3)                                                               \
    TL_PACK(s0, s0, s1)                                                                                                \
    TL_PACK(s2, s2, s3)                                                                                                \
    "sh " s0 ", 0(a4)\nsh " s2 ", " by2 "(a4)\nsrli " s0 ", " s0 ", 16\nsrli " s2 ", " s2 ", 16\n"                     \
    "sh " s0 ", " by1 "(a4)\nsh " s2 ", " by3 "(a4)\nadd a4, a4, ra\n"
#define TL_SAVE_HALVES(...) TL_SAVE_HALVES_AT("2", "4", "6", __VA_ARGS__)
/* The same, two at a time. */
#define TL_SAVE_WORDS(s0, s1, s2, s3)                                                                                  \
    TL_PACK(s0, s0, s1) TL_PACK(s2, s2, s3) "sw " s2 ", 4(a4)\n" TL_STORE_STEP(s0, "a4", "ra")
#define TL_ROW0 "t0", "t1", "t2", "t3"
#define TL_ROW1 "t4", "t5", "t6", "s2"
#define TL_ROW2 "s3", "s4", "s5", "s6"
#define TL_ROW3 "s7", "s8", "s9", "s10"
#define TL_ROWS(what) TL_EACH(what, TL_ROW0) TL_EACH(what, TL_ROW1) TL_EACH(what, TL_ROW2) TL_EACH(what, TL_ROW3)
#define TL_USED                                                                                                        \
    "memory", "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9",    \
        "s10", "s11", "a4", "a5", "a6", "a7"
#endif
