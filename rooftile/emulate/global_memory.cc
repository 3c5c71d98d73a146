// SPDX-License-Identifier: Apache-2.0
#include "rooftile/emulate/global_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace rooftile::emulate {
namespace {

using lanes::Body;
using lanes::Stmt;
using lanes::StmtKind;
using lanes::TensorUse;

bool uses(const Body& body, lanes::Ins ins) {
  return std::any_of(body.begin(), body.end(), [&](const Stmt& s) {
    return (s.kind == StmtKind::kInstr && s.instr.ins == ins) || uses(s.body, ins) ||
           uses(s.orelse, ins);
  });
}

Diag setup(const lanes::Program& program, std::string message, std::string argument,
           std::string found, std::string expected) {
  return {.code = ErrorCode::kEmuSetup,
          .subject = program.name,
          .message = std::move(message),
          .argument = std::move(argument),
          .found = std::move(found),
          .expected = std::move(expected)};
}

Status resolve_tensor(const lanes::Program& program, const TensorUse& use, Launch& launch) {
  const auto it = launch.tensors.find(use.name);
  if (it == launch.tensors.end())
    return setup(program, "the launch lacks a tensor", use.name, "", "");
  TensorArg& arg = it->second;
  if (arg.dtype != use.dtype)
    return setup(program, "a tensor has the wrong dtype", use.name, std::string(name(arg.dtype)),
                 std::string(name(use.dtype)));
  if (arg.shape.size() != use.shape.size())
    return setup(program, "a tensor has the wrong rank", use.name, std::to_string(arg.shape.size()),
                 std::to_string(use.shape.size()));
  if (arg.strides.empty()) {
    arg.strides.assign(arg.shape.size(), 1);
    for (size_t d = arg.shape.size(); d-- > 1;) arg.strides[d - 1] = arg.strides[d] * arg.shape[d];
  }
  for (size_t d = 0; d < use.shape.size(); ++d) {
    launch.ints.emplace(fmt::format("{}.s{}", use.name, d), arg.strides[d]);
    if (use.shape[d].kind() == ExprKind::kSym)
      launch.ints.emplace(use.shape[d].name(), arg.shape[d]);
  }
  return {};
}

Status check_extents(const lanes::Program& program, const Launch& launch) {
  Env env;
  for (const auto& [name, value] : launch.ints) env[name] = value;
  env["SMS"] = launch.sms;
  for (const TensorUse& use : program.tensors) {
    const TensorArg& arg = launch.tensors.find(use.name)->second;
    for (size_t d = 0; d < use.shape.size(); ++d) {
      const std::optional<int64_t> extent = evaluate(use.shape[d], env);
      if (!extent || *extent != arg.shape[d])
        return setup(program, fmt::format("extent {} of a tensor disagrees with the dims", d),
                     use.name, std::to_string(arg.shape[d]),
                     use.shape[d].str() + (extent ? fmt::format(" = {}", *extent) : ""));
      const int64_t bytes = arg.strides[d] * size_bytes(use.dtype);
      if (d + 1 < use.shape.size() && arg.shape[d] > 1 && bytes % use.align_bytes != 0)
        return setup(program, "a stride is not aligned as the kernel needs it", use.name,
                     fmt::format("{} bytes", bytes),
                     fmt::format("a multiple of {}", use.align_bytes));
    }
  }
  return {};
}

Result<TensorMap> encode(const lanes::Program& program, const lanes::TensorMapUse& use, Tensor& t) {
  TensorMap map;
  map.use = &use;
  map.tensor = &t;
  map.box.assign(use.box.begin(), use.box.end());
  const auto fail = [&](std::string message, std::string found, std::string expected) {
    return setup(program, "a tensor map cannot be encoded: " + std::move(message), use.name,
                 std::move(found), std::move(expected));
  };
  if (map.box.size() != t.shape.size() || map.box.empty() || map.box.size() > 5)
    return fail("the box has another rank than the tensor, or more than 5",
                std::to_string(map.box.size()), std::to_string(t.shape.size()));
  for (const int64_t side : map.box)
    if (side < 1 || side > 256) return fail("side of the box", std::to_string(side), "1 to 256");
  if (t.strides.back() != 1 && t.shape.back() > 1)
    return fail("innermost stride", std::to_string(t.strides.back()), "1");
  for (size_t d = 0; d + 1 < t.shape.size(); ++d)
    if (t.strides[d] * t.elem_bytes % 16 != 0 && t.shape[d] > 1)
      return fail(fmt::format("stride {} in bytes", d), std::to_string(t.strides[d] * t.elem_bytes),
                  "a multiple of 16");
  map.inner_bytes = map.box[0] * t.elem_bytes;
  if (map.inner_bytes % 16 != 0)
    return fail("inner side of the box in bytes", std::to_string(map.inner_bytes),
                "a multiple of 16");
  const int span = 16 << static_cast<int>(use.swizzle);
  if (use.swizzle != lanes::Swizzle::kNone && map.inner_bytes != span)
    return fail("inner side of the box in bytes", std::to_string(map.inner_bytes),
                fmt::format("{}, the span of the swizzle", span));
  map.rows = std::accumulate(map.box.begin() + 1, map.box.end(), int64_t{1}, std::multiplies<>());
  map.box_bytes = map.rows * map.inner_bytes;
  return map;
}

}  // namespace

