# SPDX-License-Identifier: Apache-2.0
# Half of the time to compile a file of this project goes into headers of the standard library, fmt and GoogleTest: they are compiled
# once a target. Not where ccache is used: it then finds nothing.
set(ROOFTILE_PCH_DEFAULT ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(ROOFTILE_PCH_DEFAULT OFF)
endif()
option(ROOFTILE_PCH "precompile the standard headers" ${ROOFTILE_PCH_DEFAULT})

set(ROOFTILE_PCH_HEADERS <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <fstream> <functional>
  <limits> <map> <memory> <mutex> <numeric> <optional> <set> <sstream> <string> <string_view> <utility> <vector>
  <fmt/format.h>)

# precompile(TARGET [HEADER...]): these besides the standard ones.
function(rooftile_precompile target)
  if(ROOFTILE_PCH)
    target_precompile_headers(${target} PRIVATE ${ROOFTILE_PCH_HEADERS} ${ARGN})
  endif()
endfunction()
# g++ 12 warns of its own std::string where that is inlined from a precompiled header, which is no system header any more.
set(ROOFTILE_PCH_FALSE_ALARMS -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
