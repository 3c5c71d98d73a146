// SPDX-License-Identifier: Apache-2.0
#include "rooftile/lanes/testing/catalogue.h"

#include "rooftile/lanes/operands.h"
#include "rooftile/lanes/value_rules.h"

namespace rooftile::lanes::testing {
namespace {

constexpr int kArray = 128;  // registers of each array

RegRef scalar(const char* name) { return {name, {}, 1}; }
RegRef run(const char* name, int count) { return {name, 0, count}; }

// The scalar register and the array of each type.
const char* scalar_name(Ty type) {
  constexpr const char* kNames[] = {"p", "i", "u", "l", "ul", "f"};
  return kNames[static_cast<size_t>(type)];
}
const char* array_name(Ty type) {
  return type == Ty::kF32 ? "fa" : type == Ty::kI32 ? "ia" : type == Ty::kI64 ? "la" : "ua";
}
RegRef registers(Ty type, int count) {
  return count == 1 ? scalar(scalar_name(type)) : run(array_name(type), count);
}

Program frame(const char* name) {
  Program p;
  p.name = name;
  p.cluster = 2;
  const Expr n = Expr::sym("N");
  for (const DTypeInfo& dtype : kDTypes) {
    const std::string tensor = "t_" + std::string(dtype.name);
    p.tensors.push_back(
        {.name = tensor, .dtype = dtype.dtype, .shape = {n, n}, .written = true, .read = true});
    p.tensors.push_back({.name = "r_" + std::string(dtype.name),
                         .dtype = dtype.dtype,
                         .shape = {n, n},
                         .read = true,
                         .unaliased = true});
    p.scalars.push_back({tensor + ".s0", Ty::kI64});
  }
  for (int rank = 1; rank <= 5; ++rank) {
    const std::string tensor = "x" + std::to_string(rank);
    const std::vector<Expr> shape(static_cast<size_t>(rank), n);
    p.tensors.push_back(
        {.name = tensor, .dtype = DType::kBf16, .shape = shape, .written = true, .read = true});
    std::vector<int> box(static_cast<size_t>(rank), 2);
    box[0] = 64;
    p.maps.push_back({.name = "map" + std::to_string(rank),
                      .tensor = tensor,
                      .box = box,
                      .swizzle = Swizzle::k128});
  }
  p.scalars.push_back({"N", Ty::kI32});
  p.scalars.push_back({"eps", Ty::kF32});
  p.shared = {{.name = "tile", .bytes = 4096, .align = 1024},
              {.name = "bars", .bytes = 64, .align = 8, .barriers = true}};
  for (const Ty type : {Ty::kI32, Ty::kU32, Ty::kI64, Ty::kU64, Ty::kF32})
    p.body.push_back(
        decl(type, scalar_name(type), cast(type, special(Special::kTid) + param(Ty::kI32, "N"))));
  p.body.push_back(decl(Ty::kPred, "p", var(Ty::kI32, "i") < 7));
  for (const Ty type : {Ty::kI32, Ty::kU32, Ty::kI64, Ty::kF32}) {
    p.body.push_back(decl_array(type, array_name(type), kArray));
    p.body.push_back(for_("e", 0, kArray, 1,
                          {assign(array_name(type), var(Ty::kI32, "e"),
                                  cast(type, special(Special::kLane) + var(Ty::kI32, "e")))},
                          Unroll::kYes));
  }
  return p;
}

// Keeps what was computed alive: every array and scalar is stored.
Program finished(Program p) {
  const auto store = [&](DType dtype, const RegRef& reg) {
    Instr i;
    i.ins = Ins::kStGlobal;
    i.dtype = dtype;
    i.global = {"t_" + std::string(name(dtype)), {var(Ty::kI32, "i"), special(Special::kTid)}, 1};
    i.regs = {reg};
    p.body.push_back(instr(std::move(i)));
  };
  for (int e = 0; e < kArray; ++e) {
    store(DType::kF32, {"fa", e, 1});
    store(DType::kI32, {"ia", e, 1});
  }
  for (int e = 0; e < 4; ++e) {
    store(DType::kU32, {"ua", e, 1});
    store(DType::kI64, {"la", e, 1});
  }
  store(DType::kF32, scalar("f"));
  store(DType::kI32, scalar("i"));
  store(DType::kU32, scalar("u"));
  store(DType::kI64, scalar("l"));
  return p;
}

Program planned(Program p) {
  p = finished(std::move(p));
  // A few hundred bytes: it always fits.
  return plan_shared(p).ok() ? p : Program();
}

void add(Program& p, Instr i, bool with_guard = false) {
  p.body.push_back(instr(i));
  if (!with_guard) return;
  i.guard = var(Ty::kPred, "p");
  p.body.push_back(instr(std::move(i)));
}

const std::vector<Cache> kCaches = {Cache::kPlain, Cache::kEvictFirst, Cache::kEvictLast,
                                    Cache::kNoL1, Cache::kStream};

Program global_memory() {
  Program p = frame("global_memory");
  for (const DTypeInfo& dtype : kDTypes)
    for (const int width : {1, 2, 4, 8, 16}) {
      const RawRegs raw = raw_regs(dtype.dtype, width);
      if (raw.count == 0) continue;
      for (const Cache cache : kCaches) {
        if (cache != Cache::kPlain && width > 1 && raw.count != 4) continue;
        Instr i;
        i.dtype = dtype.dtype;
        i.cache = cache;
        const RegRef reg =
            width == 1 ? scalar(scalar_name(raw.type)) : RegRef{array_name(raw.type), 0, raw.count};
        for (const char* prefix : {"t_", "r_"}) {
          i.ins = Ins::kLdGlobal;
          i.global = {prefix + std::string(dtype.name),
                      {var(Ty::kI32, "i"), special(Special::kLane) * width},
                      width};
          i.results = {reg};
          i.regs.clear();
          add(p, i, true);
        }
        i.ins = Ins::kStGlobal;
        i.global.tensor = "t_" + std::string(dtype.name);
        i.results.clear();
        i.regs = {reg};
        add(p, i, true);
      }
    }
  return planned(std::move(p));
}

void atomics(Program& p) {
  for (const Fn op : {Fn::kAdd, Fn::kMin, Fn::kMax, Fn::kAnd, Fn::kOr, Fn::kXor})
    for (const DType dtype : {DType::kI32, DType::kU32, DType::kI64, DType::kF32})
      for (const Ins ins :
           {Ins::kRedGlobal, Ins::kRedGlobalRelease, Ins::kAtomGlobal, Ins::kAtomShared}) {
        if (!atomic_error(op, dtype, ins == Ins::kAtomShared).empty()) continue;
        Instr i;
        i.ins = ins;
        i.dtype = dtype;
        i.op = op;
        i.regs = {scalar(scalar_name(element_type(dtype)))};
        if (ins == Ins::kAtomGlobal || ins == Ins::kAtomShared) i.results = i.regs;
        if (ins == Ins::kAtomShared)
          i.args = {shared("tile")};
        else
          i.global = {"t_" + std::string(name(dtype)), {special(Special::kCtaX), 0}, 1};
        add(p, i, true);
      }
}

void wait_global(Program& p) {
  Instr i;
  i.ins = Ins::kWaitGlobal;
  i.dtype = DType::kI32;
  i.global = {"t_i32", {special(Special::kCtaX), 0}, 1};
  i.args = {var(Ty::kI32, "i")};
  add(p, i);
  add(p, i);  // the labels of two waits must not meet
}

Program other_memory() {
  Program p = frame("other_memory");
  atomics(p);
  wait_global(p);
  const Val at = shared("tile") + cast(Ty::kU32, special(Special::kLane)) * 16;
  for (const Ty type : {Ty::kU32, Ty::kI32, Ty::kF32, Ty::kI64})
    for (const int bytes : {1, 2, 4, 8, 16}) {
      if (bytes < 4 && type != Ty::kU32) continue;
      if (type == Ty::kI64 && bytes != 8) continue;
      Instr i;
      i.ins = Ins::kLdShared;
      i.bytes = bytes;
      i.args = {at};
      i.results = {registers(type, std::max(1, bytes / size_bytes(type)))};
      add(p, i, true);
      i.ins = Ins::kStShared;
      i.regs = std::move(i.results);
      i.results.clear();
      add(p, i, true);
    }
  for (const int n : {1, 2, 4})
    for (const bool trans : {false, true}) {
      Instr i;
      i.ins = Ins::kLdMatrix;
      i.n = n;
      i.trans_a = trans;
      i.args = {at};
      i.results = {registers(Ty::kU32, n)};
      add(p, i);
      i.ins = Ins::kStMatrix;
      i.regs = std::move(i.results);
      i.results.clear();
      add(p, i);
    }
  Instr prefetch;
  prefetch.ins = Ins::kPrefetchL2;
  prefetch.global = {"t_f32", {var(Ty::kI32, "i"), 0}, 1};
  add(p, prefetch, true);
  for (const Ty type : {Ty::kF32, Ty::kU32}) {
    Instr i;
    i.ins = Ins::kMapa;
    i.results = {scalar("u")};
    i.args = {shared("tile"), 1};
    add(p, i);
    i.ins = Ins::kStAsync;
    i.results.clear();
    i.regs = {registers(type, 4)};
    i.args = {var(Ty::kU32, "u"), var(Ty::kU32, "u") + 1024};
    add(p, i, true);
  }
  return planned(std::move(p));
}

Program copies() {
  Program p = frame("copies");
  for (const Cache cache : {Cache::kPlain, Cache::kEvictFirst, Cache::kEvictLast}) {
    for (const int width : {2, 4, 8}) {
      Instr i;
      i.ins = Ins::kCpAsync;
      i.dtype = DType::kBf16;
      i.cache = cache;
      i.global = {"r_bf16", {var(Ty::kI32, "i"), 0}, width};
      i.args = {shared("tile"), select(var(Ty::kPred, "p"), 2 * width, 0)};
      add(p, i, true);
    }
    Instr bulk;
    bulk.ins = Ins::kBulkLoad;
    bulk.cache = cache;
    bulk.global = {"r_f32", {var(Ty::kI32, "i"), 0}, 1};
    bulk.bytes = 1024;
    bulk.args = {shared("tile"), shared("bars")};
    add(p, bulk, true);
    for (int rank = 1; rank <= 5; ++rank) {
      Instr i;
      i.map = "map" + std::to_string(rank);
      i.cache = cache;
      i.bytes = 128 << (rank - 1);
      const std::vector<Val> at(static_cast<size_t>(rank), var(Ty::kI32, "i") * 64);
      const auto tma = [&](Ins ins, std::vector<Val> args) {
        i.ins = ins;
        i.args = std::move(args);
        i.args.insert(i.args.end(), at.begin(), at.end());
        add(p, i, true);
      };
      tma(Ins::kTmaLoad, {shared("tile"), shared("bars")});
      tma(Ins::kTmaLoadMulticast, {shared("tile"), shared("bars"), 3});
      tma(Ins::kTmaStore, {shared("tile")});
    }
  }
  Instr prefetch;
  prefetch.ins = Ins::kPrefetchMap;
  prefetch.map = "map1";
  add(p, prefetch);
  return planned(std::move(p));
}

// Instructions without types or sizes.
Program plain_instructions() {
  Program p = frame("plain_instructions");
  const Val bar = shared("bars"), one = 1, parity = var(Ty::kI32, "i");
  const auto op = [&](Ins ins, std::vector<Val> args = {}, int n = 0, int bytes = 0) {
    Instr i;
    i.ins = ins;
    i.args = std::move(args);
    i.n = n;
    i.bytes = bytes;
    add(p, i);
  };
  op(Ins::kBarInit, {bar, one});
  op(Ins::kBarInitFence);
  op(Ins::kBarExpect, {bar}, 0, 64);
  op(Ins::kBarArrive, {bar});
  op(Ins::kBarArriveRemote, {bar, one});
  op(Ins::kBarArriveRemoteRelease, {bar, one});
  op(Ins::kBarWait, {bar, parity});
  op(Ins::kBarWait, {bar + 8, parity});  // the labels of two waits must not meet
  op(Ins::kBarWaitCluster, {bar, parity});
  op(Ins::kCpArrive, {bar});
  op(Ins::kCpCommit);
  op(Ins::kCpWait, {}, 2);
  op(Ins::kBulkCommit);
  op(Ins::kBulkWaitRead, {}, 1);
  op(Ins::kBulkWait, {}, 0);
  op(Ins::kProxyFence);
  op(Ins::kFence);
  op(Ins::kSyncThreads);
  op(Ins::kSyncWarp);
  op(Ins::kNamedSync, {3}, 64);
  op(Ins::kNamedArrive, {var(Ty::kI32, "i")}, 128);
  op(Ins::kClusterArrive);
  op(Ins::kClusterWait);
  op(Ins::kClusterArriveRelease);
  op(Ins::kClusterWait);
  Stmt rare = if_(var(Ty::kI32, "i") < 5, {assign("i", 5)}, {assign("i", 6)});
  rare.unlikely = true;
  p.body.push_back(while_(var(Ty::kI32, "i") < 9, {rare, assign("i", var(Ty::kI32, "i") * 2)}));
  op(Ins::kRegsDec, {}, 40);
  op(Ins::kRegsInc, {}, 232);
  op(Ins::kGridWait);
  op(Ins::kGridLaunchNext);
  return planned(std::move(p));
}

Program warp_instructions() {
  Program p = frame("warp_instructions");
  Instr elect;
  elect.ins = Ins::kElect;
  elect.results = {scalar("p")};
  add(p, elect);
  Instr vote;
  vote.ins = Ins::kVoteAny;
  vote.results = {scalar("p")};
  vote.args = {var(Ty::kI32, "i") < 3};
  add(p, vote);
  for (const Ty type : {Ty::kF32, Ty::kI32, Ty::kU32}) {
    for (const Ins ins : {Ins::kShflXor, Ins::kShflIdx, Ins::kShflUp})
      for (const int width : {0, 8}) {
        Instr i;
        i.ins = ins;
        i.n = width;
        i.results = i.regs = {scalar(scalar_name(type))};
        i.args = {1};
        add(p, i);
      }
    if (type == Ty::kF32) continue;
    for (const Fn op : {Fn::kAdd, Fn::kMin, Fn::kMax, Fn::kAnd, Fn::kOr, Fn::kXor}) {
      Instr i;
      i.ins = Ins::kRedux;
      i.op = op;
      i.results = i.regs = {scalar(scalar_name(type))};
      add(p, i);
    }
  }
  for (const DType dtype : {DType::kBf16, DType::kF16, DType::kI8}) {
    const Ty sum = accumulator_type(dtype);
    Instr i;
    i.ins = Ins::kMmaSync;
    i.dtype = dtype;
    i.results = {run(array_name(sum), 4)};
    i.regs = {run("ua", 4), {"ua", 4, 2}, run(array_name(sum), 4)};
    add(p, i);
  }
  Instr pin;
  pin.ins = Ins::kPin;
  pin.regs = {run("fa", 8), {"ua", 4, 4}, scalar("i"), scalar("l")};
  add(p, pin);
  return planned(std::move(p));
}

}  // namespace

namespace {

constexpr DType kProductTypes[] = {DType::kBf16,   DType::kF16, DType::kF8E4M3,
                                   DType::kF8E5M2, DType::kI8,  DType::kU8};

// The product with each of `keeps`, where the hardware has it.
void add_product(Program& p, Instr i, bool fragments, const std::vector<Val>& keeps) {
  i.ins = Ins::kWgmma;
  i.regs = {run(array_name(accumulator_type(i.dtype)), i.n / 2)};
  if (fragments) i.regs.push_back({"ua", 4, 4});
  if (!wgmma_error(i).empty()) return;
  const Val desc = fn(Fn::kMatrixDesc, {shared("tile"), 16, 1024, 3});
  for (const Val& keep : keeps) {
    i.args = {keep, desc};
    if (!fragments) i.args.push_back(desc);
    p.body.push_back(instr(i));
  }
}

// A kernel with `products` between fence and wait.
template <class Products>
Program product_kernel(const char* name, const Products& products) {
  Program p = frame(name);
  Instr step;
  step.ins = Ins::kWgmmaFence;
  add(p, step);
  products(p);
  step.ins = Ins::kWgmmaCommit;
  add(p, step);
  step.ins = Ins::kWgmmaWait;
  add(p, step);
  return planned(std::move(p));
}

}  // namespace

Program product_catalogue() {
  const std::vector<Val> keeps = {int_val(Ty::kU32, 0), int_val(Ty::kU32, 1), var(Ty::kU32, "u")};
  return product_kernel("products", [&](Program& p) {
    for (const DType dtype : kProductTypes)
      for (const int n : {8, 64, 256})
        for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
          Instr i;
          i.dtype = dtype;
          i.n = n;
          i.trans_a = (variant & 1) != 0;
          i.trans_b = (variant & 2) != 0;
          add_product(p, std::move(i), (variant & 4) != 0, keeps);
        }
  });
}

