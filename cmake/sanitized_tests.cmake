# SPDX-License-Identifier: Apache-2.0
# The suite over a library with address and undefined-behaviour checks, built beside the plain one from the same
# objects of the tests: half of what a whole build with sanitizers costs (the preset `asan`, which checks the tests'
# own code, too).
if(ROOFTILE_SANITIZE)
  return()
endif()
add_library(rooftile_sanitized_code OBJECT EXCLUDE_FROM_ALL ${ROOFTILE_SOURCES} ${ROOFTILE_OP_LIST}
  ${ROOFTILE_RAW_TEXTS})
target_link_libraries(rooftile_sanitized_code PRIVATE rooftile_flags fmt::fmt nlohmann_json::nlohmann_json
  OpenMP::OpenMP_CXX)
target_compile_options(rooftile_sanitized_code PRIVATE -O0 -g1 -fsanitize=address,undefined
  -fno-omit-frame-pointer -fno-sanitize-recover=all)
rooftile_precompile(rooftile_sanitized_code)
target_compile_options(rooftile_sanitized_code PRIVATE ${ROOFTILE_PCH_FALSE_ALARMS})
add_dependencies(rooftile_sanitized_code rooftile_version rooftile_prover_sources)
# The library's objects come first: of inline functions, the linker takes the copies with checks.
add_executable(rooftile_sanitized_tests EXCLUDE_FROM_ALL $<TARGET_OBJECTS:rooftile_sanitized_code>
  $<TARGET_OBJECTS:rooftile_test_code>)
target_link_libraries(rooftile_sanitized_tests PRIVATE fmt::fmt nlohmann_json::nlohmann_json OpenMP::OpenMP_CXX
  Threads::Threads ${CMAKE_DL_LIBS} ${ROOFTILE_PEER_LIBRARIES} ${ROOFTILE_SOLVER_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
target_link_options(rooftile_sanitized_tests PRIVATE -fsanitize=address,undefined)
set_target_properties(rooftile_sanitized_tests PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(rooftile_sanitized_tests rooftile_stub_driver rooftile_test_child)
