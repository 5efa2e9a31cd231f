// The instructions of PULP's cores that kernels contain, for Spike (--extlib): a second, independent statement of what
// they do. A hardware loop ends with a vfdotpex.s.h, a load, a store, a sum or a multiply-add here, which look whether
// they are the last instruction. Two loops may be under way, one inside the other.
#include <riscv/extension.h>
#include <riscv/mmu.h>
#include <riscv/trap.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

namespace
{

struct Loop {
    reg_t start, end, left;
};

std::map<uint32_t, std::array<Loop, 2>> loops; // by hart; the inner one first

reg_t widened(uint32_t value)
{
    return (reg_t)(sreg_t)(int32_t)value;
}

reg_t next_of(processor_t *p, reg_t pc)
{
    for (Loop &loop : loops[p->get_id()])
        if (pc == loop.end && --loop.left > 0)
            return loop.start;
    return pc + 4;
}

reg_t load_and_add(processor_t *p, insn_t insn, reg_t pc, uint32_t by)
{
    auto &x = p->get_state()->XPR;
    const reg_t at = x[insn.rs1()];
    const int32_t value = p->get_mmu()->load<int32_t>((uint32_t)at);
    x.write(insn.rs1(), widened((uint32_t)at + by));
    x.write(insn.rd(), widened((uint32_t)value));
    return next_of(p, pc);
}

float number(uint32_t bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t bits(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Of an IEEE half, by its definition.
float half(uint32_t bits)
{
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float size = exponent == 31  ? (mantissa ? NAN : INFINITY)
                       : exponent == 0 ? std::ldexp((float)mantissa, -24)
                                       : std::ldexp((float)(mantissa + 1024), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

// The nearest half, ties to even; what is above the largest one by half a step or more is infinite.
uint32_t nearest(float value)
{
    const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
    const float size = std::fabs(value);
    if (std::isnan(value))
        return 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    const int exponent = size < 0x1p-14f ? -14 : std::ilogb(size);
    return sign |
           ((uint32_t)(exponent + 14) * 1024 + (uint32_t)std::nearbyint(std::ldexp((double)size, 10 - exponent)));
}

// p.lw rd, imm(rs1!): load, then advance. Into x0 it is a mark of the program's, which the boot code answers.
reg_t load_and_advance(processor_t *p, insn_t insn, reg_t pc)
{
    if (insn.rd() == 0)
        throw trap_illegal_instruction(insn.bits());
    return load_and_add(p, insn, pc, (uint32_t)insn.i_imm());
}

reg_t load_half_and_add(processor_t *p, insn_t insn, reg_t pc, uint32_t by)
{
    auto &x = p->get_state()->XPR;
    const reg_t at = x[insn.rs1()];
    const uint16_t value = p->get_mmu()->load<uint16_t>((uint32_t)at);
    x.write(insn.rs1(), widened((uint32_t)at + by));
    x.write(insn.rd(), value);
    return next_of(p, pc);
}

// p.lhu rd, imm(rs1!): the same of a half, zeros above it.
reg_t load_half_and_advance(processor_t *p, insn_t insn, reg_t pc)
{
    return load_half_and_add(p, insn, pc, (uint32_t)insn.i_imm());
}

// p.lw and p.lhu rd, rs2(rs1!): the same, by what is in a register.
reg_t load_and_advance_by(processor_t *p, insn_t insn, reg_t pc)
{
    return load_and_add(p, insn, pc, (uint32_t)p->get_state()->XPR[insn.rs2()]);
}

reg_t load_half_and_advance_by(processor_t *p, insn_t insn, reg_t pc)
{
    return load_half_and_add(p, insn, pc, (uint32_t)p->get_state()->XPR[insn.rs2()]);
}

// p.sw and p.sh rs2, imm(rs1!): store the lowest bytes, then advance.
template <typename Stored> reg_t store_and_advance(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    const reg_t at = x[insn.rs1()];
    p->get_mmu()->store<Stored>((uint32_t)at, (Stored)x[insn.rs2()]);
    x.write(insn.rs1(), widened((uint32_t)at + (uint32_t)insn.s_imm()));
    return next_of(p, pc);
}

// p.sw and p.sh rs2, rd(rs1!): the same, by what is in a register.
template <typename Stored> reg_t store_and_advance_by(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    const reg_t at = x[insn.rs1()];
    p->get_mmu()->store<Stored>((uint32_t)at, (Stored)x[insn.rs2()]);
    x.write(insn.rs1(), widened((uint32_t)at + (uint32_t)x[insn.rd()]));
    return next_of(p, pc);
}

// lp.setup: the next instructions, as far as halfwords behind this one, as often as rs1 says.
reg_t set_up_loop(processor_t *p, insn_t insn, reg_t pc)
{
    const uint32_t halfwords = (uint32_t)insn.bits() >> 20;
    loops[p->get_id()][insn.rd()] = {pc + 4, pc + 2 * halfwords, (uint32_t)p->get_state()->XPR[insn.rs1()]};
    return pc + 4;
}

// vfdotpex.s.h: the products of two pairs are exact; their sum is rounded, then what is added to rd.
reg_t dot(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    const uint32_t a = (uint32_t)x[insn.rs1()], b = (uint32_t)x[insn.rs2()];
    const float low = half(a & 0xffff) * half(b & 0xffff), high = half(a >> 16) * half(b >> 16);
    const float pair = low + high;
    x.write(insn.rd(), widened(bits(number((uint32_t)x[insn.rd()]) + pair)));
    return next_of(p, pc);
}

// fadd.s, to the nearest: the processor's own, which may end a loop.
reg_t add(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    const float sum = number((uint32_t)x[insn.rs1()]) + number((uint32_t)x[insn.rs2()]);
    x.write(insn.rd(), widened(std::isnan(sum) ? 0x7fc00000 : bits(sum)));
    return next_of(p, pc);
}

// fmadd.s, likewise.
reg_t multiply_add(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    const float sum =
        std::fma(number((uint32_t)x[insn.rs1()]), number((uint32_t)x[insn.rs2()]), number((uint32_t)x[insn.rs3()]));
    x.write(insn.rd(), widened(std::isnan(sum) ? 0x7fc00000 : bits(sum)));
    return next_of(p, pc);
}

// add: the processor's own, likewise.
reg_t add_whole(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    x.write(insn.rd(), widened((uint32_t)x[insn.rs1()] + (uint32_t)x[insn.rs2()]));
    return next_of(p, pc);
}

// p.max and p.min: of two whole numbers.
reg_t larger(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    x.write(insn.rd(), widened((uint32_t)std::max((int32_t)x[insn.rs1()], (int32_t)x[insn.rs2()])));
    return pc + 4;
}

reg_t smaller(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    x.write(insn.rd(), widened((uint32_t)std::min((int32_t)x[insn.rs1()], (int32_t)x[insn.rs2()])));
    return pc + 4;
}

// p.clipu: what is between 0 and rs2, of whole numbers.
reg_t clipped(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    const int32_t value = (int32_t)x[insn.rs1()], most = (int32_t)x[insn.rs2()];
    x.write(insn.rd(), widened((uint32_t)(value <= 0 ? 0 : value >= most ? most : value)));
    return pc + 4;
}

// p.mac and p.msu: a product of whole numbers is added to rd, or taken from it.
reg_t add_product(processor_t *p, insn_t insn, reg_t pc, uint32_t sign)
{
    auto &x = p->get_state()->XPR;
    const uint32_t product = (uint32_t)x[insn.rs1()] * (uint32_t)x[insn.rs2()];
    x.write(insn.rd(), widened((uint32_t)x[insn.rd()] + sign * product));
    return pc + 4;
}

reg_t plus_product(processor_t *p, insn_t insn, reg_t pc)
{
    return add_product(p, insn, pc, 1);
}

reg_t less_product(processor_t *p, insn_t insn, reg_t pc)
{
    return add_product(p, insn, pc, (uint32_t)-1);
}

// pv.pack.h: the lower halves of rs1 (above) and rs2.
reg_t pack(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    x.write(insn.rd(), widened((uint32_t)x[insn.rs1()] << 16 | ((uint32_t)x[insn.rs2()] & 0xffff)));
    return pc + 4;
}

// pv.cmpgt.h and pv.cmpgtu.h: all bits of each half of rs1 that is above that of rs2, with and without a sign.
template <typename Whole> reg_t above(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    uint32_t found = 0;
    for (int shift = 0; shift < 32; shift += 16)
        if ((Whole)(x[insn.rs1()] >> shift) > (Whole)(x[insn.rs2()] >> shift))
            found |= 0xffffu << shift;
    x.write(insn.rd(), widened(found));
    return pc + 4;
}

// pv.shuffle2.h: either half of rd is one of rd's own (0, 1) or of rs1's (2, 3), as rs2 says.
reg_t choose_halves(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    const uint64_t all = (uint64_t)x[insn.rs1()] << 32 | (uint32_t)x[insn.rd()];
    const uint32_t which = (uint32_t)x[insn.rs2()];
    const uint32_t low = all >> 16 * (which & 3) & 0xffff, high = all >> 16 * (which >> 16 & 3) & 0xffff;
    x.write(insn.rd(), widened(high << 16 | low));
    return pc + 4;
}

// vfcpka.h.s: two floats, rounded, the first one below.
reg_t pack_rounded(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    const uint32_t first = nearest(number((uint32_t)x[insn.rs1()])), second = nearest(number((uint32_t)x[insn.rs2()]));
    x.write(insn.rd(), widened(second << 16 | first));
    return pc + 4;
}

// vfadd.h and vfsub.h: of both halves, each rounded.
reg_t sums(processor_t *p, insn_t insn, reg_t pc, float sign)
{
    auto &x = p->get_state()->XPR;
    const uint32_t a = (uint32_t)x[insn.rs1()], b = (uint32_t)x[insn.rs2()];
    const uint32_t low = nearest(half(a & 0xffff) + sign * half(b & 0xffff));
    x.write(insn.rd(), widened(nearest(half(a >> 16) + sign * half(b >> 16)) << 16 | low));
    return pc + 4;
}

reg_t plus(processor_t *p, insn_t insn, reg_t pc)
{
    return sums(p, insn, pc, 1);
}

reg_t minus(processor_t *p, insn_t insn, reg_t pc)
{
    return sums(p, insn, pc, -1);
}

// fcvt.s.h
reg_t widen(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    x.write(insn.rd(), widened(bits(half((uint32_t)x[insn.rs1()] & 0xffff))));
    return pc + 4;
}

// fcvt.h.s: above the half are ones.
reg_t narrow(processor_t *p, insn_t insn, reg_t pc)
{
    auto &x = p->get_state()->XPR;
    x.write(insn.rd(), widened(0xffff0000 | nearest(number((uint32_t)x[insn.rs1()]))));
    return pc + 4;
}

struct Pulp : extension_t {
    const char *name() const override
    {
        return "xpulp";
    }

    std::vector<insn_desc_t> get_instructions(const processor_t &) override
    {
        std::vector<insn_desc_t> all;
        const auto add = [&](insn_bits_t match, insn_bits_t mask, insn_func_t f) {
            all.push_back({match, mask, f, f, f, f, f, f, f, f});
        };
        add(0x0000200b, 0x0000707f, load_and_advance);
        add(0x2000700b, 0xfe00707f, load_and_advance_by);
        add(0x5000700b, 0xfe00707f, load_half_and_advance_by);
        add(0x0000202b, 0x0000707f, store_and_advance<uint32_t>);
        add(0x0000500b, 0x0000707f, load_half_and_advance);
        add(0x0000102b, 0x0000707f, store_and_advance<uint16_t>);
        add(0x0000407b, 0x00007f7f, set_up_loop);
        add(0x96000033, 0xfe00707f, dot);
        add(0x00007053, 0xfe00707f, ::add);
        add(0x00007043, 0x0600707f, multiply_add);
        add(0x00000033, 0xfe00707f, add_whole);
        add(0x04006033, 0xfe00707f, larger);
        add(0x04004033, 0xfe00707f, smaller);
        add(0x14006033, 0xfe00707f, clipped);
        add(0x42000033, 0xfe00707f, plus_product);
        add(0x42001033, 0xfe00707f, less_product);
        add(0x0000502b, 0xfe00707f, store_and_advance_by<uint16_t>);
        add(0x0000602b, 0xfe00707f, store_and_advance_by<uint32_t>);
        add(0xc8000057, 0xfe00707f, choose_halves);
        add(0xd0000057, 0xfe00707f, pack);
        add(0x14000057, 0xfe00707f, above<int16_t>);
        add(0x34000057, 0xfe00707f, above<uint16_t>);
        add(0xb0002033, 0xfe00707f, pack_rounded);
        add(0x82002033, 0xfe00707f, plus);
        add(0x84002033, 0xfe00707f, minus);
        add(0x40200053, 0xfff0707f, widen);
        add(0x44000053, 0xfff0707f, narrow);
        return all;
    }

    std::vector<disasm_insn_t *> get_disasms(const processor_t *) override
    {
        return {};
    }
};

REGISTER_EXTENSION(xpulp, [] { return new Pulp; })

} // namespace
