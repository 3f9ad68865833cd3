// SPDX-License-Identifier: Apache-2.0
// Plain loops for what is a loop, the library's own factorisations for the two others. Arguments are as in the
// standards: cblas_* of the CBLAS (row- or column-major), the others of LAPACK (column-major, all by pointer, int is 32
// bits).
#include "sweep/small_lapack.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "factor/dense_svd.h"
#include "factor/small_eigen.h"

namespace {

constexpr int kRowMajor = 101;
constexpr int kNoTrans = 111;
constexpr int kLower = 122;
constexpr int kUnit = 132;
constexpr int kLeft = 141;

using Index = std::ptrdiff_t;
using Matrix = Eigen::MatrixXd;
using Window = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;

// op(A)(i, j) at data[i * down + j * across].
struct Strides {
  Index down;
  Index across;
};
Strides strides(int order, bool transposed, int leading) {
  return (order == kRowMajor) != transposed ? Strides{leading, 1} : Strides{1, leading};
}

// First element of a BLAS vector: a negative increment runs backwards from the far end.
template <class T>
T* first(T* x, int n, int increment) {
  return increment < 0 ? x + Index{1 - n} * increment : x;
}

// T x = b in place, T lower (from the top) or upper (from the bottom) triangular.
void substitute(bool lower, bool unit, int n, const double* t, Strides st, double* b, Index step) {
  for (int k = 0; k < n; ++k) {
    const Index i = lower ? k : n - 1 - k;
    double sum = b[i * step];
    for (int l = 0; l < k; ++l) {
      const Index j = lower ? l : n - 1 - l;
      sum -= t[i * st.down + j * st.across] * b[j * step];
    }
    b[i * step] = unit ? sum : sum / t[i * (st.down + st.across)];
  }
}

// A = L L^T over the lower triangle at a[i * down + j * across], band of `width` subdiagonals; 0 or the order of the
// first minor that is not positive.
int cholesky(int n, int width, double* a, Index down, Index across) {
  for (Index j = 0; j < n; ++j) {
    const Index from = std::max<Index>(0, j - width);
    double pivot = a[j * down + j * across];
    for (Index k = from; k < j; ++k) pivot -= a[j * down + k * across] * a[j * down + k * across];
    if (!(pivot > 0.0)) return static_cast<int>(j) + 1;
    pivot = std::sqrt(pivot);
    a[j * down + j * across] = pivot;
    for (Index i = j + 1; i <= std::min<Index>(n - 1, j + width); ++i) {
      double sum = a[i * down + j * across];
      for (Index k = std::max<Index>(0, i - width); k < j; ++k)
        sum -= a[i * down + k * across] * a[j * down + k * across];
      a[i * down + j * across] = sum / pivot;
    }
  }
  return 0;
}

}  // namespace

#define SPECTRALCLIP_HIDDEN __attribute__((visibility("hidden")))
// NOLINTBEGIN(readability-identifier-naming): the names are those of the standards
extern "C" {

SPECTRALCLIP_HIDDEN void cblas_daxpy(int n, double alpha, const double* x, int incx, double* y, int incy) {
  x = first(x, n, incx);
  y = first(y, n, incy);
  for (Index i = 0; i < n; ++i) y[i * incy] += alpha * x[i * incx];
}

SPECTRALCLIP_HIDDEN double cblas_ddot(int n, const double* x, int incx, const double* y, int incy) {
  x = first(x, n, incx);
  y = first(y, n, incy);
  double sum = 0.0;
  for (Index i = 0; i < n; ++i) sum += x[i * incx] * y[i * incy];
  return sum;
}

SPECTRALCLIP_HIDDEN void cblas_dscal(int n, double alpha, double* x, int incx) {
  for (Index i = 0; i < n; ++i) x[i * incx] *= alpha;
}

SPECTRALCLIP_HIDDEN void cblas_dgemm(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                                     const double* a, int lda, const double* b, int ldb, double beta, double* c,
                                     int ldc) {
  const Strides sa = strides(order, trans_a != kNoTrans, lda);
  const Strides sb = strides(order, trans_b != kNoTrans, ldb);
  const Strides sc = strides(order, false, ldc);
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      double sum = 0.0;
      for (Index l = 0; l < k; ++l) sum += a[i * sa.down + l * sa.across] * b[l * sb.down + j * sb.across];
      double& out = c[i * sc.down + j * sc.across];
      out = alpha * sum + (beta == 0.0 ? 0.0 : beta * out);  // beta = 0: what is there may be NaN
    }
  }
}

// A is m x n; y has m entries, or n when A is transposed.
SPECTRALCLIP_HIDDEN void cblas_dgemv(int order, int trans_a, int m, int n, double alpha, const double* a, int lda,
                                     const double* x, int incx, double beta, double* y, int incy) {
  const bool transposed = trans_a != kNoTrans;
  const int rows = transposed ? n : m;
  const int cols = transposed ? m : n;
  const Strides sa = strides(order, transposed, lda);
  x = first(x, cols, incx);
  y = first(y, rows, incy);
  for (Index i = 0; i < rows; ++i) {
    double sum = 0.0;
    for (Index j = 0; j < cols; ++j) sum += a[i * sa.down + j * sa.across] * x[j * incx];
    y[i * incy] = alpha * sum + (beta == 0.0 ? 0.0 : beta * y[i * incy]);
  }
}

