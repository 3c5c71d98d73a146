// SPDX-License-Identifier: Apache-2.0
#include "rooftile/verify/replay_code.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "rooftile/base/float_convert.h"
#include "rooftile/emulate/emulate.h"
#include "rooftile/emulate/zeroed_array.h"
#include "rooftile/verify/contract/contract_model.h"
#include "rooftile/verify/tile/example_call.h"
#include "rooftile/verify/tile/replay.h"

namespace rooftile::verify {

using codegen::GpuVariant;

namespace {

constexpr int64_t kMostBytes = int64_t{1}
                               << 42;           // of a tensor; memory is taken where it is touched
constexpr int64_t kMostCtas = 64;               // of a grid that is run whole
constexpr int64_t kMostStatements = 3'000'000;  // of a run: some seconds
constexpr int kMultiprocessors = 4;
constexpr int64_t kRoomy[] = {17, 72, 300};         // dims of calls that the proof does not name
constexpr int64_t kMostNumbers = int64_t{1} << 20;  // of a tensor whose values are compared
constexpr size_t kMostReplays = 6;                  // of the obligations of one part

std::string one_line(const Diag& diag) {
  std::string out = fmt::format("{} {}", code_text(diag.code), diag.message);
  for (const std::string& more : {diag.found, diag.when})
    if (!more.empty()) out += "; " + more;
  const std::string at = diag.at.str();
  return at.empty() ? out : out + "; " + at;
}

// Where a tensor of the call lies.
struct Placed {
  emulate::ZeroedArray<uint8_t> bytes;
  emulate::TensorArg arg;
};

class CodeRun {
 public:
  CodeRun(const KernelSource& source, size_t variant, size_t phase, const Finding& finding)
      : variant_(source.variants[variant]),
        phase_(phase),
        finding_(finding),
        example_(finding.example) {}

  Replay run(int seeds) {
    Replay own{false, false, "it has no call"};
    if (!example_.call.empty()) own = make_call() ? try_call(seeds) : Replay{false, false, why_};
    // An index wraps at sizes that the proof names, if anywhere.
    const bool sizes_matter = finding_.kind == Kind::kLaneOverflow && !example_.call.empty();
    if (own.shown || sizes_matter || variant_.program == nullptr) return own;
    // Where the proof names no call, or one that shows nothing: other calls of this code.
    for (const int64_t most : kRoomy) {
      const auto sizes = roomy_call(*variant_.program, variant_.needs.conditions, most);
      if (!sizes) continue;
      call_ = example_call(*variant_.program, *sizes, &why_, Filling::kLarge);
      if (!call_ || !conditions_hold()) continue;
      sms_ = call_->ints["SMS"] = kMultiprocessors;
      Replay other = try_call(std::min(seeds, 4));
      if (!other.shown) continue;
      std::string text;
      for (const auto& [name, value] : *sizes)
        text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(value);
      other.what += "; at another call: " + text;
      return other;
    }
    return own;
  }

 private:
  Replay try_call(int seeds) {
    shapes_.clear();
    uses_.clear();
    if (!find_shapes()) return {false, false, why_};
    Replay out{false, false, "nothing went wrong"};
    const auto grid = grid_of(variant_.phases[phase_]);
    if (!grid) return {false, false, "the grid has no value"};
    const bool whole = (*grid)[0] * (*grid)[1] * (*grid)[2] <= kMostCtas;
    for (const bool all : {true, false}) {
      if (all && !whole) continue;
      if (!all && whole) continue;
      for (int seed = 1; seed <= seeds && !out.shown; ++seed) {
        const Replay one = once(static_cast<uint64_t>(seed), all);
        if (one.ran || !out.ran) out = one;
        if (too_long_ || !one.ran) break;
      }
      if (out.shown) break;
    }
    return out;
  }

