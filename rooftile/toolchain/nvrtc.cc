// SPDX-License-Identifier: Apache-2.0
#include "rooftile/toolchain/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>

#include "rooftile/toolchain/compiler_messages.h"
#include "rooftile/toolchain/nvrtc_abi.h"

namespace rooftile {

namespace abi = nvrtc_abi;

struct Nvrtc::Impl {
  abi::Api api;
};

namespace {

// A program's name gets into messages and, with -lineinfo, into the cubin: one name for all.
constexpr const char* kProgramName = "rooftile_kernel.cu";

Diag cannot_load(const NvrtcLocation& location, std::string found) {
  return {.code = ErrorCode::kNoNvrtc,
          .subject = location.path,
          .message = "NVRTC cannot be loaded",
          .found = std::move(found),
          .when = "found by: " + location.how,
          .fix = "set ROOFTILE_NVRTC to a libnvrtc.so.13 that is whole"};
}

std::string linker_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "no reason given";
}

// NVRTC opens libnvrtc-builtins by its bare name when it first compiles; loaded from beside NVRTC
// beforehand it is found wherever the folder is. If this fails, NVRTC says so itself.
void load_builtins(const std::string& nvrtc_path) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(nvrtc_path).parent_path(), ignored))
    if (entry.path().filename().string().rfind("libnvrtc-builtins.so.", 0) == 0)
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
}

// The name of the first entry point that is missing; "" if all are there.
std::string bind(void* handle, abi::Api& api) {
#define RT_BIND(field, symbol, parameters)                                  \
  api.field = reinterpret_cast<decltype(api.field)>(dlsym(handle, symbol)); \
  if (api.field == nullptr) return symbol;
  RT_NVRTC_ENTRY_POINTS(RT_BIND)
#undef RT_BIND
  api.get_error_string =
      reinterpret_cast<decltype(api.get_error_string)>(dlsym(handle, "nvrtcGetErrorString"));
  return api.get_error_string != nullptr ? "" : "nvrtcGetErrorString";
}