Result<Launch> resolve(const lanes::Program& program, const Launch& launch) {
  Launch out = launch;
  for (const TensorUse& use : program.tensors)
    RT_RETURN_IF_ERROR(resolve_tensor(program, use, out));
  RT_RETURN_IF_ERROR(check_extents(program, out));
  return out;
}

Result<GlobalMemory> GlobalMemory::create(const lanes::Program& program, const Launch& launch) {
  GlobalMemory out;
  out.has_tickets_ = uses(program.body, lanes::Ins::kAtomGlobal);
  const bool releases = uses(program.body, lanes::Ins::kRedGlobalRelease);
  out.tensors_.reserve(program.tensors.size());
  for (const TensorUse& use : program.tensors) {
    const TensorArg& arg = launch.tensors.find(use.name)->second;
    Tensor t;
    t.use = &use;
    t.data = static_cast<uint8_t*>(arg.data);
    t.elem_bytes = size_bytes(use.dtype);
    t.shape = arg.shape;
    t.strides = arg.strides;
    t.initialised = arg.initialised;
    t.span = 1;
    for (size_t d = 0; d < t.shape.size(); ++d) {
      if (t.shape[d] == 0) t.span = 0;
      t.span += t.span > 0 ? (t.shape[d] - 1) * t.strides[d] : 0;
    }
    if (use.written) {
      const auto span = static_cast<size_t>(t.span);
      t.wrote = ZeroedArray<uint64_t>(span);
      t.writer = ZeroedArray<int32_t>(span);
      if (releases && use.workspace) t.release = ZeroedArray<uint32_t>(span);
    }
    out.tensors_.push_back(std::move(t));
  }
  for (const lanes::TensorMapUse& use : program.maps) {
    const auto of = std::find_if(out.tensors_.begin(), out.tensors_.end(),
                                 [&](const Tensor& t) { return t.use->name == use.tensor; });
    if (of == out.tensors_.end())
      return setup(program, "a tensor map of no tensor", use.name, use.tensor, "");
    Result<TensorMap> map = encode(program, use, *of);
    if (!map.ok()) return map.diag();
    out.maps_.push_back(std::move(*map));
  }
  return out;
}

int64_t Tensor::offset(const int64_t* index, int64_t width, int lane) const {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool last = d + 1 == shape.size();
    if (index[d] < 0 || index[d] + (last ? width : 1) > shape[d]) {
      const std::vector<int64_t> all(index, index + shape.size());
      throw Fault{
          .code = ErrorCode::kEmuBounds,
          .message = fmt::format("access of `{}` out of bounds in dimension {}", use->name, d),
          .found = fmt::format("{}[{}]{}", use->name, fmt::join(all, ", "),
                               width > 1 ? fmt::format(", {} elements", width) : ""),
          .expected = fmt::format("0 <= index{} {} {}",
                                  last && width > 1 ? fmt::format(", index + {}", width) : "",
                                  last && width > 1 ? "<=" : "<", shape[d]),
          .fix = "guard the access",
          .lane = lane};
    }
    at += index[d] * strides[d];
  }
  return at;
}

