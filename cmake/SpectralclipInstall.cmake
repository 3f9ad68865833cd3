# SPDX-License-Identifier: Apache-2.0
# Headers, library, CMake package and pkg-config file; the prefix may be moved after the installation.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/spectralclip")
install(TARGETS spectralclip EXPORT spectralclipTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT spectralclipTargets NAMESPACE spectralclip:: DESTINATION "${package_dir}")

foreach(switch BUILD_SHARED_LIBS SPECTRALCLIP_SIMD)  # ON or OFF, whatever spelling the user chose
  if(${switch})
    set(${switch} ON)
  else()
    set(${switch} OFF)
  endif()
endforeach()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/spectralclipConfig.cmake.in" spectralclipConfig.cmake
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(spectralclipConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/spectralclipConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/spectralclipConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindHighway.cmake"
        DESTINATION "${package_dir}")

# A static archive needs the C++ runtime, threads and Highway named by whoever links it, a C program above all.
if(NOT BUILD_SHARED_LIBS)
  set(SPECTRALCLIP_PC_LIBS " -lstdc++ -lm -pthread")
  if(SPECTRALCLIP_SIMD)
    set(SPECTRALCLIP_PC_REQUIRES "Requires: libhwy")
  endif()
endif()
file(RELATIVE_PATH SPECTRALCLIP_PC_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" SPECTRALCLIP_PC_PREFIX "${SPECTRALCLIP_PC_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/spectralclip.pc.in" spectralclip.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/spectralclip.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
