// SPDX-License-Identifier: Apache-2.0
// Helpers of instructions whose PTX depends on types, sizes or cache policy.
#include <fmt/format.h>

#include "rooftile/codegen/cuda/instr_text.h"
#include "rooftile/lanes/operands.h"
#include "rooftile/lanes/value_rules.h"

namespace rooftile::codegen::cuda {
namespace {

using lanes::Cache;
using lanes::Fn;
using lanes::Ins;
using lanes::Instr;
using lanes::Ty;

// What createpolicy.fractional.L2::evict_first / evict_last with fraction 1 return.
constexpr const char* kEvictFirst = "0x12F0000000000000";
constexpr const char* kEvictLast = "0x14F0000000000000";

Helper make(std::string name, const std::string& operands, std::string ptx) {
  return {.name = std::move(name), .operands = parse_operands(operands), .ptx = std::move(ptx)};
}

bool evicts(Cache cache) { return cache == Cache::kEvictFirst || cache == Cache::kEvictLast; }
std::string policy(Cache cache) { return cache == Cache::kEvictFirst ? kEvictFirst : kEvictLast; }

std::string cache_suffix(Cache cache) {
  switch (cache) {
    case Cache::kEvictFirst:
      return "_evict_first";
    case Cache::kEvictLast:
      return "_evict_last";
    case Cache::kNoL1:
      return "_no_l1";
    case Cache::kStream:
      return "_stream";
    default:
      return "";
  }
}

// Modifiers of a load or store, and the policy operand that goes with them. Data with an L2 policy
// passes through: only what is kept (evict_last) is worth a place in L1.
struct CacheText {
  std::string modifiers, operand;
};
CacheText cache_text(Cache cache, bool load) {
  switch (cache) {
    case Cache::kEvictFirst:
      return {".L1::no_allocate.L2::cache_hint", std::string(", ") + kEvictFirst};
    case Cache::kEvictLast:
      return {load ? ".L1::evict_last.L2::cache_hint" : ".L2::cache_hint",
              std::string(", ") + kEvictLast};
    case Cache::kNoL1:
      return {".L1::no_allocate", ""};
    case Cache::kStream:
      return {".cs", ""};
    default:
      return {"", ""};
  }
}

// Predicates the one instruction of a helper; the guard is its last operand.
Helper guarded(Helper helper) {
  helper.name += "_if";
  helper.ptx = "{\n.reg .pred p;\nsetp.ne.u32 p, $guard, 0;\n@p " + helper.ptx + "\n}";
  for (Operand& o : helper.operands)
    // What is not loaded stays as it was.
    if (o.mode == Operand::Mode::kOut || o.mode == Operand::Mode::kResult)
      o.mode = Operand::Mode::kInOut;
  helper.operands.push_back({.type = "bool", .name = "guard"});
  return helper;
}

// ---- loads and stores ----

// How registers go to memory: PTX's vector and type, and the operand.
struct Access {
  std::string suffix;   // of the helper: "_v4"
  std::string type;     // ".v4.b32"
  std::string operand;  // "u32 r[4]"
};

Access access_of(Ty type, int count, int element_bytes, bool sign) {
  const std::string reg(type_text(type));
  if (count > 1) {
    const int bits = 8 * lanes::size_bytes(type);
    const std::string wide = bits == 64 ? "_b64" : "";
    return {fmt::format("_v{}{}", count, wide), fmt::format(".v{}.b{}", count, bits),
            fmt::format("{} r[{}]", reg, count)};
  }
  if (element_bytes < 4) {
    const std::string narrow = fmt::format("{}{}", sign ? "s" : "u", 8 * element_bytes);
    return {"_" + narrow, "." + narrow, reg + " r"};
  }
  return {fmt::format("_{}", lanes::ty_name(type)), fmt::format(".b{}", 8 * element_bytes),
          reg + " r"};
}

Access global_access(const Instr& i, Ty type) {
  const int count = lanes::raw_regs(i.dtype, i.global.width).count;
  const int bytes = i.global.width == 1 ? size_bytes(i.dtype) : 4;
  return access_of(type, count, bytes, i.dtype == DType::kI8);
}

Access shared_access(const Instr& i, Ty type) {
  const int count = std::max(1, i.bytes / lanes::size_bytes(type));
  return access_of(type, count, std::min(i.bytes, lanes::size_bytes(type)), false);
}

std::string loaded(const Access& a) {
  return (a.operand.back() == ']' ? "out " : "result ") + a.operand;
}

Helper load_global(const Instr& i, Ty type, bool read_only) {
  const Access a = global_access(i, type);
  const CacheText cache = cache_text(i.cache, true);
  // .cs takes the place that .nc has in the others.
  const bool nc = read_only && i.cache != Cache::kStream;
  return make("ld_global" + a.suffix + (nc ? "_nc" : "") + cache_suffix(i.cache),
              loaded(a) + ", const void* p",
              fmt::format("ld.global{}{}{} $r, [$p]{};", nc ? ".nc" : "", cache.modifiers, a.type,
                          cache.operand));
}

Helper store_global(const Instr& i, Ty type) {
  const Access a = global_access(i, type);
  const CacheText cache = cache_text(i.cache, false);
  return make("st_global" + a.suffix + cache_suffix(i.cache), "const void* p, reg " + a.operand,
              fmt::format("st.global{}{} [$p], $r{};", cache.modifiers, a.type, cache.operand));
}

Helper load_shared(const Instr& i, Ty type) {
  const Access a = shared_access(i, type);
  return make("ld_shared" + a.suffix, loaded(a) + ", u32 addr",
              fmt::format("ld.shared{} $r, [$addr];", a.type));
}

Helper store_shared(const Instr& i, Ty type) {
  const Access a = shared_access(i, type);
  return make("st_shared" + a.suffix, "u32 addr, reg " + a.operand,
              fmt::format("st.shared{} [$addr], $r;", a.type));
}

// ldmatrix and stmatrix of n 8x8 matrices of 16 bits.
Helper matrix_move(const Instr& i) {
  const bool load = i.ins == Ins::kLdMatrix;
  const std::string regs = i.n == 1 ? "u32 r" : fmt::format("u32 r[{}]", i.n);
  const std::string form = fmt::format("m8n8.x{}{}.shared.b16", i.n, i.trans_a ? ".trans" : "");
  const std::string suffix = fmt::format("_x{}{}", i.n, i.trans_a ? "_trans" : "");
  // The braces of a vector are part of the syntax even for one register.
  const std::string r = i.n == 1 ? "{$r}" : "$r";
  if (load)
    return make("ldmatrix" + suffix, (i.n == 1 ? "result " : "out ") + regs + ", u32 addr",
                fmt::format("ldmatrix.sync.aligned.{} {}, [$addr];", form, r));
  return make("stmatrix" + suffix, "u32 addr, reg " + regs,
              fmt::format("stmatrix.sync.aligned.{} [$addr], {};", form, r));
}

// ---- atomics and reductions ----

std::string integer_type(Fn op, Ty type) {
  const int bits = 8 * lanes::size_bytes(type);
  if (op == Fn::kAnd || op == Fn::kOr || op == Fn::kXor) return fmt::format(".b{}", bits);
  // Addition is the same for both signs, and in 64 bits PTX has it as unsigned only.
  const bool sign = lanes::is_signed(type) && op != Fn::kAdd;
  return fmt::format(".{}{}", sign ? "s" : "u", bits);
}

Helper atomic(const Instr& i) {
  const bool shared = i.ins == Ins::kAtomShared, release = i.ins == Ins::kRedGlobalRelease;
  const bool returns = i.ins != Ins::kRedGlobal && !release;
  const Ty type = lanes::element_type(i.dtype);
  const std::string reg(type_text(type));
  const std::string op = fmt::format("{}{}", lanes::fn_info(i.op).name,
                                     type == Ty::kF32 ? ".f32" : integer_type(i.op, type));
  const std::string space = shared ? "shared" : "global";
  const std::string name = fmt::format("{}{}_{}_{}", returns ? "atom" : "red",
                                       release ? "_release" : "", space, lanes::fn_info(i.op).name);
  const std::string where = shared ? "u32 p" : "const void* p";
  if (!returns)
    return make(name, where + ", reg " + reg + " v",
                fmt::format("red.{}{}.{} [$p], $v;", release ? "release.gpu." : "", space, op));
  return make(name, fmt::format("result {} r, {}, reg {} v", reg, where, reg),
              fmt::format("atom.{}.{} $r, [$p], $v;", space, op));
}

Helper redux(const Instr& i, Ty type) {
  const std::string name(lanes::fn_info(i.op).name);
  const bool bits = i.op == Fn::kAnd || i.op == Fn::kOr || i.op == Fn::kXor;
  const std::string form = bits ? "b32" : lanes::is_signed(type) ? "s32" : "u32";
  return make("warp_" + name, fmt::format("result {0} r, reg {0} v", type_text(type)),
              fmt::format("redux.sync.{}.{} $r, $v, 0xffffffff;", name, form));
}

// Lanes stay within groups of n: the upper bits of PTX's clamp operand mask the lane number.
Helper shuffle(const Instr& i, Ty type) {
  const int width = i.n == 0 ? 32 : i.n;
  const bool up = i.ins == Ins::kShflUp;
  const int clamp = ((32 - width) << 8) | (up ? 0 : 31);
  const std::string mode = i.ins == Ins::kShflXor ? "bfly" : up ? "up" : "idx";
  const std::string name = i.ins == Ins::kShflXor ? "shfl_xor" : up ? "shfl_up" : "shfl_idx";
  const std::string suffix = width == 32 ? "" : fmt::format("_w{}", width);
  return make(name + suffix, fmt::format("result {0} r, reg {0} v, u32 lane", type_text(type)),
              fmt::format("shfl.sync.{}.b32 $r, $v, $lane, {}, 0xffffffff;", mode, clamp));
}

// ---- asynchronous copies ----

Helper st_async(Ty type) {
  return make("st_async", fmt::format("reg {} r[4], u32 addr, u32 bar", type_text(type)),
              "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [$addr], $r, [$bar];");
}

Helper cp_async(const Instr& i) {
  const int bytes = i.global.width * size_bytes(i.dtype);
  const bool hint = evicts(i.cache);
  return make(fmt::format("cp_async_{}{}", bytes, cache_suffix(i.cache)),
              "u32 addr, u32 filled, const void* p",
              fmt::format("cp.async.{}.shared.global{} [$addr], [$p], {}, $filled{};",
                          bytes == 16 ? "cg" : "ca", hint ? ".L2::cache_hint" : "", bytes,
                          hint ? ", " + policy(i.cache) : ""));
}

// "x0, x1, ...": the coordinates of a tensor map of this rank, innermost first.
std::string coordinates(int rank, const char* prefix) {
  std::string out;
  for (int d = 0; d < rank; ++d) out += fmt::format("{}{}{}", d == 0 ? "" : ", ", prefix, d);
  return out;
}

Helper tma_load(const Instr& i, int rank) {
  const bool multicast = i.ins == Ins::kTmaLoadMulticast, hint = evicts(i.cache);
  const std::string name =
      fmt::format("tma_load_{}d{}{}", rank, multicast ? "_multicast" : "", cache_suffix(i.cache));
  const std::string operands =
      fmt::format("const TensorMap& map, u32 addr, u32 bar, {}{}", multicast ? "u16 mask, " : "",
                  coordinates(rank, "i32 x"));
  return make(name, operands,
              fmt::format("cp.async.bulk.tensor.{}d.shared::cluster.global.tile"
                          ".mbarrier::complete_tx::bytes{}{} [$addr], [$map, {{{}}}], [$bar]{}{};",
                          rank, multicast ? ".multicast::cluster" : "",
                          hint ? ".L2::cache_hint" : "", coordinates(rank, "$x"),
                          multicast ? ", $mask" : "", hint ? ", " + policy(i.cache) : ""));
}

Helper tma_store(const Instr& i, int rank) {
  const bool hint = evicts(i.cache);
  return make(fmt::format("tma_store_{}d{}", rank, cache_suffix(i.cache)),
              "const TensorMap& map, u32 addr, " + coordinates(rank, "i32 x"),
              fmt::format("cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group{}"
                          " [$map, {{{}}}], [$addr]{};",
                          rank, hint ? ".L2::cache_hint" : "", coordinates(rank, "$x"),
                          hint ? ", " + policy(i.cache) : ""));
}

Helper bulk_load(const Instr& i) {
  const bool hint = evicts(i.cache);
  return make("bulk_load" + cache_suffix(i.cache), "u32 addr, const void* p, u32 bytes, u32 bar",
              fmt::format("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes{}"
                          " [$addr], [$p], $bytes, [$bar]{};",
                          hint ? ".L2::cache_hint" : "", hint ? ", " + policy(i.cache) : ""));
}

// ---- products ----

std::string_view ptx_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return "f16";
    case DType::kF8E4M3:
      return "e4m3";
    case DType::kF8E5M2:
      return "e5m2";
    case DType::kI8:
      return "s8";
    case DType::kU8:
      return "u8";
    default:
      return "bf16";
  }
}

