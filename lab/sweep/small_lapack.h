// SPDX-License-Identifier: Apache-2.0
// The eleven BLAS and LAPACK routines that the global search of dlib calls, on matrices of at most a few dozen rows.
//
// Debian builds dlib against a BLAS. Linking one into a program that also holds LibTorch is asking for trouble: its MKL
// exports sgemm_ and its like, and whichever library the loader finds first serves both. So the archive libdlib.a is
// linked instead of the shared library, and what it misses is defined here with hidden visibility: nobody else sees
// it, and no library is added to the program.
#pragma once

namespace spectralclip::lab {

// Does nothing. Called so that a linker which reads archives from left to right takes these routines before it comes to
// libdlib.a, which asks for them.
void link_small_lapack() noexcept;

}  // namespace spectralclip::lab
