# SPDX-License-Identifier: Apache-2.0
# LibTorch as target LibTorch::LibTorch: from Torch_DIR / CMAKE_PREFIX_PATH, or from the torch of the Python in PATH
# (pip's wheel ships the headers, the libraries and their CMake files). Its includes are system includes. Installed
# beside spectralclipConfig.cmake, which needs the same search.
if(NOT TARGET LibTorch::LibTorch)
  set(LibTorch_global_before "${CMAKE_FIND_PACKAGE_TARGETS_GLOBAL}")
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # one folder finds it, others link it
  if(NOT Torch_DIR AND NOT DEFINED ENV{Torch_DIR})
    find_package(Torch QUIET)
    if(NOT Torch_FOUND)
      find_package(Python3 QUIET COMPONENTS Interpreter)
    endif()
    if(NOT Torch_FOUND AND Python3_Interpreter_FOUND)
      execute_process(COMMAND "${Python3_EXECUTABLE}" -c "import torch; print(torch.utils.cmake_prefix_path, end='')"
                      OUTPUT_VARIABLE LibTorch_PREFIX ERROR_QUIET)
      if(LibTorch_PREFIX)
        set(Torch_DIR "${LibTorch_PREFIX}/Torch")
      endif()
    endif()
  endif()
  find_package(Torch QUIET)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL "${LibTorch_global_before}")
  if(TARGET torch)
    add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
    target_link_libraries(LibTorch::LibTorch INTERFACE ${TORCH_LIBRARIES})
    separate_arguments(LibTorch_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
    target_compile_options(LibTorch::LibTorch INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${LibTorch_FLAGS}>")
    target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  endif()
endif()

if(TARGET LibTorch::LibTorch)
  set(LibTorch_TARGET LibTorch::LibTorch)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_TARGET
  REASON_FAILURE_MESSAGE "pip install torch==2.13.0, or give -DTorch_DIR=<LibTorch>/share/cmake/Torch")