// op(A) X = alpha B, or X op(A) = alpha B: the transpose of the former, row by row.
SPECTRALCLIP_HIDDEN void cblas_dtrsm(int order, int side, int uplo, int trans_a, int diag, int m, int n, double alpha,
                                     const double* a, int lda, double* b, int ldb) {
  const Strides sb = strides(order, false, ldb);
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) b[i * sb.down + j * sb.across] *= alpha;
  const bool left = side == kLeft;
  const bool transposed = (trans_a != kNoTrans) == left;
  const Strides sa = strides(order, transposed, lda);
  const bool lower = (uplo == kLower) != transposed;
  for (Index i = 0; i < (left ? n : m); ++i) {
    substitute(lower, diag == kUnit, left ? m : n, a, sa, b + i * (left ? sb.across : sb.down),
               left ? sb.down : sb.across);
  }
}

SPECTRALCLIP_HIDDEN void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info) {
  Window lu(a, *m, *n, Eigen::OuterStride<>(*lda));
  *info = 0;
  for (Index k = 0; k < std::min(*m, *n); ++k) {
    Index row = k;
    lu.col(k).tail(*m - k).cwiseAbs().maxCoeff(&row);
    row += k;
    pivots[k] = static_cast<int>(row) + 1;
    lu.row(k).swap(lu.row(row));
    if (lu(k, k) == 0.0) {
      if (*info == 0) *info = static_cast<int>(k) + 1;
      continue;
    }
    for (Index i = k + 1; i < *m; ++i) {
      lu(i, k) /= lu(k, k);
      for (Index j = k + 1; j < *n; ++j) lu(i, j) -= lu(i, k) * lu(k, j);
    }
  }
}

SPECTRALCLIP_HIDDEN void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info) {
  const bool lower = *uplo == 'L';
  *info = cholesky(*n, *n, a, lower ? 1 : *lda, lower ? *lda : 1);
}

// Band storage, lower: A(i, j) at ab[(i - j) + j * ldab]; upper: A(j, i) at ab[kd + (j - i) + i * ldab].
SPECTRALCLIP_HIDDEN void dpbtrf_(const char* uplo, const int* n, const int* kd, double* ab, const int* ldab,
                                 int* info) {
  const bool lower = *uplo == 'L';
  *info = lower ? cholesky(*n, *kd, ab, 1, *ldab - 1) : cholesky(*n, *kd, ab + *kd, *ldab - 1, 1);
}

// Thin factors only: 'A' on a side of more than min(m, n) vectors and overwriting the input ('O') give info = -1.
SPECTRALCLIP_HIDDEN void dgesvd_(const char* job_u, const char* job_vt, const int* m, const int* n, double* a,
                                 const int* lda, double* s, double* u, const int* ldu, double* vt, const int* ldvt,
                                 double* work, const int* lwork, int* info) {
  const int rank = std::min(*m, *n);
  const auto offered = [rank](char job, int size) { return job == 'N' || job == 'S' || (job == 'A' && size == rank); };
  *info = offered(*job_u, *m) && offered(*job_vt, *n) ? 0 : -1;
  if (*lwork == -1) work[0] = 1.0;  // a query; the factorisation has its own workspace
  if (*lwork == -1 || *info != 0) return;
  const Window A(a, *m, *n, Eigen::OuterStride<>(*lda));
  const double largest = A.cwiseAbs().maxCoeff();
  const double scale = largest > 0.0 && std::isfinite(largest) ? largest : 1.0;
  const spectralclip::factor::DenseSvd svd = spectralclip::factor::dense_svd(A / scale);
  if (!svd.converged) *info = 1;
  for (Index i = 0; i < rank; ++i) s[i] = scale * svd.sigma(i);
  if (*job_u != 'N') Window(u, *m, rank, Eigen::OuterStride<>(*ldu)) = svd.U;
  if (*job_vt != 'N') Window(vt, rank, *n, Eigen::OuterStride<>(*ldvt)) = svd.V.transpose();
}

// All eigenvalues, ascending; a part of them (range 'V', 'I') is not offered: info = -2.
SPECTRALCLIP_HIDDEN void dsyevr_(const char* job_z, const char* range, const char* uplo, const int* n, double* a,
                                 const int* lda, const double* /*vl*/, const double* /*vu*/, const int* /*il*/,
                                 const int* /*iu*/, const double* /*abstol*/, int* found, double* w, double* z,
                                 const int* ldz, int* support, double* work, const int* lwork, int* iwork,
                                 const int* liwork, int* info) {
  *info = *range == 'A' ? 0 : -2;
  if (*lwork == -1) work[0] = 1.0;
  if (*liwork == -1) iwork[0] = 1;
  if (*lwork == -1 || *liwork == -1 || *info != 0) return;
  const Window A(a, *n, *n, Eigen::OuterStride<>(*lda));
  Matrix full = *uplo == 'L' ? Matrix(A.selfadjointView<Eigen::Lower>()) : Matrix(A.selfadjointView<Eigen::Upper>());
  Matrix vectors(*n, *n);  // column i: of the i-th largest eigenvalue
  Eigen::VectorXd values(*n);
  Eigen::VectorXd room(2 * *n);
  spectralclip::symmetric_eigen(full.data(), *n, values.data(), vectors.data(), room.data());
  *found = *n;
  for (Index i = 0; i < *n; ++i) {
    w[i] = values(*n - 1 - i);
    if (*job_z != 'V') continue;
    Window(z, *n, *n, Eigen::OuterStride<>(*ldz)).col(i) = vectors.col(*n - 1 - i);
    support[2 * i] = 1;
    support[2 * i + 1] = *n;
  }
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

namespace spectralclip::lab {

void link_small_lapack() noexcept {}

}  // namespace spectralclip::lab
