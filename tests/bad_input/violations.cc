// SPDX-License-Identifier: Apache-2.0
#include "tests/bad_input/violations.h"

#include <algorithm>
#include <cmath>

#include "rooftile/base/float_convert.h"
#include "rooftile/check/case_inputs.h"

namespace rooftile::bad_input {

Call fresh_call(const OpDef& op, const RefCall& ref) {
  Call call;
  call.op = &op;
  call.ref = ref;
  for (const ArgDef& arg : op.args) {
    call.memory.emplace_back();
    call.tensors.emplace_back();
    if (!ref.config.has(arg.name)) continue;
    const NdArray& values = ref.tensors.at(arg.name);
    call.memory.back() = check::HostTensor(ref.config.dtype(arg.name), values.shape);
    if (arg.role == ir::Role::kOut)
      call.memory.back().poison(check::Poison::kFirst);
    else
      call.memory.back().store(values);
    call.tensors.back() = call.memory.back().view();
  }
  for (const AttrDef& attr : op.attrs) {
    const double value = ref.attr(attr.name);
    call.attrs.push_back(attr.is_float ? Scalar(value) : Scalar(static_cast<int64_t>(value)));
  }
  for (const FlagDef& flag : op.flags) call.flags.push_back(ref.config.flag(flag.name));
  return call;
}

namespace {

class Table {
 public:
  explicit Table(const Call& call) : op_(*call.op), call_(call) {
    for (size_t i = 0; i < op_.args.size(); ++i)
      if (call.ref.config.has(op_.args[i].name)) {
        tensor_kind(i);
        tensor_shape(i);
        tensor_memory(i);
        if (op_.args[i].role != ir::Role::kIn) output_memory(i);
      }
    for (size_t i = 0; i < op_.attrs.size(); ++i) attribute(i);
    for (size_t i = 0; i < op_.flags.size(); ++i) flag(i);
    for (const ir::Clause& clause : op_.clauses) index_clause(clause);
    for (const ir::Clause& clause : op_.clauses) condition(clause);
  }
  std::vector<Violation> take() { return std::move(rows_); }

 private:
  using Codes = std::set<ErrorCode>;

  void add(std::string name, Codes codes, std::set<std::string> arguments,
           std::function<void(Call&)> apply) {
    rows_.push_back({std::move(name), std::move(codes), std::move(arguments), std::move(apply)});
  }
  // A violation of one argument's view.
  void add(size_t i, const std::string& what, Codes codes, std::function<void(TensorView&)> apply) {
    const std::string& arg = op_.args[i].name;
    add(arg + ": " + what, std::move(codes), {arg},
        [i, apply](Call& call) { apply(call.tensors[i]); });
  }
  const TensorView& view(size_t i) const { return call_.tensors[i]; }
  bool empty(size_t i) const { return view(i).numel() == 0; }
  int alignment(size_t i) const {
    return std::max(op_.args[i].align_bytes, size_bytes(view(i).dtype));
  }

  void tensor_kind(size_t i) {
    const ArgDef& arg = op_.args[i];
    const int rank = view(i).rank;
    if (rank < kMaxRank)
      add(i, "one dimension too many", {ErrorCode::kRank}, [](TensorView& v) {
        v.shape[static_cast<size_t>(v.rank)] = v.strides[static_cast<size_t>(v.rank)] = 1;
        ++v.rank;
      });
    if (rank > 0)
      add(i, "one dimension too few", {ErrorCode::kRank}, [](TensorView& v) { --v.rank; });
    add(i, "an impossible rank", {ErrorCode::kRank}, [](TensorView& v) { v.rank = 100; });
    add(i, "on a GPU", {ErrorCode::kDevice}, [](TensorView& v) { v.device = DeviceKind::kCuda; });
    add(i, "a dtype that does not exist", {ErrorCode::kDType},
        [](TensorView& v) { v.dtype = static_cast<DType>(200); });
    for (DType other : {DType::kI64, DType::kF32, DType::kBool, DType::kF8E5M2}) {
      const bool admitted =
          std::find(arg.dtypes.begin(), arg.dtypes.end(), other) != arg.dtypes.end();
      if (other == view(i).dtype || (admitted && arg.same_dtype_as.empty())) continue;
      // Others may take their dtype from this one, and then be the ones that are wrong.
      std::set<std::string> named = {arg.name};
      for (const ArgDef& follower : op_.args)
        if (follower.same_dtype_as == arg.name || follower.name == arg.same_dtype_as)
          named.insert(follower.name);
      add(arg.name + ": dtype " + std::string(name(other)), {ErrorCode::kDType}, named,
          [i, other](Call& call) { call.tensors[i].dtype = other; });
      break;
    }
    if (!arg.optional && rank > 0)
      add(i, "missing", {ErrorCode::kArgCount}, [](TensorView& v) { v = TensorView(); });
  }

