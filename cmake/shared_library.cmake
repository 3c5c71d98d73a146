# SPDX-License-Identifier: Apache-2.0
# librooftile.so: every operator as a TVM-FFI function, for Python and whatever else loads C functions, and the Python
# package around it.
#
#   cmake --install build --component python --prefix DIR     # DIR/rooftile: import it from there
file(GLOB_RECURSE ROOFTILE_BIND_SOURCES CONFIGURE_DEPENDS rooftile/bind/*.cc)
list(FILTER ROOFTILE_BIND_SOURCES EXCLUDE REGEX "${ROOFTILE_TEST_CODE}")
add_library(rooftile_shared SHARED ${ROOFTILE_BIND_SOURCES} ${ROOFTILE_OP_EXPORTS})
target_link_libraries(rooftile_shared PRIVATE rooftile_lib)
add_dependencies(rooftile_shared rooftile_version)
target_compile_options(rooftile_shared PRIVATE $<$<CONFIG:RelWithDebInfo>:-O2>)  # a call counts in nanoseconds
set_target_properties(rooftile_shared PROPERTIES OUTPUT_NAME rooftile BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN")
# Nothing but the foreign functions is visible, so that two of these, or another fmt in the process, never meet; what the
# operators do not use (the libraries that benchmarks compare with) is not asked for; and nothing is left to be found.
set(ROOFTILE_EXPORT_MAP ${CMAKE_SOURCE_DIR}/cmake/exports.map)
target_link_options(rooftile_shared PRIVATE -Wl,--version-script=${ROOFTILE_EXPORT_MAP} -Wl,--as-needed)
if(NOT ROOFTILE_SANITIZE)  # whose functions come with the program that loads the library
  target_link_options(rooftile_shared PRIVATE -Wl,-z,defs)
endif()
set_target_properties(rooftile_shared PROPERTIES LINK_DEPENDS ${ROOFTILE_EXPORT_MAP})
# fmt comes along: where the library is carried to there may be none.
find_package(fmt REQUIRED)
add_custom_command(TARGET rooftile_shared POST_BUILD COMMAND ${CMAKE_COMMAND} -E copy_if_different
  $<TARGET_FILE:fmt::fmt> ${CMAKE_BINARY_DIR}/$<TARGET_SONAME_FILE_NAME:fmt::fmt>)

install(TARGETS rooftile_shared LIBRARY DESTINATION rooftile COMPONENT python)
install(FILES $<TARGET_FILE:fmt::fmt> RENAME $<TARGET_SONAME_FILE_NAME:fmt::fmt> DESTINATION rooftile COMPONENT python)
install(DIRECTORY python/rooftile DESTINATION . COMPONENT python FILES_MATCHING PATTERN "*.py" PATTERN "py.typed")
