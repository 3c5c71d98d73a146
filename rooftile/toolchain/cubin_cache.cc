// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/cubin_cache.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "rooftile/base/env.h"

namespace rooftile {

namespace {

// ---- the object of an entry: one line of JSON, then cubin, PTX and log -----------------------

constexpr std::string_view kMagic = "rooftile-cubin 1\n";

std::string pack(const CudaBinary& binary) {
  const nlohmann::ordered_json head = {{"nvrtc", binary.nvrtc},
                                       {"compile_ms", binary.compile_ms},
                                       {"cubin_bytes", binary.cubin.size()},
                                       {"ptx_bytes", binary.ptx.size()},
                                       {"log_bytes", binary.log.size()},
                                       {"report", report_json(binary.report)}};
  return std::string(kMagic) + head.dump() + "\n" + binary.cubin + binary.ptx + binary.log;
}

std::optional<CudaBinary> unpack(const std::string& bytes) {
  if (!std::string_view(bytes).starts_with(kMagic)) return std::nullopt;
  const size_t end = bytes.find('\n', kMagic.size());
  if (end == std::string::npos) return std::nullopt;
  const nlohmann::json head = nlohmann::json::parse(
      bytes.begin() + kMagic.size(), bytes.begin() + static_cast<std::ptrdiff_t>(end), nullptr,
      /*allow_exceptions=*/false);
  if (!head.is_object()) return std::nullopt;
  CudaBinary out;
  try {
    size_t at = end + 1;
    for (auto [field, text] :
         {std::pair("cubin_bytes", &out.cubin), {"ptx_bytes", &out.ptx}, {"log_bytes", &out.log}}) {
      const size_t count = head.at(field);
      if (count > bytes.size() - at) return std::nullopt;
      *text = bytes.substr(at, count);
      at += count;
    }
    if (at != bytes.size()) return std::nullopt;
    out.nvrtc = head.at("nvrtc");
    out.compile_ms = head.at("compile_ms");
    std::optional<PtxasReport> report = report_from_json(head.at("report").get<std::string>());
    if (!report) return std::nullopt;
    out.report = std::move(*report);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return out;
}

// ---- entries ---------------------------------------------------------------------------------

// Carried entries are found without knowing an NVRTC: this stands for whichever made them.
constexpr const char* kAnyNvrtc = "any NVRTC; the entry says which";

ObjectInputs inputs_of(const std::string& text, const CudaOptions& options, std::string nvrtc) {
  return {.text = text,
          .flags = options.canonical(),
          .compiler = std::move(nvrtc),
          .target = options.arch,
          .kind = ObjectKind::kCubin};
}

// The entry's hash has been checked, so bytes that cannot be unpacked are an error of ours.
Result<CachedCubin> read_entry(const CachedObject& object, CubinOrigin origin) {
  std::ifstream in(object.path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  std::optional<CudaBinary> binary = unpack(bytes.str());
  if (!binary)
    return Diag{.code = ErrorCode::kCache,
                .subject = object.path,
                .message = "the entry of the kernel cache cannot be read",
                .fix = "delete the file; it is built again at the next use"};
  const bool kept = object.keep_alive == nullptr;
  return CachedCubin{.binary = std::move(*binary),
                     .origin = origin,
                     .path = kept ? object.path : "",
                     .text_path = kept ? object.text_path : ""};
}

// A builder that writes what `make` makes.
ObjectBuilder writer(std::function<Result<CudaBinary>()> make) {
  return [make = std::move(make)](const std::string& out_path) -> Status {
    Result<CudaBinary> binary = make();
    if (!binary.ok()) return binary.diag();
    std::ofstream out(out_path, std::ios::binary | std::ios::trunc);
    out << pack(*binary);
    out.close();
    if (out) return {};
    return Diag{.code = ErrorCode::kCache,
                .subject = out_path,
                .message = "the compiled kernel cannot be written",
                .fix = "make room on the disk, or set ROOFTILE_CACHE_DIR to another folder"};
  };
}

}  // namespace

CudaCompiler CudaCompiler::nvrtc() {
  return {.identity = []() -> Result<std::string> {
            Result<NvrtcLocation> location = find_nvrtc();
            if (!location.ok()) return location.diag();
            return location->identity;
          },
          .compile = [](const std::string& text, const CudaOptions& options,
                        const std::string& subject) -> Result<CudaBinary> {
            Result<const Nvrtc*> nvrtc = Nvrtc::load();
            if (!nvrtc.ok()) return nvrtc.diag();
            return (*nvrtc)->compile(text, options, subject);
          }};
}

Result<CubinCache> CubinCache::open(const std::string& dir, const std::string& carried,
                                    CudaCompiler compiler) {
  Result<DiskCache> cache = DiskCache::open(dir);
  if (!cache.ok()) return cache.diag();
  const std::string carried_dir =
      carried.empty() ? env_value(EnvVar::kCubinDir).value_or("") : carried;
  std::optional<DiskCache> folder;
  if (!carried_dir.empty()) {
    Result<DiskCache> opened = DiskCache::open_read_only(carried_dir);
    if (!opened.ok()) {
      Diag diag = opened.diag();
      diag.message = "the folder of carried GPU kernels cannot be used: " + diag.message;
      diag.fix =
          "ROOFTILE_CUBIN_DIR must name a folder of yours or root's that others cannot write";
      return diag;
    }
    folder = std::move(*opened);
  }
  return CubinCache(std::move(*cache), std::move(folder), std::move(compiler));
}

Result<CachedCubin> CubinCache::get_or_compile(const std::string& text, const CudaOptions& options,
                                               const std::string& subject) const {
  if (carried_)
    if (std::optional<CachedObject> hit = carried_->find(inputs_of(text, options, kAnyNvrtc)))
      return read_entry(*hit, CubinOrigin::kCarried);

  Result<std::string> identity = compiler_.identity();
  if (!identity.ok()) {
    Diag diag = identity.diag();
    if (carried_) diag.when = "the kernel is not in " + carried_->dir() + " either";
    return diag;
  }
  Result<CachedObject> object =
      cache_.get_or_build(inputs_of(text, options, *identity),
                          writer([&] { return compiler_.compile(text, options, subject); }));
  if (!object.ok()) return object.diag();
  return read_entry(*object, object->from_cache ? CubinOrigin::kCache : CubinOrigin::kCompiled);
}

Result<CachedCubin> CubinCache::carry_to(const std::string& dir, const std::string& text,
                                         const CudaOptions& options,
                                         const std::string& subject) const {
  Result<DiskCache> folder = DiskCache::open(dir);
  if (!folder.ok()) return folder.diag();
  Result<CachedObject> object =
      folder->get_or_build(inputs_of(text, options, kAnyNvrtc), writer([&]() -> Result<CudaBinary> {
                             Result<CachedCubin> made = get_or_compile(text, options, subject);
                             if (!made.ok()) return made.diag();
                             return std::move(made->binary);
                           }));
  if (!object.ok()) return object.diag();
  return read_entry(*object, CubinOrigin::kCarried);
}

Result<CachedCubin> compile_cubin_cached(const std::string& text, const CudaOptions& options,
                                         const std::string& subject) {
  Result<CubinCache> cache = CubinCache::open();
  if (!cache.ok()) return cache.diag();
  return cache->get_or_compile(text, options, subject);
}

}  // namespace rooftile