  // Every tensor whose shape mentions one of the symbols.
  std::set<std::string> sharing(const std::set<std::string>& symbols, int* mentions) const {
    std::set<std::string> names;
    *mentions = 0;
    for (const ArgDef& arg : op_.args) {
      if (!call_.ref.config.has(arg.name)) continue;
      for (const Expr& extent : arg.shape)
        for (const std::string& symbol : symbols_of(call_.ref.config.resolve(extent)))
          if (symbols.count(symbol) > 0) {
            ++*mentions;
            names.insert(arg.name);
          }
    }
    return names;
  }

  void tensor_shape(size_t i) {
    const ArgDef& arg = op_.args[i];
    for (size_t axis = 0; axis < arg.shape.size(); ++axis) {
      const std::string where = " in dimension " + std::to_string(axis);
      add(i, "a negative extent" + where, {ErrorCode::kExtent},
          [axis](TensorView& v) { v.shape[axis] = -1; });
      const Expr extent = call_.ref.config.resolve(arg.shape[axis]);
      int mentions = 0;
      std::set<std::string> names = sharing(symbols_of(extent), &mentions);
      if (extent.kind() == ExprKind::kSym && mentions < 2) continue;  // any extent will do
      names.insert(arg.name);
      add(arg.name + ": one element too many" + where, {ErrorCode::kExtent}, names,
          [i, axis](Call& call) { ++call.tensors[i].shape[axis]; });
      if (view(i).shape[axis] > 1)
        add(arg.name + ": one element too few" + where, {ErrorCode::kExtent}, names,
            [i, axis](Call& call) { --call.tensors[i].shape[axis]; });
    }
  }

  void tensor_memory(size_t i) {
    if (empty(i)) return;
    const auto rank = static_cast<size_t>(view(i).rank);
    add(i, "a null pointer", {ErrorCode::kNullPointer}, [](TensorView& v) { v.data = nullptr; });
    if (alignment(i) > 1)
      add(i, "a misaligned pointer", {ErrorCode::kAlignment},
          [](TensorView& v) { v.data = static_cast<char*>(v.data) + 1; });
    if (rank > 0 && op_.args[i].unit_inner_stride && view(i).shape[rank - 1] > 1)
      for (int64_t stride : {2, 0, -1})
        add(i, "inner stride " + std::to_string(stride), {ErrorCode::kStride},
            [rank, stride](TensorView& v) { v.strides[rank - 1] = stride; });
    if (rank > 1 && view(i).shape[0] > 1) {
      add(i, "a stride that leaves the address space", {ErrorCode::kSizeLimit},
          [](TensorView& v) { v.strides[0] = int64_t{1} << 61; });
      if (alignment(i) > size_bytes(view(i).dtype))
        add(i, "misaligned rows", {ErrorCode::kAlignment}, [](TensorView& v) { ++v.strides[0]; });
    }
  }

  void output_memory(size_t i) {
    if (empty(i)) return;
    const std::string& out = op_.args[i].name;
    if (view(i).rank > 1 && view(i).shape[0] > 1)
      for (int sign : {0, -1})
        add(i, sign == 0 ? "an output with broadcast rows" : "an output with flipped rows",
            {ErrorCode::kStride}, [sign](TensorView& v) { v.strides[0] *= sign; });
    for (size_t other = 0; other < op_.args.size(); ++other) {
      if (other == i || !call_.ref.config.has(op_.args[other].name) || empty(other)) continue;
      const std::string& name = op_.args[other].name;
      auto lists = [](const ArgDef& a, const std::string& b) {
        return std::find(a.may_alias.begin(), a.may_alias.end(), b) != a.may_alias.end();
      };
      // In place is allowed for some: those overlap by a part.
      const bool in_place = lists(op_.args[i], name) || lists(op_.args[other], out);
      const int64_t shift = in_place ? alignment(i) : 0;
      if (shift >= call_.memory[other].size_bytes()) continue;
      add(out + ": memory of " + name, {ErrorCode::kAlias}, {out, name},
          [i, other, shift](Call& call) {
            call.tensors[i].data = static_cast<char*>(call.tensors[other].data) + shift;
          });
    }
  }

