# SPDX-License-Identifier: Apache-2.0
# The generated typed interface, the examples (each a test) and the benchmark of host code.
add_executable(write_ops_header tools/write_ops_header.cc)
target_link_libraries(write_ops_header PRIVATE rooftile_lib)

set(ROOFTILE_OPS_HEADER ${CMAKE_BINARY_DIR}/generated/rooftile/ops.h)
add_custom_command(OUTPUT ${ROOFTILE_OPS_HEADER}.stamp
  BYPRODUCTS ${ROOFTILE_OPS_HEADER}
  COMMAND write_ops_header ${ROOFTILE_OPS_HEADER}
  COMMAND ${CMAKE_COMMAND} -E touch ${ROOFTILE_OPS_HEADER}.stamp
  DEPENDS write_ops_header
  COMMENT "Writing rooftile/ops.h")
add_custom_target(ops_header DEPENDS ${ROOFTILE_OPS_HEADER}.stamp)

# What a user's program links: the library and rooftile/ops.h.
add_library(rooftile_api INTERFACE)
target_link_libraries(rooftile_api INTERFACE rooftile_lib)
add_dependencies(rooftile_api ops_header)

foreach(example IN ITEMS hello_rms_norm own_op)
  add_executable(${example} examples/${example}.cc)
  target_link_libraries(${example} PRIVATE rooftile_api)
  add_dependencies(${example} ops_header)
  if(ROOFTILE_TESTS)
    add_test(NAME examples.${example} COMMAND ${example})
    set_tests_properties(examples.${example} PROPERTIES TIMEOUT 120)
  endif()
endforeach()

if(TARGET rooftile_tests)
  add_dependencies(rooftile_tests ops_header)
endif()

find_package(benchmark QUIET)
if(benchmark_FOUND)
  add_executable(launcher_bench bench/host/launcher_bench.cc)
  target_link_libraries(launcher_bench PRIVATE rooftile_api benchmark::benchmark)
  add_dependencies(launcher_bench ops_header)
endif()

add_executable(first_call_bench bench/host/first_call_bench.cc)
target_link_libraries(first_call_bench PRIVATE rooftile_lib)
rooftile_carried(first_call_bench)

add_executable(cuda_launch_bench bench/host/cuda_launch_bench.cc)
target_link_libraries(cuda_launch_bench PRIVATE rooftile_lib)
target_compile_options(cuda_launch_bench PRIVATE -O2)
rooftile_carried(cuda_launch_bench)
if(TARGET rooftile_stub_driver)
  target_compile_definitions(cuda_launch_bench PRIVATE
    ROOFTILE_STUB_DRIVER="$<TARGET_FILE:rooftile_stub_driver>")
  add_dependencies(cuda_launch_bench rooftile_stub_driver)
elseif(NOT ROOFTILE_CPU_PEERS)
  # The runtime's tests against a real driver, to be carried to a machine with a GPU.
  find_package(GTest QUIET)
  if(GTest_FOUND)
    add_executable(gpu_runtime_tests EXCLUDE_FROM_ALL rooftile/runtime/cuda/gpu_test.cc)
    target_link_libraries(gpu_runtime_tests PRIVATE rooftile_lib GTest::gmock GTest::gtest_main)
    rooftile_carried(gpu_runtime_tests)
  endif()
endif()

# The library and the same kernels from Python, through the real TVM-FFI; skipped where it is not installed. `./dev build`
# installs it into a folder of its own.
find_package(Python3 COMPONENTS Interpreter QUIET)
set(ROOFTILE_PYTHON_SITE "" CACHE PATH "a folder of Python packages for the tests: apache-tvm-ffi, numpy")
if(ROOFTILE_TESTS AND Python3_FOUND AND NOT ROOFTILE_SANITIZE)  # Python itself is not instrumented
  add_executable(export_kernel examples/export_kernel.cc)
  target_link_libraries(export_kernel PRIVATE rooftile_lib)
  add_test(NAME python.launcher COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/ffi/tvm_ffi_test.py
    $<TARGET_FILE:export_kernel>)
  add_test(NAME python.library COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/python/rooftile_test.py)
  add_test(NAME python.peers COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/python/peers_test.py
    $<TARGET_FILE:rooftile>)
  set_tests_properties(python.launcher python.library python.peers PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120
    ENVIRONMENT "PYTHONPATH=${ROOFTILE_PYTHON_SITE};PYTHONDONTWRITEBYTECODE=1;ROOFTILE_LIBRARY=$<TARGET_FILE:rooftile_shared>")
endif()
