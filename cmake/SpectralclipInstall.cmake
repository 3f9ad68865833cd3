# SPDX-License-Identifier: Apache-2.0
# Headers, library, CMake package and pkg-config file; the prefix may be moved after the installation.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/spectralclip")
install(TARGETS spectralclip EXPORT spectralclipTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT spectralclipTargets NAMESPACE spectralclip:: DESTINATION "${package_dir}")

if(BUILD_SHARED_LIBS)  # ON or OFF, whatever spelling the user chose
  set(BUILD_SHARED_LIBS ON)
else()
  set(BUILD_SHARED_LIBS OFF)
endif()
# What a C program has to link beside a static library: CMake knows it only where the project speaks C++ too.
set(SPECTRALCLIP_CXX_RUNTIME ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_ITEM SPECTRALCLIP_CXX_RUNTIME ${CMAKE_C_IMPLICIT_LINK_LIBRARIES})
list(REMOVE_DUPLICATES SPECTRALCLIP_CXX_RUNTIME)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/spectralclipConfig.cmake.in" spectralclipConfig.cmake
                              INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(spectralclipConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/spectralclipConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/spectralclipConfigVersion.cmake"
        DESTINATION "${package_dir}")

# A static archive needs the C++ runtime and threads named by whoever links it, a C program above all; nothing else, for a
# fully static program (-static) as well. There is no shared library beside it, so `pkg-config --libs` says them too.
if(NOT BUILD_SHARED_LIBS)
  list(TRANSFORM SPECTRALCLIP_CXX_RUNTIME PREPEND "-l" OUTPUT_VARIABLE runtime)
  list(JOIN runtime " " runtime)
  set(SPECTRALCLIP_PC_LIBS " ${runtime} -pthread")
endif()
file(RELATIVE_PATH SPECTRALCLIP_PC_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" SPECTRALCLIP_PC_PREFIX "${SPECTRALCLIP_PC_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/spectralclip.pc.in" spectralclip.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/spectralclip.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