// Whether the last write of an element comes before what `who` does: told within the cluster, or
// released by another one and acquired since by somebody that `who` knows of.
bool GlobalMemory::ordered(const Tensor& t, size_t element, int cluster, const Viewer& who) const {
  if (t.cluster(element) == cluster) return who.covers(Stamp::from_bits(t.wrote[element]));
  if (has_tickets_) return true;
  const uint32_t number = t.release.empty() ? 0 : t.release[element];
  const auto mine = acquired_.find(cluster);
  if (number == 0 || mine == acquired_.end()) return false;
  const Release& release = all_releases_[number];
  return std::any_of(mine->second.begin(), mine->second.end(), [&](const Acquired& a) {
    return a.tensor == release.tensor && a.offset == release.offset && a.latest >= number &&
           who.covers(a.stamp);
  });
}

void GlobalMemory::read(const Tensor& t, int64_t offset, int64_t count, int cluster,
                        const Viewer& who, int lane) {
  if (!t.use->written) {
    if (t.initialised) return;
    throw Fault{.code = ErrorCode::kEmuUninit,
                .message = fmt::format("read of `{}`, which holds nothing", t.use->name),
                .lane = lane};
  }
  for (int64_t at = offset; at < offset + count; ++at) {
    const size_t i = static_cast<size_t>(at);
    if (t.cluster(i) < 0) {
      if (t.initialised) continue;
      throw Fault{
          .code = ErrorCode::kEmuUninit,
          .message = fmt::format("read of `{}` where nothing has been written", t.use->name),
          .found = fmt::format("element {} of its storage", at),
          .lane = lane};
    }
    if (!ordered(t, i, cluster, who))
      throw Fault{
          .code = ErrorCode::kEmuRace,
          .message = fmt::format("read of `{}` is not ordered after a write of another thread",
                                 t.use->name),
          .found = fmt::format("element {} of its storage, written by {}", at,
                               t.cluster(i) == cluster ? "another thread of this cluster"
                                                       : fmt::format("cluster {}", t.cluster(i))),
          .expected = "a barrier between the two, or between CTAs a release and an acquire",
          .lane = lane};
  }
}

void GlobalMemory::write(Tensor& t, int64_t offset, int64_t count, int cluster, const Viewer& who,
                         Stamp stamp) {
  if (!t.use->written)
    throw Fault{.code = ErrorCode::kEmuSetup,
                .message = fmt::format("write of `{}`, which the kernel does not declare written",
                                       t.use->name),
                .lane = stamp.lane()};
  for (int64_t at = offset; at < offset + count; ++at) {
    const size_t i = static_cast<size_t>(at);
    if (t.cluster(i) >= 0 && !ordered(t, i, cluster, who))
      throw Fault{
          .code = ErrorCode::kEmuRace,
          .message = fmt::format("two threads write one element of `{}`", t.use->name),
          .found = fmt::format("element {} of its storage, written before by {}", at,
                               t.cluster(i) == cluster ? "another thread of this cluster"
                                                       : fmt::format("cluster {}", t.cluster(i))),
          .expected = "one writer, or a barrier between the two",
          .lane = stamp.lane()};
    if (t.writer[i] != 0)
      rewritten_.emplace(t.use->name, fmt::format("element {} of its storage", at));
    t.wrote[i] = stamp.bits();
    t.writer[i] = cluster + 1;
    if (!t.release.empty()) t.release[i] = 0;
  }
  if (!t.release.empty()) written_[cluster].push_back({&t, offset, count, stamp});
}

