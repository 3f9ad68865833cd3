# SPDX-License-Identifier: Apache-2.0
# Google Highway as target hwy::hwy: its own package configuration where the distribution ships one, pkg-config
# otherwise. Installed beside spectralclipConfig.cmake, which needs the same search for a static library.
find_package(hwy CONFIG QUIET)
if(NOT TARGET hwy::hwy)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(spectralclip_hwy QUIET IMPORTED_TARGET GLOBAL libhwy)
    if(TARGET PkgConfig::spectralclip_hwy)
      add_library(hwy::hwy INTERFACE IMPORTED)
      target_link_libraries(hwy::hwy INTERFACE PkgConfig::spectralclip_hwy)
    endif()
  endif()
endif()

if(TARGET hwy::hwy)
  set(Highway_TARGET hwy::hwy)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highway REQUIRED_VARS Highway_TARGET
  REASON_FAILURE_MESSAGE "install libhwy-dev, or configure with -DSPECTRALCLIP_SIMD=OFF")
