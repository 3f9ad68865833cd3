# SPDX-License-Identifier: Apache-2.0
# Configures, builds and runs an outside project from scratch, as a user would; fails with the first command that does.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
set(build "${SCRATCH}/build")
set(project "${CMAKE_CURRENT_LIST_DIR}/${WAY}")
set(program consume)
# diag(3, 4) under tau = 2 has sigma_max 4, and what is left has singular values 2 and 2.
set(expected "sigma_max 4\\.000 clipped 2 left 2\\.000 2\\.000")
if(WAY STREQUAL "add_subdirectory")
  # The same flags as the outer build, and a folder as deep (ccache writes paths relative to it): so ccache has the
  # library's objects already.
  set(build "${LIBRARY_BUILD}-${WAY}")
  file(REMOVE_RECURSE "${build}")
  set(where "-DSPECTRALCLIP_SOURCE=${LIBRARY_SOURCE}" "-DSPECTRALCLIP_SIMD=${SIMD}" "-DSPECTRALCLIP_WERROR=${WERROR}")
else()
  run("${CMAKE_COMMAND}" --install "${LIBRARY_BUILD}" --prefix "${SCRATCH}/prefix")
  set(where "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix")
endif()
set(configure "${CMAKE_COMMAND}" -G "${GENERATOR}"
    "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
    "-DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=${FLAGS}" ${where})

if(WAY STREQUAL "torch")
  set(project "${LIBRARY_SOURCE}/examples/libtorch_train")
  set(program libtorch_train)
  set(expected "0\\.weight +64 x 2 .*the spikes were clipped and the loss fell")
  # Without LibTorch the package says what is missing and how to get it.
  execute_process(COMMAND ${configure} -S "${project}" -B "${SCRATCH}/without" "-DTorch_DIR=${SCRATCH}/nowhere"
                  RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(NOT failed OR NOT said MATCHES "LibTorch was not found.*give -DTorch_DIR=")
    message(FATAL_ERROR "without LibTorch: ${said}")
  endif()
  list(APPEND configure "-DTorch_DIR=${TORCH_DIR}")
endif()

function(expect_right program)
  execute_process(COMMAND "${program}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  message("${program}: ${printed}")
  if(NOT printed MATCHES "${expected}")
    message(FATAL_ERROR "unexpected output")
  endif()
endfunction()

run(${configure} -S "${project}" -B "${build}")
run("${CMAKE_COMMAND}" --build "${build}")
expect_right("${build}/${program}")

# The installed library from C: a project in C alone, and pkg-config, for a program with shared and with static libraries.
if(WAY STREQUAL "find_package")
  run(${configure} -S "${project}_c" -B "${SCRATCH}/build_c")
  run("${CMAKE_COMMAND}" --build "${SCRATCH}/build_c")
  expect_right("${SCRATCH}/build_c/consume")
  find_program(PKG_CONFIG NAMES pkg-config pkgconf)
  file(GLOB_RECURSE pc "${SCRATCH}/prefix/*/spectralclip.pc")
  if(NOT PKG_CONFIG)
    message("pkg-config: skipped, because it is not installed")
    return()
  endif()
  execute_process(COMMAND "${PKG_CONFIG}" --cflags --libs "${pc}" OUTPUT_VARIABLE words COMMAND_ERROR_IS_FATAL ANY
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  message("pkg-config: ${words}")
  if(words MATCHES "hwy|HWY|eigen")
    message(FATAL_ERROR "pkg-config speaks of what is private: ${words}")
  endif()
  separate_arguments(words UNIX_COMMAND "${words}")
  foreach(mode "" -static)
    run("${C_COMPILER}" ${mode} -std=c11 -Wall -Wextra -Werror "${CMAKE_CURRENT_LIST_DIR}/main.c" ${words} -lm
        -o "${SCRATCH}/by_pkg_config${mode}")
    expect_right("${SCRATCH}/by_pkg_config${mode}")
  endforeach()
endif()