  void attribute(size_t i) {
    const AttrDef& attr = op_.attrs[i];
    auto set = [&](const std::string& what, ErrorCode code, Scalar value) {
      add(attr.name + ": " + what, {code}, {attr.name},
          [i, value](Call& call) { call.attrs[i] = value; });
    };
    if (!attr.is_float) {
      set("a float", ErrorCode::kArgKind, Scalar(0.5));
    } else {
      set("NaN", ErrorCode::kNonFinite, Scalar(double{NAN}));
      set("more than f32 holds", ErrorCode::kNonFinite, Scalar(1e300));
      if (!attr.has_range || std::isfinite(attr.max))
        set("infinity", ErrorCode::kNonFinite, Scalar(double{INFINITY}));
    }
    if (!attr.has_range) return;
    auto number = [&](double value) {
      return attr.is_float ? Scalar(value) : Scalar(static_cast<int64_t>(value));
    };
    constexpr double kLarge = 1e18;  // beyond, neither kind of attribute can step over the bound
    if (std::fabs(attr.min) < kLarge) {
      const double step = std::fmax(1.0, std::fabs(attr.min) / 2);
      set("below its range", ErrorCode::kAttrRange, number(attr.min - step));
      if (attr.min_exclusive) set("its excluded bound", ErrorCode::kAttrRange, number(attr.min));
    }
    if (std::fabs(attr.max) < kLarge)
      set("above its range", ErrorCode::kAttrRange,
          number(attr.max + std::fmax(1.0, std::fabs(attr.max) / 2)));
  }

  void flag(size_t i) {
    const FlagDef& flag = op_.flags[i];
    for (int64_t value : {int64_t{-1}, static_cast<int64_t>(flag.values.size())})
      add(flag.name + " = " + std::to_string(value), {ErrorCode::kUnsupported}, {flag.name},
          [i, value](Call& call) { call.flags[i] = value; });
  }

  static constexpr int64_t kExact = int64_t{1} << 53;  // tensors are filled through double

  // Some positions that an index range speaks about: all, or only those in use.
  std::set<int64_t> places(const ir::Clause& clause, int64_t count) const {
    if (clause.used.empty()) return {0, count / 2, count - 1};
    std::set<int64_t> at;
    const NdArray& used = call_.ref.tensors.at(clause.used);
    const int64_t unit =
        evaluate(call_.ref.config.resolve(clause.used_unit), environment()).value_or(1);
    const int64_t row = count / used.numel();
    for (int64_t r = 0; r < used.numel(); ++r) {
      const int64_t in_use =
          (static_cast<int64_t>(used.data[static_cast<size_t>(r)]) + unit - 1) / unit;
      if (in_use > 0) at.insert({r * row, r * row + in_use - 1});
    }
    return at;
  }

  // Values of index tensors. Each is written into the tensor that the call passes.
  void index_clause(const ir::Clause& clause) {
    if (clause.kind == ir::Clause::kCondition || !call_.ref.config.has(clause.tensor)) return;
    size_t i = 0;
    while (op_.args[i].name != clause.tensor) ++i;
    const int64_t count = view(i).numel();
    if (count == 0) return;
    auto value_of = [&](const Expr& e) {
      return evaluate(call_.ref.config.resolve(e), environment());
    };
    auto set = [&](const std::string& what, int64_t at, int64_t value) {
      if (clause.has_except && value_of(clause.except) == value) return;
      if (view(i).dtype == DType::kI32 && value != static_cast<int32_t>(value)) return;
      if (value > kExact || value < -kExact) return;
      // A broken value may break a neighbouring clause first: both answers are right.
      add(clause.tensor + ": " + what, {ErrorCode::kIndexRange, ErrorCode::kIndexOrder},
          {clause.tensor}, [i, at, value](Call& call) {
            store_element(call.tensors[i].data, call.tensors[i].dtype, at,
                          static_cast<double>(value));
          });
    };
    const auto lo = value_of(clause.lo), hi = value_of(clause.hi);
    if (clause.kind == ir::Clause::kIndexRange && lo && hi) {
      const bool is_signed = view(i).dtype != DType::kU8 && view(i).dtype != DType::kU32;
      for (int64_t at : places(clause, count)) {
        set("too large at " + std::to_string(at), at, *hi);
        if (is_signed || *lo > 0) set("too small at " + std::to_string(at), at, *lo - 1);
      }
      const int64_t least = view(i).dtype == DType::kI64 ? -kExact : INT32_MIN;
      if (is_signed && least < *lo)
        for (int64_t at : places(clause, count))
          set("the least value at " + std::to_string(at), at, least);
    }
    const int64_t row = view(i).shape[static_cast<size_t>(std::max(0, view(i).rank - 1))];
    if (clause.kind == ir::Clause::kNonDecreasing && row > 1)
      set("decreasing", row - 1,
          static_cast<int64_t>(
              call_.ref.tensors.at(clause.tensor).data[static_cast<size_t>(row - 2)]) -
              1);
    if (clause.kind == ir::Clause::kFirstIs && lo) set("a wrong first value", 0, *lo + 1);
    if (clause.kind == ir::Clause::kLastIs && lo) {
      set("a last value too small", row - 1, *lo - 1);
      set("a last value too large", row - 1, *lo + 1);
    }
  }

