# SPDX-License-Identifier: Apache-2.0
# spectralclip_use_eigen(target scope): Eigen for the files of this tree, under a name of our own.
#
# Eigen is headers only: whoever includes it compiles its functions, as weak symbols, with their own flags. Two copies
# compiled differently (SSE here, AVX at a user's: Eigen then aligns and frees memory differently) meet in the linker,
# which keeps one for both: heap corruption. So here the namespace `Eigen` is spelt spectralclip_eigen by the
# preprocessor, in every file alike, and no symbol of ours can be merged with anybody's (tests/symbols holds it).
# The include path, not Eigen's target: the export set needs no Eigen.
find_package(Eigen3 3.4 REQUIRED NO_MODULE)

function(spectralclip_use_eigen target scope)
  target_include_directories(${target} SYSTEM ${scope} "$<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>")
  target_compile_definitions(${target} ${scope} Eigen=spectralclip_eigen EIGEN_DONT_PARALLELIZE)
endfunction()
