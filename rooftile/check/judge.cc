// SPDX-License-Identifier: Apache-2.0
#include "rooftile/check/judge.h"

#include <algorithm>
#include <vector>

namespace rooftile::check {
namespace {

using Bytes = std::vector<std::byte>;

bool is_output(const ArgDef& arg) {
  return arg.role == ir::Role::kOut || arg.role == ir::Role::kInOut;
}

class Trial {
 public:
  Trial(const Subject& subject, const Implementation& run) : subject_(subject), run_(run) {}

  Verdict verdict() {
    Arguments compact = place(subject_.op, subject_.inputs, false);
    layout_ = "compact";
    if (!attempt(compact, Poison::kFirst)) return verdict_;
    for (const ArgDef* arg : outputs())
      verdict_.results[arg->name] = compact.tensor(arg->name).load();
    const std::map<std::string, Bytes> first = output_bytes(compact);
    for (int run = 1; run < subject_.runs; ++run) {
      if (!attempt(compact, run % 2 == 1 ? Poison::kSecond : Poison::kFirst)) return verdict_;
      same_and_written(first, output_bytes(compact));
      if (!verdict_.pass()) return verdict_;
    }

    layout_ = "padded";
    Arguments padded = place(subject_.op, subject_.inputs, true);
    attempt(padded, Poison::kFirst);
    if (!verdict_.pass()) return verdict_;

    if (subject_.spaced_bytes > 0) {
      layout_ = "spaced";
      Arguments spaced = place(subject_.op, subject_.inputs, true, subject_.spaced_bytes);
      attempt(spaced, Poison::kFirst);
      if (!verdict_.pass()) return verdict_;
    }

    layout_ = "in place";
    Arguments in_place = place(subject_.op, subject_.inputs, false);
    if (share_memory(in_place)) attempt(in_place, Poison::kFirst);
    return verdict_;
  }

 private:
  std::vector<const ArgDef*> outputs() const {
    std::vector<const ArgDef*> out;
    for (const ArgDef& arg : subject_.op.args)
      if (is_output(arg) && subject_.inputs.has(arg.name)) out.push_back(&arg);
    return out;
  }

  std::map<std::string, Bytes> output_bytes(Arguments& arguments) const {
    std::map<std::string, Bytes> out;
    for (const ArgDef* arg : outputs()) out[arg->name] = arguments.tensor(arg->name).elements();
    return out;
  }

  bool fail(const std::string& output, std::string reason) {
    if (!verdict_.pass()) return false;
    verdict_.comparison.pass = false;
    verdict_.comparison.reason = std::move(reason);
    verdict_.output = output;
    verdict_.layout = layout_;
    return false;
  }

  // One run from fresh inputs. False if it did what no kernel may; a wrong value lets the trial go
  // on, since only the next run tells whether it was an element never written.
  bool attempt(Arguments& arguments, Poison poison) {
    for (const ArgDef& arg : subject_.op.args) {
      if (!subject_.inputs.has(arg.name)) continue;
      if (arg.role == ir::Role::kOut && arguments.aliases.count(arg.name) == 0)
        arguments.tensor(arg.name).poison(poison);
      else if (arg.role == ir::Role::kInOut)
        arguments.tensor(arg.name).store(subject_.inputs[arg.name]);
    }
    const std::map<std::string, Bytes> before = input_bytes(arguments);
    const Status status = run_(arguments);
    if (!status.ok()) return fail("", status.str());

    for (const auto& [name, tensor] : arguments.tensors)
      if (const auto damage = tensor.guard_damage())
        return fail(name, "wrote outside the tensor: " + *damage);
    if (input_bytes(arguments) != before) return fail("", "changed an input");
    for (const ArgDef* arg : outputs()) {
      const Comparison comparison = compare(arguments.tensor(arg->name).load(),
                                            subject_.expected[arg->name], subject_.tolerance);
      if (!comparison.pass && verdict_.pass()) {
        verdict_.output = arg->name;
        verdict_.layout = layout_;
      }
      verdict_.comparison.merge(comparison);
    }
    return true;
  }

  std::map<std::string, Bytes> input_bytes(Arguments& arguments) const {
    std::map<std::string, Bytes> out;
    for (const ArgDef& arg : subject_.op.args) {
      if (arg.role != ir::Role::kIn || !subject_.inputs.has(arg.name)) continue;
      const bool shared = std::any_of(arguments.aliases.begin(), arguments.aliases.end(),
                                      [&](const auto& alias) { return alias.second == arg.name; });
      if (!shared) out[arg.name] = arguments.tensor(arg.name).elements();
    }
    return out;
  }

  void same_and_written(const std::map<std::string, Bytes>& first,
                        const std::map<std::string, Bytes>& second) {
    for (const ArgDef* arg : outputs()) {
      const Bytes &a = first.at(arg->name), &b = second.at(arg->name);
      if (a == b) continue;
      const DType dtype = subject_.inputs.config.dtype(arg->name);
      const int64_t unwritten = arg->role == ir::Role::kOut ? first_unwritten(dtype, a, b) : -1;
      const int64_t differs =
          (std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin()) / size_bytes(dtype);
      const int64_t at = unwritten >= 0 ? unwritten : differs;
      // More telling than the wrong value that it also is.
      verdict_.comparison.pass = false;
      verdict_.comparison.reason =
          unwritten >= 0 ? "never written" : "two runs on the same inputs differ";
      verdict_.comparison.first_bad = at;
      verdict_.comparison.got = verdict_.results.at(arg->name).data[static_cast<size_t>(at)];
      verdict_.comparison.want = subject_.expected[arg->name].data[static_cast<size_t>(at)];
      verdict_.output = arg->name;
      verdict_.layout = layout_;
      return;
    }
  }

  // Lets each output that may alias an input of its shape and dtype do so. False if there is none.
  bool share_memory(Arguments& arguments) const {
    for (const ArgDef* arg : outputs()) {
      if (arg->role != ir::Role::kOut) continue;
      for (const std::string& input : arg->may_alias) {
        const ArgDef* other = subject_.op.arg(input);
        if (other == nullptr || other->role != ir::Role::kIn || !subject_.inputs.has(input))
          continue;
        const bool alike =
            subject_.inputs.config.dtype(input) == subject_.inputs.config.dtype(arg->name) &&
            subject_.inputs[input].shape == subject_.inputs[arg->name].shape;
        if (!alike) continue;
        arguments.aliases[arg->name] = input;
        break;
      }
    }
    return !arguments.aliases.empty();
  }

  const Subject& subject_;
  const Implementation& run_;
  std::string layout_;
  Verdict verdict_;
};

}  // namespace

Verdict judge(const Subject& subject, const Implementation& run) {
  return Trial(subject, run).verdict();
}

Verdict judge_results(const Subject& subject,
                      const std::map<std::string, NdArray, std::less<>>& results) {
  Verdict verdict;
  for (const ArgDef& arg : subject.op.args) {
    if (!is_output(arg) || !subject.inputs.has(arg.name)) continue;
    const Comparison comparison =
        compare(results.find(arg.name)->second, subject.expected[arg.name], subject.tolerance);
    if (!comparison.pass && verdict.pass()) verdict.output = arg.name;
    verdict.comparison.merge(comparison);
  }
  verdict.results = results;
  return verdict;
}

}  // namespace rooftile::check
