// SPDX-License-Identifier: Apache-2.0
// OpDef: all that the rest of the tree knows about an operator. Interface and contract, float64
// reference, tile programs with their schedules, cost, tolerance and test cases; the ladder, the
// benchmarks, the launchers, the CLI, the documentation pages and the foreign-function exports are
// derived from it.
//
// An operator is a folder ops/<family>/<name>/ with a function `OpDef <name>()` in namespace
// rooftile::ops; the build finds the folder and writes the list. Nothing else in the tree names it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rooftile/base/dtype.h"
#include "rooftile/base/expr.h"
#include "rooftile/base/nd_array.h"
#include "rooftile/compile/schedule.h"
#include "rooftile/compile/target.h"
#include "rooftile/dsl/dsl.h"
#include "rooftile/ops/raw_kernel.h"
#include "rooftile/ops/waiver.h"
#include "rooftile/runtime/tensor_view.h"

namespace rooftile {

// ---- values of a call --------------------------------------------------------------------------

// Everything that selects code: dtypes, flags, choices, and which optional tensors are present.
struct Config {
  std::map<std::string, DType, std::less<>> dtypes;   // tensor -> dtype
  std::map<std::string, int64_t, std::less<>> flags;  // flag or choice (its position) -> value
  std::map<std::string, bool, std::less<>> present;   // optional tensor -> given
  DType dtype(std::string_view tensor) const;
  int64_t flag(std::string_view name) const;
  bool has(std::string_view tensor) const;  // true for tensors that are not optional
  std::string str() const;                  // canonical: cache keys, kernel names
  // `expr` with the names of flags and choices replaced by their values. Shapes and clauses of an
  // OpDef may use them: select(Expr::sym("layout") == 0, N, K). The program of a config has them
  // resolved.
  Expr resolve(const Expr& expr) const;
};

// What a reference sees: inputs filled in, outputs shaped and zeroed, to be written.
struct RefCall {
  Env dims;
  Config config;
  std::map<std::string, NdArray, std::less<>> tensors;
  std::map<std::string, double, std::less<>> attrs;  // float and integer attributes
  NdArray& operator[](std::string_view tensor);
  const NdArray& operator[](std::string_view tensor) const;
  double attr(std::string_view name) const;
  int64_t dim(std::string_view name) const;
  bool has(std::string_view tensor) const {
    return config.has(tensor) && tensors.count(tensor) > 0;
  }
};

struct Cost {
  double flops = 0;  // multiply-adds count two
  double bytes = 0;  // compulsory: every input once, every output once
};

// |x - ref| <= abs + rel * |ref| elementwise, and ||x - ref|| <= norm * ||ref||. `why` derives the
// numbers.
struct Tolerance {
  double abs = 0, rel = 0, norm = 0;
  std::string why;
};

// One line of a case list: dims, dtypes, flags and attributes by name, and tags. `large` is for
// sizes at which a GPU shows its peak.
struct Case {
  std::string text;  // as written, without tags: the readable id
  std::map<std::string, std::string, std::less<>> values;
  std::vector<std::string> tags;  // smoke | ci | llm | full | large
  bool tagged(std::string_view tag) const;
};

// ---- interface --------------------------------------------------------------------------------

struct ArgDef {
  std::string name;
  ir::Role role = ir::Role::kIn;
  std::vector<Expr> shape;
  std::vector<DType> dtypes;  // admitted; the first is the default
  std::string same_dtype_as;  // or: equal to that tensor's
  bool optional = false;
  bool unit_inner_stride = true;
  int align_bytes = 0;  // 0: the element size
  std::vector<std::string> may_alias;
  std::string doc;
};
struct AttrDef {
  std::string name;
  bool is_float = true;
  double default_value = 0;
  double min = 0, max = 0;
  bool has_range = false, min_exclusive = false;
  std::string doc;
};
struct FlagDef {  // compile-time: each value is its own kernel
  std::string name;
  std::vector<std::string> values;  // {"0", "1"} for a flag, names for a choice
  int64_t default_value = 0;
  std::string doc;
  bool cpu_only = false;  // says how memory is laid out for a CPU; has its default elsewhere
};

// How a call is carried out.
enum class Route : uint8_t {
  kAuto,       // a raw kernel where it is measured to be the faster one, else a tile kernel
  kTile,       // the compiler's kernels alone: those that a proof can cover
  kRaw,        // a hand-written kernel, or an error
  kReference,  // float64 loops; slow, for comparing. Checks the same contract
};
std::string_view route_name(Route route);

// One implementation of the operator and where it applies: a tile program, or a hand-written text.
struct KernelDef {
  using Predicate = std::function<bool(const Config&, const Env&, const TargetInfo&)>;

  std::string name;                                        // "row", "small_m", "split"
  std::function<void(dsl::Kernel&, const Config&)> build;  // the algorithm; null: a raw kernel
  // Schedule for these dims on this machine. Pure; called once per shape bucket, never in the hot
  // path. Of a raw kernel: which constants its text gets; what else a launch needs follows from
  // them.
  std::function<Schedule(const Config&, const Env&, const TargetInfo&)> schedule;
  // null: always. The first that applies is used.
  Predicate applies;
  // A raw kernel: text and launch. Only ever asked for a GPU.
  std::function<RawKernel(const Config&, const Schedule&)> raw;
  // A raw kernel: where it is measured to be faster than the tile kernel, so that a call takes it
  // unasked; the evidence stands beside it. null: nowhere.
  Predicate preferred;
  std::vector<Waiver> waivers;  // of obligations that the provers leave open

