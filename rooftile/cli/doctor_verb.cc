// SPDX-License-Identifier: Apache-2.0
// rooftile doctor: what this machine offers, what of it Rooftile uses, and why not the rest. Exit
// status 1 when something that kernels need is missing.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "rooftile/base/env.h"
#include "rooftile/bench/provenance.h"
#include "rooftile/cli/doctor.h"
#include "rooftile/cli/output.h"
#include "rooftile/cli/verb.h"
#include "rooftile/compile/target.h"
#include "rooftile/toolchain/disk_cache.h"
#include "rooftile/toolchain/host_cc.h"

namespace rooftile::cli {
namespace {

std::string cpu_flags_line() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.rfind("flags", 0) == 0) return line + " ";
  return "";
}

// A feature that the processor may have and that Rooftile may have decided not to use.
Finding feature(const std::string& name, const std::string& kernel_flag, bool used,
                const std::string& flags) {
  if (used) return {name, "ok", "used"};
  if (flags.find(" " + kernel_flag + " ") == std::string::npos)
    return {name, "absent", "the processor does not have it"};
  if (env_value(EnvVar::kIsa))
    return {name, "off", "limited by " + std::string(env_name(EnvVar::kIsa))};
  if (kernel_flag.rfind("amx", 0) == 0 && env_flag(EnvVar::kNoAmx))
    return {name, "off", "switched off by " + std::string(env_name(EnvVar::kNoAmx))};
  return {name, "off", "the operating system does not let processes use it"};
}

void add_processor(std::vector<Finding>& out) {
  const TargetInfo& target = host_target();
  const std::string flags = cpu_flags_line();
  out.push_back({"processor", "ok",
                 fmt::format("{}, {} thread{}", target.device, target.threads,
                             target.threads == 1 ? "" : "s")});
  out.push_back({"instruction set", "ok", target.isa});
  out.push_back(feature("AVX2", "avx2", target.isa != "generic", flags));
  out.push_back(feature("AVX-512", "avx512f", target.isa == "avx512", flags));
  out.push_back(feature("AVX-512 bf16", "avx512_bf16", target.avx512_bf16, flags));
  out.push_back(feature("AVX-512 VNNI", "avx512_vnni", target.avx512_vnni, flags));
  out.push_back(feature("AVX-512 fp16", "avx512_fp16", target.avx512_fp16, flags));
  out.push_back(feature("AMX bf16", "amx_bf16", target.amx_bf16, flags));
  out.push_back(feature("AMX int8", "amx_int8", target.amx_int8, flags));
  out.push_back({"caches", "ok",
                 fmt::format("L1 {} KB, L2 {} KB, L3 {} MB", target.l1_bytes >> 10,
                             target.l2_bytes >> 10, target.l3_bytes >> 20)});
}

Finding compiler() {
  const auto found = find_compiler();
  if (!found)
    return {"C++ compiler", "absent", found.diag().message + "; " + found.diag().fix, true};
  return {"C++ compiler", "ok", found->version + " (" + found->path + ")", true};
}

Finding kernel_cache() {
  const auto cache = DiskCache::open();
  if (!cache)
    return {"kernel cache", "broken", cache.diag().message + ": " + cache.diag().found, true};
  std::error_code ignored;
  uintmax_t bytes = 0;
  // What an entry consists of besides its object (disk_cache.h).
  const std::set<std::string> parts = {".cc", ".cu", ".cubin", ".meta"};
  int objects = 0, strays = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cache->dir(), ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    bytes += entry.file_size(ignored);
    const std::string extension = entry.path().extension();
    if (extension == ".so")
      ++objects;
    else if (parts.count(extension) == 0)
      ++strays;
  }
  struct statvfs disk {};
  const double free_gb =
      statvfs(cache->dir().c_str(), &disk) == 0
          ? static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) / 1e9
          : 0;
  std::string detail =
      fmt::format("{}: {} CPU kernels, {:.1f} MB in all; {:.1f} GB free on the disk", cache->dir(),
                  objects, static_cast<double>(bytes) / 1e6, free_gb);
  if (strays > 0) detail += fmt::format("; {} other files", strays);
  return {"kernel cache", free_gb > 0.05 ? "ok" : "broken", detail, true};
}

Finding library(const std::string& name, const std::string& version, const std::string& use) {
  if (version.empty()) return {name, "off", "left out of this build; it would be " + use};
  return {name, "ok", version + ", " + use};
}

Result<int> run(const std::string& json_path) {
  auto out = Output::open(json_path);
  if (!out) return out.status();
  const bench::Provenance build = bench::provenance();
  std::vector<Finding> findings = {{"rooftile", "ok", build.version + " (" + build.commit + ")"}};
  add_processor(findings);
  findings.push_back(compiler());
  findings.push_back(kernel_cache());
  findings.push_back(
      library("oneDNN", build.onednn, "the library route and the peer of benchmarks"));
  findings.push_back(library("OpenBLAS", build.openblas, "a peer of benchmarks"));
  add_gpu_findings(findings);
  for (const EnvVarInfo& variable : env_vars())
    if (variable.name.rfind("ROOFTILE_", 0) == 0)
      if (const auto value = env_value(variable.id))
        findings.push_back({std::string(variable.name), "ok", *value});

  bool sound = true;
  Table table({"what", "state", "detail"});
  for (const Finding& finding : findings) {
    sound = sound && (finding.state == "ok" || !finding.needed);
    out->json_line(
        nlohmann::ordered_json(
            {{"what", finding.what}, {"state", finding.state}, {"detail", finding.detail}})
            .dump());
    table.row({finding.what, finding.state, finding.detail});
  }
  out->text(table.str());
  RT_RETURN_IF_ERROR(out->close());
  return sound ? 0 : 1;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  auto json_path = std::make_shared<std::string>();
  CLI::App* verb = app.add_subcommand(
      "doctor", "say which devices, compilers and libraries were found, and why not");
  verb->add_option("--json", *json_path, kJsonHelp);
  verb->callback([json_path, &action] { action = [json_path] { return run(*json_path); }; });
}

}  // namespace rooftile::cli
