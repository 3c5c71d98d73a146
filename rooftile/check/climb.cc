// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/climb.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>

#include "rooftile/check/case_inputs.h"
#include "rooftile/check/interp_run.h"

namespace rooftile::check {
namespace {

constexpr std::array kRungs = {Rung::kInterp, Rung::kVec, Rung::kKernel, Rung::kFused};

// The interpreter takes about a microsecond an element of every value; beyond this a case takes
// seconds.
constexpr double kMaxInterpreterFlops = 2e6;

// What the fast variants of GPU kernels ask of data and strides: a layout that just meets it.
constexpr int kVectorBytes = 16;

// Both sides compute in double; they differ by the order of sums and by elementary functions.
Tolerance interpreter_tolerance() {
  return {1e-10, 1e-10, 1e-10, "double precision: 2^-53 a rounding, up to 2^20 of them in a sum"};
}

// Two results that are each within the tolerance of the reference are within twice the tolerance of
// one another.
Tolerance twice(const Tolerance& tolerance) {
  return {2 * tolerance.abs, 2 * tolerance.rel, 2 * tolerance.norm,
          "both sides of the comparison rounded"};
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// "T=8 H=64 dtype=bf16" as it stands in an id, "T8_H64": the dtype has its own place, and the sign
// stays only where the word would be unclear without it.
std::string case_words(const std::string& text) {
  std::istringstream words(text);
  std::string word, out;
  while (words >> word) {
    if (word.rfind("dtype=", 0) == 0) continue;
    const size_t at = word.find('=');
    if (at != std::string::npos && at > 0 && at + 1 < word.size() && !is_digit(word[at - 1]) &&
        is_digit(word[at + 1]))
      word.erase(at, 1);
    out += (out.empty() ? "" : "_") + word;
  }
  return out;
}

}  // namespace

Schedule rung_schedule(const KernelDef& kernel, const RefCall& call, const TargetInfo& target,
                       Rung rung) {
  Schedule schedule =
      kernel.schedule ? kernel.schedule(call.config, call.dims, target) : Schedule{};
  if (rung != Rung::kVec || kernel.is_raw()) return schedule;
  if (!target.gpu)
    schedule.fuse = false;
  else if (!schedule.otherwise.empty())
    schedule = Schedule(schedule.otherwise.back());
  if (!target.gpu || !schedule.gpu.roles.empty()) return schedule;
  schedule.gpu.strips.held_vectors = 0;
  schedule.gpu.product.clear();  // products by FMA, with all the registers that they want
  schedule.gpu.ctas_per_sm = 1;
  schedule.gpu.strips.threads = std::max(schedule.gpu.strips.threads, 256);
  return schedule;
}

Result<KernelSource> rung_source(const OpDef& op, const KernelDef& kernel, const RefCall& call,
                                 const TargetInfo& target, Rung rung) {
  const KernelDef* runs = &kernel;
  if (kernel.is_raw() && rung == Rung::kVec) {
    const auto tile = op.candidates(call.config, call.dims, target, Route::kTile);
    if (!tile.empty()) runs = tile.front();
  }
  const Schedule schedule = rung_schedule(*runs, call, target, rung);
  return generate(op, *runs, call.config, call.dims, target, &schedule);
}

Climb::Climb(const OpDef& op, const KernelDef& kernel, const Case& test_case, const Config& config,
             const LadderOptions& options, const TargetInfo& target, Executor& executor,
             const std::function<void(const CheckLine&)>& sink)
    : op_(op),
      kernel_(kernel),
      case_(test_case),
      config_(config),
      options_(options),
      target_(target),
      executor_(executor),
      sink_(sink) {}

bool Climb::applies(Rung rung) const {
  return rung != Rung::kFused || (!op_.replaced_ops.empty() && op_.unfused_fn != nullptr);
}

bool Climb::wanted(Rung rung) const {
  if (!applies(rung) || (options_.rung && *options_.rung != rung)) return false;
  return options_.only.empty() || id(rung) == options_.only;
}

bool Climb::wanted() const {
  for (const Rung rung : kRungs)
    if (wanted(rung)) return true;
  return false;
}

void Climb::skip(const std::string& why) const {
  for (const Rung rung : kRungs) {
    if (!wanted(rung)) continue;
    CheckLine out = line(rung);
    out.skipped = why;
    sink_(out);
  }
}

std::string Climb::id(Rung rung) const {
  std::string stage(rung_name(rung));
  if (op_.kernels.size() > 1) stage += ":" + kernel_.name;
  return op_.name + "/" + stage + "/" + options_.target + "/" +
         std::string(name(main_dtype(op_, config_))) + "/" + case_words(case_.text);
}

CheckLine Climb::line(Rung rung) const {
  CheckLine out;
  out.id = id(rung);
  out.op = op_.name;
  out.kernel = kernel_.name;
  out.route = route_name(kernel_.route());
  out.target = options_.target;
  out.dtype = std::string(name(main_dtype(op_, config_)));
  out.case_text = case_.text;
  out.rung = rung;
  out.tolerance = tolerance_;
  out.seed = seed_;
  return out;
}

void Climb::run(const RefCall& inputs, const RefCall& expected, uint64_t seed) {
  inputs_ = &inputs;
  expected_ = &expected;
  seed_ = seed;
  tolerance_ = op_.tolerance_fn ? op_.tolerance_fn(expected) : Tolerance{};
  if (wanted(Rung::kInterp) && !skipped(Rung::kInterp)) interp();
  if (wanted(Rung::kVec) && !skipped(Rung::kVec)) compiled(Rung::kVec);
  if ((wanted(Rung::kKernel) || wanted(Rung::kFused)) && cannot_run(Rung::kKernel).empty())
    compiled(Rung::kKernel);
  else if (wanted(Rung::kKernel))
    (void)skipped(Rung::kKernel);
  if (wanted(Rung::kFused) && !skipped(Rung::kFused)) against_unfused();
}

std::string Climb::cannot_run(Rung rung) const {
  if (!kernel_.is_raw()) return "";
  if (rung == Rung::kInterp) return "a hand-written kernel has no tile program";
  return is_emulated(options_.target) ? "the emulator does not run hand-written text" : "";
}

// Whether the rung cannot be run; then a line says so.
bool Climb::skipped(Rung rung) {
  CheckLine out = line(rung);
  out.skipped = cannot_run(rung);
  if (!out.skipped.empty()) sink_(out);
  return !out.skipped.empty();
}

void Climb::interp() {
  CheckLine out = line(Rung::kInterp);
  out.tolerance = op_.inner_rounding.empty() ? interpreter_tolerance() : tolerance_;
  if (op_.cost_fn && op_.cost_fn(*inputs_).flops > kMaxInterpreterFlops) {
    out.skipped = "too large for the interpreter";
    return sink_(out);
  }
  auto results = interpret(op_, kernel_, *inputs_, target_);
  if (!results) return fail(out, results.diag());
  finish(out, judge_results({op_, *inputs_, *expected_, out.tolerance}, *results));
}

void Climb::compiled(Rung rung) {
  CheckLine out = line(rung);
  auto source = rung_source(op_, kernel_, *inputs_, target_, rung);
  if (!source) return fail(out, source.diag());
  auto kernel = executor_.prepare(std::move(*source));
  if (!kernel && kernel.diag().code == ErrorCode::kNoCompiler) {
    out.skipped = kernel.diag().message;
    return sink_(out);
  }
  if (!kernel) return fail(out, kernel.diag());
  const int spaced = target_.gpu && executor_.compiles() ? kVectorBytes : 0;
  const Verdict verdict =
      judge({op_, *inputs_, *expected_, tolerance_, options_.runs, spaced}, *kernel);
  if (rung == Rung::kKernel) kernel_results_ = verdict.results;
  if (wanted(rung)) finish(out, verdict);
}

// What the fused kernel computes, against what the operators that it replaces compute one after the
// other.
void Climb::against_unfused() {
  CheckLine out = line(Rung::kFused);
  if (kernel_results_.empty()) {
    out.skipped = "the kernel gave no result to compare";
    return sink_(out);
  }
  RefCall unfused = *inputs_;
  if (const Status status = op_.unfused_fn(unfused); !status.ok()) return fail(out, status.diag());
  finish(out, judge_results({op_, *inputs_, unfused, tolerance_}, kernel_results_));
}

void Climb::fail(CheckLine out, const Diag& diag) const {
  out.errors.pass = false;
  out.errors.reason = diag.str();
  sink_(out);
}

void Climb::finish(CheckLine out, const Verdict& verdict) {
  out.errors = verdict.comparison;
  out.output = verdict.output;
  out.layout = verdict.layout;
  if (out.rung != Rung::kFused) compare_below(out, verdict.results);
  if (out.errors.first_bad >= 0 && !out.output.empty())
    out.first_bad = coordinate(out.errors.first_bad, (*expected_)[out.output].shape);
  sink_(out);
}

void Climb::compare_below(CheckLine& out, const Results& results) {
  if (results.empty()) return;
  if (!below_.empty() && out.errors.pass) {
    RefCall below = *expected_;
    for (const auto& [tensor, values] : below_) below.tensors.find(tensor)->second = values;
    const Verdict verdict = judge_results({op_, *inputs_, below, twice(tolerance_)}, results);
    out.below_norm_err = verdict.comparison.norm_err;
    if (!verdict.pass()) {
      out.errors.pass = false;
      out.errors.reason = "differs from the rung below: " + verdict.comparison.reason;
      out.errors.first_bad = verdict.comparison.first_bad;
      out.errors.got = verdict.comparison.got;
      out.errors.want = verdict.comparison.want;
      out.output = verdict.output;
    }
  }
  if (out.errors.pass) below_ = results;  // a wrong rung proves nothing about the next
}

}  // namespace rooftile::check