  bool is_raw() const { return raw != nullptr; }
  Route route() const { return is_raw() ? Route::kRaw : Route::kTile; }
  bool takes(const Config& config, const Env& dims, const TargetInfo& target) const {
    return (!is_raw() || target.gpu) && (!applies || applies(config, dims, target));
  }
};

struct RefInputs;  // filled by input generators, see make_inputs

class OpDef {
 public:
  OpDef(std::string family, std::string name, std::string summary);

  // arguments, in call order: outputs first by convention
  OpDef& in(ArgDef arg);
  OpDef& out(ArgDef arg);
  OpDef& inout(ArgDef arg);
  OpDef& attr(AttrDef attr);      // float, run time
  OpDef& int_attr(AttrDef attr);  // integer, run time
  OpDef& flag(std::string name, bool default_value, std::string doc);
  OpDef& cpu_flag(std::string name, bool default_value, std::string doc);
  OpDef& choice(std::string name, std::vector<std::string> values, std::string doc);

  // contract beyond shapes and dtypes
  OpDef& needs(Expr condition, std::string why);
  OpDef& index_range(std::string tensor, Expr lo, Expr hi, std::string why);  // lo <= t[...] < hi
  // The same, with one marker value admitted although it lies outside: lo <= t[...] < hi or t[...]
  // == except.
  OpDef& index_range_or(std::string tensor, Expr lo, Expr hi, Expr except, std::string why);
  // The same for the entries in use: the first ceil(used[r] / unit) of each row r of a matrix. The
  // others are not read.
  OpDef& index_range_used(std::string tensor, Expr lo, Expr hi, std::string used, Expr unit,
                          std::string why);
  OpDef& non_decreasing(std::string tensor, std::string why);
  OpDef& first_is(std::string tensor, Expr value, std::string why);
  OpDef& last_is(std::string tensor, Expr value, std::string why);
  // No value stands twice, but for `except`.
  OpDef& distinct_but(std::string tensor, Expr except, std::string why);
  // documented and checked size limit
  OpDef& limit(std::string dim, int64_t max_value);
  // combinations that do not exist
  OpDef& refuse(std::function<Status(const Config&)> rule);

  OpDef& reference(std::function<void(RefCall&)> fn);
  OpDef& kernel(KernelDef kernel);
  // dims, config and attributes are set; tensors may be empty
  OpDef& cost(std::function<Cost(const RefCall&)> fn);
  // called with the reference results in place
  OpDef& tolerance(std::function<Tolerance(const RefCall&)> fn);
  // overrides the default random inputs, after them
  OpDef& inputs(std::function<void(RefCall&, uint64_t seed)> fn);
  OpDef& cases(std::string text);
  OpDef& replaces(std::vector<std::string> ops, std::function<Status(RefCall&)> unfused);
  // The definition itself rounds a value on the way (to a narrow tensor it stores), so that
  // arithmetic in double does not reproduce the reference to 1e-10: rung 1 then grants the
  // operator's tolerance.
  OpDef& rounds_inside(std::string why);
  OpDef& source(std::string text);  // where the maths comes from

  std::string family, name, summary, maths_source;
  std::vector<ArgDef> args;
  std::vector<AttrDef> attrs;
  std::vector<FlagDef> flags;
  std::vector<ir::Clause> clauses;
  std::vector<std::function<Status(const Config&)>> refusals;
  std::function<void(RefCall&)> reference_fn;
  std::vector<KernelDef> kernels;
  std::function<Cost(const RefCall&)> cost_fn;
  std::function<Tolerance(const RefCall&)> tolerance_fn;
  std::function<void(RefCall&, uint64_t)> inputs_fn;
  std::vector<Case> case_list;
  std::vector<std::string> replaced_ops;
  std::string inner_rounding;  // why, or empty
  std::function<Status(RefCall&)> unfused_fn;

  const ArgDef* arg(std::string_view arg_name) const;
  // defaults filled in; optional tensors absent unless given
  Config complete(Config config) const;
  Status check_config(const Config& config) const;  // dtypes admitted, flags in range, refusals
  // Builds and verifies the tile program of one kernel under a config.
  Result<ir::Program> build(const KernelDef& kernel, const Config& config) const;
  // The contract alone: a program of tensors, scalars and clauses that does nothing.
  Result<ir::Program> interface(const Config& config) const;
  // The kernels that take this config and these sizes on this machine by `route`, first choice
  // first.
  std::vector<const KernelDef*> candidates(const Config& config, const Env& dims,
                                           const TargetInfo& target,
                                           Route route = Route::kAuto) const;
};

// All operators, in the order of the generated list.
const std::vector<OpDef>& all_ops();
const OpDef* find_op(std::string_view name);

}  // namespace rooftile