  bool failed(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // ---- the call

  bool make_call() {
    if (variant_.program == nullptr) return failed("the code is of no tile program");
    const ir::Program& program = *variant_.program;
    Env given;
    for (const auto& [name, value] : example_.call)
      if (name.find('.') == std::string::npos && name != "SMS" && name != "clusters")
        given.emplace(name, value);
    call_ = example_call(program, given, &why_);
    if (!call_ || !conditions_hold()) {
      // What the proof did not ask about is filled in so that the contract holds.
      const ContractModel model = contract_model(program, variant_.needs.conditions, given);
      if (model.verdict == Verdict::kProved) call_ = example_call(program, model.call, &why_);
    }
    if (!call_) return failed("no such call: " + why_);
    if (!conditions_hold()) return failed("no such call: another variant of the kernel takes it");
    const auto sms = example_.call.find("SMS");
    sms_ = sms == example_.call.end() ? kMultiprocessors : std::max<int64_t>(1, sms->second);
    call_->ints["SMS"] = sms_;
    return true;
  }

  bool conditions_hold() const {
    const std::vector<Expr>& all = variant_.needs.conditions;
    return std::all_of(all.begin(), all.end(), [&](const Expr& condition) {
      return evaluate(condition, call_->ints).value_or(1) != 0;
    });
  }

  std::optional<int64_t> number(const Expr& e) const { return evaluate(e, call_->ints); }

  std::optional<std::array<int64_t, 3>> grid_of(const lanes::Program& kernel) const {
    const auto x = number(kernel.grid_x), y = number(kernel.grid_y), z = number(kernel.grid_z);
    if (!x || !y || !z) return std::nullopt;
    return std::array<int64_t, 3>{*x, *y, *z};
  }

  // ---- memory

  bool find_shapes() {
    for (const lanes::Program& phase : variant_.phases)
      for (const lanes::TensorUse& use : phase.tensors) {
        if (shapes_.count(use.name) > 0) continue;
        std::vector<int64_t>& shape = shapes_[use.name];
        for (const Expr& extent : use.shape) {
          const std::optional<int64_t> n = number(extent);
          if (!n || *n < 0) return failed("an extent of `" + use.name + "` has no value");
          shape.push_back(*n);
        }
        uses_.push_back(&use);
      }
    return true;
  }

  int alignment(const lanes::TensorUse& use) const {
    const std::vector<std::string>& aligned = variant_.needs.aligned;
    const bool needs = std::count(aligned.begin(), aligned.end(), use.name) > 0;
    return std::max(use.align_bytes, needs ? variant_.needs.align_bytes : 1);
  }

  // The strides of the counterexample where elements stay apart and rows aligned, else those of
  // rows one behind the other.
  std::vector<int64_t> strides_of(const lanes::TensorUse& use) const {
    const std::vector<int64_t>& shape = shapes_.find(use.name)->second;
    const int64_t unit = std::max<int64_t>(1, alignment(use) / size_bytes(use.dtype));
    std::vector<int64_t> out(shape.size(), 1);
    for (size_t d = shape.size(); d-- > 0;) {
      const bool inner = d + 1 == shape.size();
      if (!inner) {
        out[d] = out[d + 1] * std::max<int64_t>(1, shape[d + 1]);
        out[d] = (out[d] + unit - 1) / unit * unit;
      }
      const auto given = example_.call.find(use.name + ".s" + std::to_string(d));
      if (given == example_.call.end() || use.workspace) continue;
      if (given->second >= out[d] && (inner || given->second % unit == 0)) out[d] = given->second;
    }
    return out;
  }

  bool place(const lanes::TensorUse& use, Placed& out) {
    const std::vector<int64_t>& shape = shapes_.find(use.name)->second;
    const std::vector<int64_t> strides = strides_of(use);
    const int64_t size = size_bytes(use.dtype);
    int64_t span = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] > 1 && strides[d] > kMostBytes / size / shape[d])
        return failed("`" + use.name + "` is larger than memory can be made");
      span += std::max<int64_t>(0, shape[d] - 1) * strides[d];
    }
    if (span > kMostBytes / size)
      return failed("`" + use.name + "` is larger than memory can be made");
    try {
      out.bytes = emulate::ZeroedArray<uint8_t>(static_cast<size_t>(span * size));
    } catch (const std::bad_alloc&) {
      return failed("`" + use.name + "` is larger than memory can be made");
    }
    const ir::TensorParam* param = variant_.program->tensor(use.name);
    const bool holds =
        param == nullptr || use.workspace ? use.zeroed : param->role != ir::Role::kOut;
    out.arg = {out.bytes.data(), use.dtype, shape, strides, holds};
    if (const auto index = call_->index.find(use.name); index != call_->index.end())
      fill(index->second, out);
    else if (holds && !use.workspace && is_float(use.dtype) && span <= kMostNumbers)
      fill(numbers(use.name), out);
    return true;
  }

