// SPDX-License-Identifier: Apache-2.0
// The kernels of a build without Highway (SPECTRALCLIP_SIMD=OFF): every public function is its scalar twin.
#if SPECTRALCLIP_NO_SIMD
#include "kernels/apply_right.h"
#include "kernels/convert.h"
#include "kernels/fused_pass.h"
#include "kernels/norm.h"
#include "kernels/reference.h"
#include "kernels/small_products.h"

namespace spectralclip::kernels {

using std::int64_t;

double fused_pass(const FusedPass<float>& pass) { return reference::fused_pass(pass); }
double fused_pass(const FusedPass<double>& pass) { return reference::fused_pass(pass); }
double apply_right(const RightUpdate<float>& update) { return reference::apply_right(update); }
double apply_right(const RightUpdate<double>& update) { return reference::apply_right(update); }

template <class T>
int64_t fused_pass_scratch(int64_t k) noexcept {
  return padded(k);  // one row of W
}
template int64_t fused_pass_scratch<float>(int64_t) noexcept;
template int64_t fused_pass_scratch<double>(int64_t) noexcept;

double sum_of_squares(const float* x, int64_t n) { return reference::sum_of_squares(x, n); }
double sum_of_squares(const double* x, int64_t n) { return reference::sum_of_squares(x, n); }
void scale_inplace(float* x, int64_t n, float factor) { reference::scale_inplace(x, n, factor); }
void scale_inplace(double* x, int64_t n, double factor) { reference::scale_inplace(x, n, factor); }
double max_abs(const float* x, int64_t n) { return reference::max_abs(x, n); }
double max_abs(const double* x, int64_t n) { return reference::max_abs(x, n); }
const char* chosen_target() noexcept { return "scalar"; }

void gram_rows(const float* A, int64_t k, int64_t n, int64_t lda, double* K) { reference::gram_rows(A, k, n, lda, K); }
void gram_rows(const double* A, int64_t k, int64_t n, int64_t lda, double* K) { reference::gram_rows(A, k, n, lda, K); }
void cross_gram_rows(const float* A, int64_t ka, const float* B, int64_t kb, int64_t n, int64_t lda, double* K) {
  reference::cross_gram_rows(A, ka, B, kb, n, lda, K);
}
void cross_gram_rows(const double* A, int64_t ka, const double* B, int64_t kb, int64_t n, int64_t lda, double* K) {
  reference::cross_gram_rows(A, ka, B, kb, n, lda, K);
}
void combine_rows(const double* M, int64_t r, int64_t k, int64_t ldm, const float* A, int64_t n, int64_t lda,
                  float* out) {
  reference::combine_rows(M, r, k, ldm, A, n, lda, out);
}
void combine_rows(const double* M, int64_t r, int64_t k, int64_t ldm, const double* A, int64_t n, int64_t lda,
                  double* out) {
  reference::combine_rows(M, r, k, ldm, A, n, lda, out);
}
void add_inplace(float* y, const float* x, int64_t n) { reference::add_inplace(y, x, n); }
void add_inplace(double* y, const double* x, int64_t n) { reference::add_inplace(y, x, n); }

void convert(const BFloat16* from, float* to, int64_t n) { reference::convert(from, to, n); }
void convert(const Float16* from, float* to, int64_t n) { reference::convert(from, to, n); }
void convert(const float* from, BFloat16* to, int64_t n) { reference::convert(from, to, n); }
void convert(const float* from, Float16* to, int64_t n) { reference::convert(from, to, n); }

}  // namespace spectralclip::kernels
#endif
