# SPDX-License-Identifier: Apache-2.0
# The compile flags of every target of this tree, set per target so that nothing leaks into a host project.
# No fast-math (NaN is tested for), no -march=native (dispatch is at run time), no implicit contraction (kernels
# write their fused multiply-adds out, so that results do not depend on the compiler).

if(SPECTRALCLIP_BUILD_FUZZERS AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "SPECTRALCLIP_BUILD_FUZZERS needs clang, not ${CMAKE_CXX_COMPILER_ID}")
endif()

# UndefinedBehaviorSanitizer checks every pointer that Eigen follows, which more than doubles the time to compile a dense
# factorisation (165 s instead of 77 s, g++ 12 -O1). Those files keep all other checks, AddressSanitizer included.
set(SPECTRALCLIP_EIGEN_OPTIONS "")
if(SPECTRALCLIP_SANITIZE MATCHES "undefined" OR SPECTRALCLIP_BUILD_FUZZERS)
  set(SPECTRALCLIP_EIGEN_OPTIONS -fno-sanitize=null,alignment,object-size,pointer-overflow,vptr)
endif()

# TEST: a program of the tests. UndefinedBehaviorSanitizer watches the library alone; in the tests it would double the
# time that Eigen takes to compile.
function(spectralclip_set_flags target)
  cmake_parse_arguments(PARSE_ARGV 1 flags "TEST" "" "")
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false alarms on "text" + std::string, GCC bug 105651
  endif()
  if(SPECTRALCLIP_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  set(sanitizers ${SPECTRALCLIP_SANITIZE})
  if(SPECTRALCLIP_BUILD_FUZZERS)
    set(sanitizers "fuzzer-no-link,address,undefined")
  endif()
  if(sanitizers)
    set(compiled ${sanitizers})
    if(flags_TEST)
      string(REPLACE ",undefined" "" compiled "${sanitizers}")
    endif()
    target_compile_options(${target} PRIVATE -fsanitize=${compiled} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${sanitizers})
  endif()
endfunction()

# Most of the time of a small file goes into the headers it includes: torch's, Eigen's, nlohmann's. `size` neighbours are
# compiled as one (a file that is changed takes its neighbours along). Not for the kernels, which include themselves once for
# every instruction set. clang-tidy wants files one by one: SPECTRALCLIP_UNITY=OFF.
function(spectralclip_compile_together target size)
  if(SPECTRALCLIP_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # takes the files for headers, where a nameless namespace would be a mistake
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()