Program product_widths() {
  return product_kernel("product_widths", [&](Program& p) {
    for (const DType dtype : kProductTypes)
      for (int n = 8; n <= 256; n += 8) {
        Instr i;
        i.dtype = dtype;
        i.n = n;
        add_product(p, std::move(i), false, {var(Ty::kU32, "u")});
      }
  });
}

Program pure_catalogue() {
  Program p = frame("pure");
  constexpr Ty kAll[] = {Ty::kPred, Ty::kI32, Ty::kU32, Ty::kI64, Ty::kU64, Ty::kF32};
  const auto keep = [&](Fn f, Ty type, const std::vector<Val>& args) {
    const Val value = fn(f, type, args);
    const bool ill = value->kind == ValKind::kFn && !type_error(f, type, value->args).empty();
    if (!ill) p.body.push_back(assign(scalar_name(type), value));
  };
  for (int code = 0; code <= static_cast<int>(Fn::kMatrixDesc); ++code) {
    const Fn f = static_cast<Fn>(code);
    for (const Ty type : kAll) {
      const Val x = var(type, scalar_name(type));
      if (f == Fn::kMatrixDesc) {
        if (type == Ty::kU32) keep(f, Ty::kU64, {x, 16, 1024, 3});
      } else if (f == Fn::kSelect) {
        keep(f, type, {var(Ty::kPred, "p"), x, x});
      } else if (f == Fn::kCast || f == Fn::kBits) {
        for (const Ty to : kAll) keep(f, to, {x});
      } else {
        std::vector<Val> args(static_cast<size_t>(fn_info(f).arity), x);
        if (f == Fn::kShl || f == Fn::kShr) args[1] = var(Ty::kI32, "i");
        keep(f, result_type(f, args), args);
      }
    }
  }
  for (const double number : {-0.0, 1e-40, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0})
    p.body.push_back(assign("f", var(Ty::kF32, "f") * f32(number)));
  p.body.push_back(assign("i", var(Ty::kI32, "i") + int_val(Ty::kI32, INT32_MIN)));
  p.body.push_back(assign("l", fn(Fn::kXor, {var(Ty::kI64, "l"), int_val(Ty::kI64, INT64_MIN)})));
  p.body.push_back(assign("ul", fn(Fn::kXor, {var(Ty::kU64, "ul"), int_val(Ty::kU64, -1)})));
  for (const Special s : {Special::kCtaX, Special::kCtaY, Special::kCtaZ, Special::kGridX,
                          Special::kGridY, Special::kGridZ, Special::kClusterRank, Special::kWarp})
    p.body.push_back(assign("i", var(Ty::kI32, "i") + special(s)));
  p.body.push_back(assign("f", var(Ty::kF32, "f") + param(Ty::kF32, "eps")));
  return planned(std::move(p));
}

std::vector<Program> instruction_catalogue() {
  return {global_memory(),      other_memory(),      copies(),
          plain_instructions(), warp_instructions(), product_catalogue()};
}

}  // namespace rooftile::lanes::testing