// D += A B on a warpgroup. `keep` 0 overwrites D; a constant one is part of the text, and then a D
// that is overwritten need not have a value before.
Helper wgmma(const Instr& i) {
  const bool fragments = i.regs.size() > 1, integers = lanes::accumulator_type(i.dtype) == Ty::kI32;
  const bool half = size_bytes(i.dtype) == 2;
  const bool known = i.args[0]->kind == lanes::ValKind::kInt, zero = i.args[0].is_int(0);
  const std::string_view type = ptx_type(i.dtype);
  const std::string shape = fmt::format("m64n{}k{}", i.n, 32 / size_bytes(i.dtype));
  const std::string name = fmt::format("wgmma_{}_{}{}{}{}{}", shape, type, fragments ? "_ra" : "",
                                       i.trans_a ? "_ta" : "", i.trans_b ? "_tb" : "",
                                       !known ? ""
                                       : zero ? "_first"
                                              : "_add");
  const std::string operands =
      fmt::format("{} {} d[{}], {}{}{}u64 b", zero && known ? "out" : "inout",
                  integers ? "i32" : "float", i.n / 2, fragments ? "reg u32 a[4], " : "",
                  known ? "" : "u32 keep, ", fragments ? "" : "u64 a, ");
  std::string immediates = integers ? "" : ", 1, 1";  // the scales of A and B
  if (half && !fragments) immediates += i.trans_a ? ", 1" : ", 0";
  if (half) immediates += i.trans_b ? ", 1" : ", 0";
  const std::string keep = !known ? "$keep" : zero ? "0" : "1";
  return make(name, operands,
              fmt::format("{{\n.reg .pred keep;\nsetp.ne.u32 keep, {}, 0;\n"
                          "wgmma.mma_async.sync.aligned.{}.{}.{}.{} $d, $a, $b, keep{};\n}}",
                          keep, shape, integers ? "s32" : "f32", type, type, immediates));
}

