# SPDX-License-Identifier: Apache-2.0
# Libraries of headers, Eigen and Highway, for the files of this tree under names of our own:
#
#   spectralclip_use_eigen(target scope)      spectralclip_use_highway(target scope)
#
# Whoever includes such a library compiles its functions, as weak symbols, with their own flags. Two copies compiled
# differently (SSE here, AVX at a user's: Eigen then aligns and frees memory differently) meet in the linker, which keeps
# one for both: heap corruption. So here the preprocessor spells their namespaces spectralclip_eigen and spectralclip_hwy,
# in every file alike, and no symbol of ours can be merged with anybody's (tools/check_symbols.py holds it).
# Their include paths, not their targets: nobody who links us needs them.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)

function(spectralclip_use_eigen target scope)
  target_include_directories(${target} SYSTEM ${scope} "$<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>")
  target_compile_definitions(${target} ${scope} Eigen=spectralclip_eigen EIGEN_DONT_PARALLELIZE)
endfunction()

# Highway's own library is not linked: src/kernels/processor.cpp has the little that dispatch needs of it.
if(SPECTRALCLIP_SIMD)
  find_package(Highway REQUIRED MODULE)
endif()

function(spectralclip_use_highway target scope)
  if(SPECTRALCLIP_SIMD)
    target_include_directories(${target} SYSTEM ${scope} "$<TARGET_PROPERTY:hwy::hwy,INTERFACE_INCLUDE_DIRECTORIES>")
    target_compile_definitions(${target} ${scope} hwy=spectralclip_hwy)
    if(SPECTRALCLIP_SANITIZE)
      target_compile_definitions(${target} ${scope} SPECTRALCLIP_FEW_TARGETS=1)
    endif()
  else()
    target_compile_definitions(${target} ${scope} SPECTRALCLIP_NO_SIMD=1)
  endif()
endfunction()