  Env environment() const {
    Env env = call_.ref.dims;
    for (const AttrDef& attr : op_.attrs)
      if (!attr.is_float) env[attr.name] = static_cast<int64_t>(call_.ref.attr(attr.name));
    return env;
  }

  // Sizes for which a condition fails, found by trying; the call then has views of those sizes. The
  // launcher must refuse before it looks at memory, so the addresses are only apart, not real.
  void condition(const ir::Clause& clause) {
    if (clause.kind != ir::Clause::kCondition) return;
    const Expr condition = call_.ref.config.resolve(clause.condition);
    const Env env = environment();
    for (const std::string& symbol : symbols_of(condition)) {
      auto current = env.find(symbol);
      if (current == env.end()) continue;
      std::vector<int64_t> candidates = {
          1, 2, 3, 5, 7, 12, current->second + 1, current->second * 2 + 1};
      if (condition.kind() == ExprKind::kLe && condition.args()[1].is_const())
        candidates.push_back(condition.args()[1].value() + 1);
      for (int64_t value : candidates) {
        Env other = env;
        other[symbol] = value;
        if (evaluate(condition, other) != 0 || !shapes_exist(other)) continue;
        add("needs " + condition.str() + " with " + symbol + " = " + std::to_string(value),
            {ErrorCode::kExtent, ErrorCode::kSizeLimit, ErrorCode::kAttrRange}, {},
            [this_config = call_.ref.config, other](Call& call) {
              resize(call, this_config, other);
            });
        break;
      }
    }
  }

  bool shapes_exist(const Env& env) const {
    for (const ArgDef& arg : op_.args)
      if (call_.ref.config.has(arg.name))
        for (const Expr& extent : arg.shape)
          if (evaluate(call_.ref.config.resolve(extent), env).value_or(-1) < 0) return false;
    for (const AttrDef& attr : op_.attrs)
      if (!attr.is_float && attr.has_range) {
        const auto value = static_cast<double>(env.at(attr.name));
        if (value < attr.min || value > attr.max) return false;
      }
    return true;
  }

  static void resize(Call& call, const Config& config, const Env& env) {
    for (size_t i = 0; i < call.op->args.size(); ++i) {
      const ArgDef& arg = call.op->args[i];
      if (!config.has(arg.name)) continue;
      std::vector<int64_t> shape;
      for (const Expr& extent : arg.shape)
        shape.push_back(evaluate(config.resolve(extent), env).value_or(0));
      const uintptr_t address = (uintptr_t{i} + 1) << 48;  // no tensor here reaches 2^48 bytes
      call.tensors[i] = TensorView(reinterpret_cast<void*>(address), config.dtype(arg.name), shape);
    }
    for (size_t i = 0; i < call.op->attrs.size(); ++i)
      if (!call.op->attrs[i].is_float) call.attrs[i] = Scalar(env.at(call.op->attrs[i].name));
  }

  const OpDef& op_;
  const Call& call_;
  std::vector<Violation> rows_;
};

}  // namespace

std::vector<Violation> violations(const Call& call) { return Table(call).take(); }

}  // namespace rooftile::bad_input
