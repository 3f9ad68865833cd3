# SPDX-License-Identifier: Apache-2.0
# What a shared library or module of this tree shows to others. Visibility hides our own functions (export.h); the C++
# library's templates, which g++ shows whatever one says, only the linker can hide.
#
#   spectralclip_export(target public)    sclip_* and what export.h marks
#   spectralclip_export(target nothing)   a module that registers itself (the operators of the Python package)
include(CheckLinkerFlag)
set(SPECTRALCLIP_SYMBOLS_DIR "${CMAKE_CURRENT_LIST_DIR}/symbols")
check_linker_flag(CXX "-Wl,--version-script=${SPECTRALCLIP_SYMBOLS_DIR}/nothing.map" SPECTRALCLIP_HAS_VERSION_SCRIPTS)

function(spectralclip_export target which)
  if(SPECTRALCLIP_HAS_VERSION_SCRIPTS)
    set(map "${SPECTRALCLIP_SYMBOLS_DIR}/${which}.map")
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL "STATIC_LIBRARY")
      target_link_options(${target} PRIVATE "-Wl,--version-script=${map}")
      set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
    endif()
  endif()
endfunction()