Helper mma(const Instr& i) {
  const bool integers = lanes::accumulator_type(i.dtype) == Ty::kI32;
  const std::string_view type = ptx_type(i.dtype);
  const std::string shape = fmt::format("m16n8k{}", 32 / size_bytes(i.dtype));
  const std::string sum = integers ? "s32" : "f32", reg = integers ? "i32" : "float";
  return make(fmt::format("mma_{}_{}", shape, type),
              fmt::format("out {0} d[4], reg u32 a[4], reg u32 b[2], reg {0} c[4]", reg),
              fmt::format("mma.sync.aligned.{0}.row.col.{1}.{2}.{2}.{1} $d, $a, $b, $c;", shape,
                          sum, type));
}

Helper unguarded(const Instr& i, const InstrContext& context) {
  switch (i.ins) {
    case Ins::kLdGlobal:
      return load_global(i, context.register_type, context.read_only);
    case Ins::kStGlobal:
      return store_global(i, context.register_type);
    case Ins::kLdShared:
      return load_shared(i, context.register_type);
    case Ins::kStShared:
      return store_shared(i, context.register_type);
    case Ins::kLdMatrix:
    case Ins::kStMatrix:
      return matrix_move(i);
    case Ins::kRedGlobal:
    case Ins::kRedGlobalRelease:
    case Ins::kAtomGlobal:
    case Ins::kAtomShared:
      return atomic(i);
    case Ins::kRedux:
      return redux(i, context.register_type);
    case Ins::kShflXor:
    case Ins::kShflIdx:
    case Ins::kShflUp:
      return shuffle(i, context.register_type);
    case Ins::kStAsync:
      return st_async(context.register_type);
    case Ins::kCpAsync:
      return cp_async(i);
    case Ins::kTmaLoad:
    case Ins::kTmaLoadMulticast:
      return tma_load(i, context.map_rank);
    case Ins::kTmaStore:
      return tma_store(i, context.map_rank);
    case Ins::kBulkLoad:
      return bulk_load(i);
    case Ins::kWgmma:
      return wgmma(i);
    default:
      return mma(i);
  }
}

}  // namespace

bool takes_guard(Ins ins) {
  switch (ins) {
    case Ins::kLdGlobal:
    case Ins::kStGlobal:
    case Ins::kLdShared:
    case Ins::kStShared:
    case Ins::kCpAsync:
      return true;
    default:
      return false;
  }
}

Helper family_helper(const Instr& instr, const InstrContext& context) {
  Helper helper = unguarded(instr, context);
  return instr.guard.present() && takes_guard(instr.ins) ? guarded(std::move(helper)) : helper;
}

}  // namespace rooftile::codegen::cuda
