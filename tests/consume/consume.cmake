# SPDX-License-Identifier: Apache-2.0
# Configures, builds and runs tests/consume/${WAY} from scratch, as a user would; fails with the first command that does.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
if(WAY STREQUAL "find_package")
  run("${CMAKE_COMMAND}" --install "${LIBRARY_BUILD}" --prefix "${SCRATCH}/prefix")
  set(where "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix")
else()
  # The same flags as the outer build, so that ccache already has the objects of the library.
  set(where "-DSPECTRALCLIP_SOURCE=${LIBRARY_SOURCE}" "-DSPECTRALCLIP_SIMD=${SIMD}" "-DSPECTRALCLIP_WERROR=${WERROR}")
endif()

run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/${WAY}" -B "${SCRATCH}/build" -G "${GENERATOR}"
    "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
    "-DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}"
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=${FLAGS}" ${where})
run("${CMAKE_COMMAND}" --build "${SCRATCH}/build")

# diag(3, 4) under tau = 2 has sigma_max 4, and what is left has singular values 2 and 2.
execute_process(COMMAND "${SCRATCH}/build/consume" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
message("${printed}")
if(NOT printed MATCHES "sigma_max 4\\.000 clipped 2 left 2\\.000 2\\.000")
  message(FATAL_ERROR "unexpected output")
endif()
