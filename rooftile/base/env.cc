// SPDX-License-Identifier: Apache-2.0
#include "rooftile/base/env.h"

#include <cstdlib>

namespace rooftile {

const std::vector<EnvVarInfo>& env_vars() {
  static const std::vector<EnvVarInfo> table = {
#define RT_ROW(id, name, doc) {EnvVar::id, name, doc},
      RT_ENV_VARS(RT_ROW)
#undef RT_ROW
  };
  return table;
}

std::string_view env_name(EnvVar id) { return env_vars()[static_cast<size_t>(id)].name; }

std::optional<std::string> env_value(EnvVar id) {
  const char* value = std::getenv(env_name(id).data());  // names are literals, so they end in NUL
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

bool env_flag(EnvVar id) {
  std::optional<std::string> value = env_value(id);
  return value.has_value() && *value != "0";
}

}  // namespace rooftile