void GlobalMemory::atomic(Tensor& t, int64_t offset, int cluster, Stamp stamp) {
  if (!t.use->written)
    throw Fault{.code = ErrorCode::kEmuSetup,
                .message = fmt::format("atomic on `{}`, which the kernel does not declare written",
                                       t.use->name),
                .lane = stamp.lane()};
  t.wrote[static_cast<size_t>(offset)] = stamp.bits();
  t.writer[static_cast<size_t>(offset)] = cluster + 1;
  if (!t.release.empty()) t.release[static_cast<size_t>(offset)] = 0;
}

void GlobalMemory::release(Tensor& t, int64_t offset, int cluster, const Viewer& who, Stamp stamp) {
  atomic(t, offset, cluster, stamp);
  const auto number = static_cast<uint32_t>(all_releases_.size());
  all_releases_.push_back({&t, offset});
  std::erase_if(written_[cluster], [&](const Written& w) {
    if (!who.covers(w.stamp)) return false;
    for (int64_t at = w.offset; at < w.offset + w.count; ++at)
      if (const auto i = static_cast<size_t>(at);
          w.tensor->wrote[i] == w.stamp.bits() && w.tensor->cluster(i) == cluster)
        w.tensor->release[i] = number;
    return true;
  });
  if (!t.release.empty()) t.release[static_cast<size_t>(offset)] = number;
}

void GlobalMemory::acquire(const Tensor& t, int64_t offset, int cluster, Stamp stamp) {
  acquired_[cluster].push_back(
      {&t, offset, static_cast<uint32_t>(all_releases_.size() - 1), stamp});
}

std::optional<std::string> GlobalMemory::not_zero() const {
  for (const Tensor& t : tensors_) {
    if (!t.use->zeroed) continue;
    for (int64_t byte = 0; byte < t.span * t.elem_bytes; ++byte)
      if (t.data[byte] != 0)
        return fmt::format("element {} of the storage of `{}`", byte / t.elem_bytes, t.use->name);
  }
  return std::nullopt;
}

std::map<std::string, std::string> GlobalMemory::unwritten() const {
  constexpr int64_t kMostElements = int64_t{1} << 24;
  std::map<std::string, std::string> out;
  for (const Tensor& t : tensors_) {
    if (!t.use->written || t.initialised || t.span == 0 || t.span > kMostElements) continue;
    std::vector<int64_t> index(t.shape.size(), 0);
    for (bool more = true; more && out.count(t.use->name) == 0;) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * t.strides[d];
      if (t.cluster(static_cast<size_t>(at)) < 0)
        out[t.use->name] = fmt::format("{}[{}]", t.use->name, fmt::join(index, ", "));
      more = false;
      for (size_t d = index.size(); d-- > 0 && !more;) {
        more = ++index[d] < t.shape[d];
        if (!more) index[d] = 0;
      }
    }
  }
  return out;
}

BoxRow GlobalMemory::box_row(const TensorMap& map, const std::vector<int64_t>& coords,
                             int64_t row) const {
  const Tensor& t = *map.tensor;
  const size_t rank = map.box.size();
  BoxRow out;
  int64_t rest = row;
  for (size_t d = 1; d < rank; ++d) {
    const int64_t index = coords[d] + rest % map.box[d];
    rest /= map.box[d];
    if (index < 0 || index >= t.shape[rank - 1 - d]) return out;
    out.element += index * t.strides[rank - 1 - d];
  }
  const int64_t begin = std::max<int64_t>(0, -coords[0]);
  const int64_t end = std::min(map.box[0], t.shape[rank - 1] - coords[0]);
  if (begin >= end) return {};
  out.first = begin;
  out.count = end - begin;
  out.element += coords[0] + begin;
  return out;
}

uint32_t swizzled(lanes::Swizzle swizzle, uint32_t address) {
  // Bits 4.. of an address are xored with bits 7..: one, two or three of them.
  const uint32_t bits = (1u << static_cast<int>(swizzle)) - 1;
  return address ^ (((address >> 7) & bits) << 4);
}

}  // namespace rooftile::emulate