  // Numbers for an input: the same for kernel and interpreter.
  const NdArray& numbers(const std::string& tensor) {
    const auto [it, fresh] = numbers_.try_emplace({tensor, shapes_.find(tensor)->second});
    NdArray& out = it->second;
    if (!fresh) return out;
    out.shape = it->first.second;
    int64_t count = 1;
    for (const int64_t extent : out.shape) count *= extent;
    uint64_t state = std::hash<std::string>()(tensor);
    const DType dtype = variant_.program->tensor(tensor)->dtype;
    for (int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double unit = static_cast<double>(state >> 40) / static_cast<double>(1 << 24);
      out.data.push_back(round_to(static_cast<float>(2 * unit - 1), dtype));
    }
    return out;
  }

  static void fill(const NdArray& values, Placed& out) {
    std::vector<int64_t> index(values.shape.size(), 0);
    for (const double element : values.data) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * out.arg.strides[d];
      if (element != 0) store_element(out.bytes.data(), out.arg.dtype, at, element);
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < values.shape[d]) break;
        index[d] = 0;
      }
    }
  }

  // ---- running

  bool has_place() const {
    return std::any_of(example_.at.begin(), example_.at.end(),
                       [](const auto& at) { return at.first == "cta.x"; });
  }

  int64_t cluster_of_example(const lanes::Program& kernel,
                             const std::array<int64_t, 3>& grid) const {
    std::map<std::string, int64_t> at;
    for (const auto& [name, value] : example_.at) at.emplace(name, value);
    const int64_t across = std::max<int64_t>(1, grid[0] / kernel.cluster);
    return at["cta.x"] / kernel.cluster + across * (at["cta.y"] + grid[1] * at["cta.z"]);
  }

  Replay once(uint64_t seed, bool all) {
    std::map<std::string, Placed> memory;
    emulate::Launch launch;
    launch.seed = seed;
    launch.sms = static_cast<int>(std::min<int64_t>(sms_, kMostCtas));
    launch.max_statements = kMostStatements;
    for (const auto& [name, value] : call_->ints)
      if (name.find('[') == std::string::npos) launch.ints.emplace(name, value);
    launch.floats.insert(call_->floats.begin(), call_->floats.end());
    for (const lanes::TensorUse* use : uses_) {
      Placed& placed = memory[use->name];
      if (!place(*use, placed)) return {false, false, why_};
      launch.tensors[use->name] = placed.arg;
    }
    for (size_t p = 0; p < phase_; ++p)
      if (!earlier(variant_.phases[p], launch)) return {true, true, why_};
    return last(launch, all);
  }

  // A phase before the one that is refuted, whose results it needs. False: it broke.
  bool earlier(const lanes::Program& kernel, emulate::Launch& launch) {
    const auto grid = grid_of(kernel);
    const int64_t ctas = grid ? (*grid)[0] * (*grid)[1] * (*grid)[2] : 0;
    if (ctas > 0 && ctas <= kMostCtas) {
      emulate::Stats stats;
      const Status status = emulate::run(kernel, launch, &stats);
      if (!status.ok() && !stats.too_long) return failed(one_line(status.diag()));
    }
    for (const lanes::TensorUse& use : kernel.tensors)
      if (use.written) launch.tensors.find(use.name)->second.initialised = true;
    return true;
  }

  Replay last(emulate::Launch& launch, bool all) {
    const lanes::Program& kernel = variant_.phases[phase_];
    const auto grid = grid_of(kernel);
    if ((*grid)[0] * (*grid)[1] * (*grid)[2] == 0) return {false, false, "its grid is empty"};
    if (!all) launch.only_cluster = cluster_of_example(kernel, *grid);
    emulate::Stats stats;
    const Status status = emulate::run(kernel, launch, &stats);
    too_long_ = stats.too_long;
    if (!status.ok()) {
      const std::string text = one_line(status.diag());
      if (stats.too_long) return {false, false, "it takes too long: " + text};
      // A launch that cannot be made shows a wrong tensor map, and nothing else.
      const ErrorCode code = status.diag().code;
      const bool refused = code == ErrorCode::kEmuSetup && finding_.kind != Kind::kTensorMap;
      return {!refused, !refused, text};
    }
    if (all)
      for (const auto& [tensor, element] : stats.unwritten)
        if (const ir::TensorParam* param = variant_.program->tensor(tensor);
            param != nullptr && param->role == ir::Role::kOut && only_writer(tensor))
          return {true, true, "the kernel ends, and nobody has written " + element};
    if (finding_.kind == Kind::kWriteOnce)
      for (const auto& [tensor, element] : stats.rewritten)
        if (const ir::TensorParam* param = variant_.program->tensor(tensor);
            param != nullptr && param->role != ir::Role::kWorkspace)
          return {true, true, "`" + tensor + "`: " + element + " is stored twice"};
    return all ? compared(launch) : Replay{true, false, "nothing went wrong"};
  }

  // The phases behind this one, and the results: those of the tile program, as interpreted?
  Replay compared(emulate::Launch& launch) {
    const Replay nothing{true, false, "nothing went wrong"};
    for (size_t p = phase_ + 1; p < variant_.phases.size(); ++p)
      if (!earlier(variant_.phases[p], launch)) return {true, true, why_};
    const InterpTensors* want = interpreted();
    if (want == nullptr) return nothing;
    for (const ir::TensorParam& tensor : variant_.program->tensors) {
      if (tensor.role != ir::Role::kOut && tensor.role != ir::Role::kInOut) continue;
      const auto found = launch.tensors.find(tensor.name);
      if (found == launch.tensors.end()) continue;
      if (std::string text = differs(found->second, want->find(tensor.name)->second); !text.empty())
        return {true, true, tensor.name + text};
    }
    return nothing;
  }

  // Far from what rounding explains: half of what numbers of this result usually are.
  static std::string differs(const emulate::TensorArg& got, const NdArray& want) {
    double squares = 0;
    for (const double x : want.data) squares += std::isfinite(x) ? x * x : 0;
    const double usual =
        std::sqrt(squares / std::max<double>(1, static_cast<double>(want.data.size())));
    std::vector<int64_t> index(want.shape.size(), 0);
    for (const double expected : want.data) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * got.strides[d];
      const double actual = load_element(got.data, got.dtype, at);
      if (std::isfinite(expected) &&
          !(std::fabs(actual - expected) <= 0.5 * usual + 0.1 * std::fabs(expected)))
        return fmt::format("[{}] is {}, and the tile program gives {}", fmt::join(index, ", "),
                           actual, expected);
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < want.shape[d]) break;
        index[d] = 0;
      }
    }
    return "";
  }

  using InterpTensors = ir::InterpTensors;
  // Null: too large, or nothing that the interpreter takes.
  const InterpTensors* interpreted() {
    if (const auto known = results_.find(call_->ints); known != results_.end())
      return known->second ? &*known->second : nullptr;
    std::optional<InterpTensors>& out = results_[call_->ints];
    InterpTensors tensors = call_->index;
    for (const ir::TensorParam& tensor : variant_.program->tensors) {
      const auto shape = shapes_.find(tensor.name);
      if (tensor.role == ir::Role::kWorkspace || tensors.count(tensor.name) > 0) continue;
      if (shape == shapes_.end()) return nullptr;
      int64_t count = 1;
      for (const int64_t extent : shape->second) count *= extent;
      if (count > kMostNumbers) return nullptr;
      NdArray& array = tensors[tensor.name];
      array.shape = shape->second;
      array.data.assign(static_cast<size_t>(count), 0);
      if (tensor.role != ir::Role::kOut && is_float(tensor.dtype)) array = numbers(tensor.name);
    }
    if (ir::interpret(*variant_.program, call_->ints, call_->floats, tensors).ok())
      out = std::move(tensors);
    return out ? &*out : nullptr;
  }

  bool only_writer(const std::string& tensor) const {
    int writers = 0;
    for (const lanes::Program& phase : variant_.phases)
      for (const lanes::TensorUse& use : phase.tensors)
        writers += use.name == tensor && use.written ? 1 : 0;
    return writers == 1;
  }

  const GpuVariant& variant_;
  const size_t phase_;
  const Finding& finding_;
  const Counterexample& example_;
  std::optional<ExampleCall> call_;
  int64_t sms_ = kMultiprocessors;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::vector<const lanes::TensorUse*> uses_;
  std::map<std::pair<std::string, std::vector<int64_t>>, NdArray> numbers_;
  std::map<Env, std::optional<InterpTensors>> results_;
  bool too_long_ = false;
  std::string why_;
};