class Program {
 public:
  Program(const abi::Api& api, const std::string& text) : api_(api) {
    created_ = api_.create_program(&handle_, text.c_str(), kProgramName, 0, nullptr, nullptr);
  }
  ~Program() {
    if (created_ == abi::kSuccess) api_.destroy_program(&handle_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  abi::Result compile(const std::vector<std::string>& options) {
    if (created_ != abi::kSuccess) return created_;
    std::vector<const char*> argv;
    for (const std::string& option : options) argv.push_back(option.c_str());
    return api_.compile_program(handle_, static_cast<int>(argv.size()), argv.data());
  }
  // What `size` and `get` hand out; "" if there is none.
  std::string output(abi::Result (*size)(abi::Program, size_t*),
                     abi::Result (*get)(abi::Program, char*)) const {
    size_t bytes = 0;
    if (created_ != abi::kSuccess || size(handle_, &bytes) != abi::kSuccess || bytes == 0)
      return "";
    std::string out(bytes, '\0');
    if (get(handle_, out.data()) != abi::kSuccess) return "";
    return out;
  }

 private:
  const abi::Api& api_;
  abi::Program handle_ = nullptr;
  abi::Result created_ = abi::kSuccess;
};

// Texts come with a final NUL.
std::string without_nul(std::string text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

// "Compile time = 32.142 ms" differs from run to run; entries of the cache must not.
std::string without_times(const std::string& log) {
  std::string out;
  for (size_t begin = 0; begin < log.size();) {
    const size_t end = std::min(log.find('\n', begin), log.size() - 1) + 1;
    const std::string_view line(log.data() + begin, end - begin);
    if (line.find("Compile time = ") == std::string_view::npos) out += line;
    begin = end;
  }
  return out;
}

// From 12.9 on NVRTC shares the driver's compute cache where there is a driver, and a hit there
// comes without the log, hence without the report. The option does not change the code.
std::vector<std::string> as_passed(const CudaOptions& options, int major, int minor) {
  std::vector<std::string> out = options.canonical();
  if (major > 12 || (major == 12 && minor >= 9)) out.push_back("--no-cache");
  return out;
}

Diag refused(const abi::Api& api, abi::Result result, const std::string& log,
             std::string_view subject, const std::string& nvrtc, const CudaOptions& options) {
  const PtxasReport report = parse_ptxas_log(log);
  Diag diag = {
      .code = ErrorCode::kCudaCompile,
      .subject = std::string(subject),
      .message = "NVRTC refused the CUDA text: " + std::string(api.get_error_string(result)),
      .found = trim_messages(log),
      .when = nvrtc + ", " + options.arch};
  if (report.registers_at_least)
    diag.fix = "let a thread have " + std::to_string(*report.registers_at_least) +
               " registers or more: fewer threads in __launch_bounds__, or a higher setmaxnreg";
  else if (result == abi::kInvalidOption)
    diag.fix = "check the options: this NVRTC may be older than they are";
  else if (result == abi::kBuiltinOperationFailure)
    diag.fix = "libnvrtc-builtins of the same version must lie beside libnvrtc";
  else
    diag.fix = "if the text was generated, please report it with this message";
  return diag;
}

}  // namespace

std::vector<std::string> CudaOptions::canonical() const {
  // -default-device: functions without a qualifier are device functions. ptxas takes one option a
  // flag: a list with commas is refused.
  std::vector<std::string> out = {"-arch=" + arch, "--std=c++17", "-default-device",
                                  "--ptxas-options=-v"};
  out.insert(out.end(), flags.begin(), flags.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string Nvrtc::name() const {
  return "NVRTC " + std::to_string(major_) + "." + std::to_string(minor_) + ", " +
         location_.identity;
}

Result<const Nvrtc*> Nvrtc::open(NvrtcLocation location) {
  load_builtins(location.path);
  void* handle = dlopen(location.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return cannot_load(location, linker_error());
  auto impl = std::make_unique<Impl>();
  if (const std::string missing = bind(handle, impl->api); !missing.empty()) {
    dlclose(handle);
    return cannot_load(location, "it has no " + missing);
  }
  auto nvrtc = std::unique_ptr<Nvrtc>(new Nvrtc);
  impl->api.version(&nvrtc->major_, &nvrtc->minor_);
  nvrtc->location_ = std::move(location);
  nvrtc->impl_ = impl.release();
  return nvrtc.release();  // for the life of the process: it is never unloaded
}

Result<const Nvrtc*> Nvrtc::load() {
  static std::mutex mutex;
  // By path. Never destroyed: what lives as long as the process stays reachable to its end.
  static auto& open_libraries = *new std::map<std::string, const Nvrtc*>;
  Result<NvrtcLocation> location = find_nvrtc();
  if (!location.ok()) return location.diag();
  std::lock_guard lock(mutex);
  const Nvrtc*& known = open_libraries[location->path];
  if (known == nullptr) {
    Result<const Nvrtc*> opened = open(*location);
    if (!opened.ok()) return opened;
    known = *opened;
  }
  return known;
}

Result<CudaBinary> Nvrtc::compile(std::string_view text, const CudaOptions& options,
                                  std::string_view subject) const {
  const abi::Api& api = impl_->api;
  const auto start = std::chrono::steady_clock::now();
  Program program(api, std::string(text));
  const abi::Result result = program.compile(as_passed(options, major_, minor_));
  CudaBinary out;
  out.log = without_times(without_nul(program.output(api.get_log_size, api.get_log)));
  if (result != abi::kSuccess) return refused(api, result, out.log, subject, name(), options);

  out.cubin = program.output(api.get_cubin_size, api.get_cubin);
  out.ptx = without_nul(program.output(api.get_ptx_size, api.get_ptx));
  const bool wants_cubin = options.arch.rfind("sm_", 0) == 0;
  if ((wants_cubin && out.cubin.empty()) || (!wants_cubin && out.ptx.empty()))
    return Diag{.code = ErrorCode::kCudaCompile,
                .subject = std::string(subject),
                .message = "NVRTC reports success but hands out no code",
                .when = name() + ", " + options.arch};
  out.report = parse_ptxas_log(out.log);
  out.nvrtc = name();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  out.compile_ms = elapsed.count();
  return out;
}

}  // namespace rooftile