const ir::Program* tiles_of(const KernelSource& source, int variant) {
  if (!source.gpu()) return &source.tiles;
  const auto v = static_cast<size_t>(std::max(0, variant));
  return v < source.variants.size() ? source.variants[v].program.get() : nullptr;
}

Replay replay_tiles(const ir::Program& program, const Finding& finding) {
  const std::optional<Status> shown = replay(program, finding.example.call);
  if (!shown) return {false, false, "the call cannot be made, or is too large to be interpreted"};
  if (shown->ok()) return {true, false, "the interpreter finds nothing wrong"};
  return {true, true, one_line(shown->diag())};
}

}  // namespace

Replay replay_code(const KernelSource& source, size_t variant, size_t phase, const Finding& finding,
                   int seeds) {
  return CodeRun(source, variant, phase, finding).run(seeds);
}

Replay replay_finding(const KernelSource& source, const Obligation& obligation) {
  const Finding& finding = obligation.finding;
  const Level level = kind_info(finding.kind).level;
  if (level == Level::kTile) {
    const ir::Program* program = tiles_of(source, obligation.variant);
    return program == nullptr ? Replay{false, false, "there is no tile program"}
                              : replay_tiles(*program, finding);
  }
  if (level == Level::kPlaced || level == Level::kLanes) {
    const auto v = static_cast<size_t>(obligation.variant),
               p = static_cast<size_t>(obligation.phase);
    if (obligation.variant < 0 || obligation.phase < 0 || v >= source.variants.size() ||
        p >= source.variants[v].phases.size())
      return {false, false, "it is of no code"};
    return replay_code(source, v, p, finding);
  }
  return {false, false,
          level == Level::kCpu ? "code for processors is not run where it may break the process"
                               : "it is about what the launcher checks, which runs no kernel"};
}

void replay_refuted(const KernelSource& source, std::vector<Obligation>& obligations) {
  size_t replays = 0;
  for (Obligation& obligation : obligations) {
    if (obligation.finding.verdict != Verdict::kRefuted) continue;
    Counterexample& example = obligation.finding.example;
    if (++replays > kMostReplays) {
      example.replay = "not tried: others of this part were";
      continue;
    }
    const Replay replay = replay_finding(source, obligation);
    example.replayed = replay.shown;
    example.replay = replay.what;
  }
}

}  // namespace rooftile::verify
