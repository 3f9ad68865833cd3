// SPDX-License-Identifier: Apache-2.0
// The routines that stand in for BLAS and LAPACK, against Eigen, in every layout that their signatures allow.
#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <vector>

#include "random/uniform.h"
#include "sweep/small_lapack.h"

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
void cblas_daxpy(int n, double alpha, const double* x, int incx, double* y, int incy);
double cblas_ddot(int n, const double* x, int incx, const double* y, int incy);
void cblas_dscal(int n, double alpha, double* x, int incx);
void cblas_dgemm(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double* a, int lda,
                 const double* b, int ldb, double beta, double* c, int ldc);
void cblas_dgemv(int order, int trans_a, int m, int n, double alpha, const double* a, int lda, const double* x,
                 int incx, double beta, double* y, int incy);
void cblas_dtrsm(int order, int side, int uplo, int trans_a, int diag, int m, int n, double alpha, const double* a,
                 int lda, double* b, int ldb);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info);
void dpbtrf_(const char* uplo, const int* n, const int* kd, double* ab, const int* ldab, int* info);
void dgesvd_(const char* job_u, const char* job_vt, const int* m, const int* n, double* a, const int* lda, double* s,
             double* u, const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork, int* info);
void dsyevr_(const char* job_z, const char* range, const char* uplo, const int* n, double* a, const int* lda,
             const double* vl, const double* vu, const int* il, const int* iu, const double* abstol, int* found,
             double* w, double* z, const int* ldz, int* support, double* work, const int* lwork, int* iwork,
             const int* liwork, int* info);
}
// NOLINTEND(readability-identifier-naming)

namespace spectralclip::lab {
namespace {

using Eigen::MatrixXd;
constexpr double kTolerance = 1e-12;  // entries of size 1, at most 7 of them in a sum, condition below 1e3

MatrixXd random_matrix(int rows, int cols, std::uint64_t id) {
  MatrixXd m(rows, cols);
  fill_uniform({.seed = 1, .matrix_id = id}, 0, m.data(), m.size());
  return m;
}

MatrixXd positive(int n) {
  const MatrixXd a = random_matrix(n, n, 5);
  return a * a.transpose() + MatrixXd::Identity(n, n);
}

// Storage with a leading dimension two larger than needed; order 101: row-major, 102: column-major.
struct Stored {
  std::vector<double> data;
  int leading;
};
Stored store(const MatrixXd& m, int order) {
  const MatrixXd columns = order == 101 ? MatrixXd(m.transpose()) : m;
  Stored stored{std::vector<double>(static_cast<std::size_t>((columns.rows() + 2) * columns.cols()), -7.0),
                static_cast<int>(columns.rows()) + 2};
  Eigen::Map<MatrixXd, 0, Eigen::OuterStride<>>(stored.data.data(), columns.rows(), columns.cols(),
                                                Eigen::OuterStride<>(stored.leading)) = columns;
  return stored;
}
MatrixXd load(const Stored& stored, Eigen::Index rows, Eigen::Index cols, int order) {
  if (order == 101) return load(stored, cols, rows, 102).transpose();
  return Eigen::Map<const MatrixXd, 0, Eigen::OuterStride<>>(stored.data.data(), rows, cols,
                                                             Eigen::OuterStride<>(stored.leading));
}

void expect_equal(const MatrixXd& a, const MatrixXd& b) {
  ASSERT_EQ(a.rows(), b.rows());
  ASSERT_EQ(a.cols(), b.cols());
  EXPECT_LT((a - b).cwiseAbs().maxCoeff(), kTolerance * (1 + b.cwiseAbs().maxCoeff()));
}

class SmallLapack : public ::testing::Test {
 protected:
  void SetUp() override { link_small_lapack(); }
};

TEST_F(SmallLapack, Vectors) {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6};
  std::vector<double> y = {1, 1, 1};
  EXPECT_EQ(cblas_ddot(3, x.data(), 2, y.data(), 1), 9);
  EXPECT_EQ(cblas_ddot(3, x.data(), -1, std::vector<double>{1, 10, 100}.data(), 1), 123);  // 3, 2, 1
  cblas_daxpy(3, 2.0, x.data(), 1, y.data(), 1);
  EXPECT_EQ(y, (std::vector<double>{3, 5, 7}));
  cblas_dscal(2, 10.0, y.data(), 2);
  EXPECT_EQ(y, (std::vector<double>{30, 5, 70}));
}

TEST_F(SmallLapack, Products) {
  const MatrixXd a = random_matrix(4, 3, 1);
  const MatrixXd b = random_matrix(3, 5, 2);
  const MatrixXd c = random_matrix(4, 5, 3);
  for (const int order : {101, 102}) {
    for (const int ta : {111, 112}) {
      const Stored sa = store(ta == 111 ? a : MatrixXd(a.transpose()), order);
      for (const int tb : {111, 112}) {
        const Stored sb = store(tb == 111 ? b : MatrixXd(b.transpose()), order);
        Stored sc = store(c, order);
        cblas_dgemm(order, ta, tb, 4, 5, 3, 2.0, sa.data.data(), sa.leading, sb.data.data(), sb.leading, 0.5,
                    sc.data.data(), sc.leading);
        expect_equal(load(sc, 4, 5, order), 2.0 * a * b + 0.5 * c);
      }
      MatrixXd y = MatrixXd::Constant(4, 1, NAN);  // beta = 0: not read
      const MatrixXd x = b.col(0);
      cblas_dgemv(order, ta, ta == 111 ? 4 : 3, ta == 111 ? 3 : 4, 2.0, sa.data.data(), sa.leading, x.data(), 1, 0.0,
                  y.data(), 1);
      expect_equal(y, 2.0 * a * x);
    }
  }
}

TEST_F(SmallLapack, TriangularSolvesOfAllKinds) {
  const MatrixXd b = random_matrix(4, 5, 7);
  for (int mask = 0; mask < 32; ++mask) {
    const auto pick = [mask](int bit, int one, int other) { return ((mask >> bit) & 1) != 0 ? one : other; };
    const int order = pick(0, 101, 102), side = pick(1, 141, 142), uplo = pick(2, 121, 122);
    const int trans = pick(3, 111, 112), diag = pick(4, 131, 132);
    const int n = side == 141 ? 4 : 5;
    const MatrixXd full =
        random_matrix(n, n, 8) + 4.0 * MatrixXd::Identity(n, n);  // the other triangle is not to be read
    MatrixXd t =
        uplo == 121 ? MatrixXd(full.triangularView<Eigen::Upper>()) : MatrixXd(full.triangularView<Eigen::Lower>());
    if (diag == 132) t.diagonal().setOnes();
    if (trans == 112) t.transposeInPlace();
    const Stored sa = store(full, order);
    Stored sb = store(b, order);
    cblas_dtrsm(order, side, uplo, trans, diag, 4, 5, 3.0, sa.data.data(), sa.leading, sb.data.data(), sb.leading);
    const MatrixXd x = load(sb, 4, 5, order);
    expect_equal(side == 141 ? MatrixXd(t * x) : MatrixXd(x * t), 3.0 * b);
  }
}

TEST_F(SmallLapack, LuWithPivots) {
  for (const auto& [m, n] : std::vector<std::pair<int, int>>{{5, 5}, {6, 4}, {4, 6}}) {
    const MatrixXd a = random_matrix(m, n, 9);
    Stored s = store(a, 102);
    std::vector<int> pivots(6);
    int info = -9;
    dgetrf_(&m, &n, s.data.data(), &s.leading, pivots.data(), &info);
    EXPECT_EQ(info, 0);
    const MatrixXd lu = load(s, m, n, 102);
    const int r = std::min(m, n);
    const MatrixXd l = lu.leftCols(r).triangularView<Eigen::UnitLower>();
    const MatrixXd u = lu.topRows(r).triangularView<Eigen::Upper>();
    MatrixXd permuted = a;
    for (int i = 0; i < r; ++i) permuted.row(i).swap(permuted.row(pivots[static_cast<std::size_t>(i)] - 1));
    expect_equal(l * u, permuted);
    EXPECT_LE(lu.triangularView<Eigen::StrictlyLower>().toDenseMatrix().cwiseAbs().maxCoeff(), 1.0);
  }
  const int n = 2;
  MatrixXd singular = MatrixXd::Zero(2, 2);
  std::vector<int> pivots(2);
  int info = 0;
  dgetrf_(&n, &n, singular.data(), &n, pivots.data(), &info);
  EXPECT_EQ(info, 1);
}

TEST_F(SmallLapack, CholeskyFullAndBanded) {
  const int n = 6;
  const int width = 2;
  const MatrixXd a = positive(n);
  for (const char uplo : {'L', 'U'}) {
    Stored s = store(a, 102);
    int info = -9;
    dpotrf_(&uplo, &n, s.data.data(), &s.leading, &info);
    EXPECT_EQ(info, 0);
    const MatrixXd factor = load(s, n, n, 102);
    const MatrixXd l = uplo == 'L' ? MatrixXd(factor.triangularView<Eigen::Lower>())
                                   : MatrixXd(factor.triangularView<Eigen::Upper>().toDenseMatrix().transpose());
    expect_equal(l * l.transpose(), a);

    MatrixXd band = a + 100.0 * MatrixXd::Identity(n, n);
    MatrixXd stored = MatrixXd::Constant(width + 1, n, -7.0);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        if (std::abs(i - j) > width) band(i, j) = 0.0;
        if (uplo == 'L' && i >= j && i - j <= width) stored(i - j, j) = band(i, j);
        if (uplo == 'U' && i <= j && j - i <= width) stored(width + i - j, j) = band(i, j);
      }
    }
    const int leading = width + 1;
    dpbtrf_(&uplo, &n, &width, stored.data(), &leading, &info);
    EXPECT_EQ(info, 0);
    MatrixXd lower = MatrixXd::Zero(n, n);
    for (int i = 0; i < n; ++i)
      for (int j = std::max(0, i - width); j <= i; ++j)
        lower(i, j) = uplo == 'L' ? stored(i - j, j) : stored(width + j - i, i);
    expect_equal(lower * lower.transpose(), band);
  }
  MatrixXd indefinite = MatrixXd::Identity(3, 3);
  indefinite(1, 1) = -1.0;
  const int three = 3;
  int info = 0;
  dpotrf_("L", &three, indefinite.data(), &three, &info);
  EXPECT_EQ(info, 2);
}

TEST_F(SmallLapack, SingularValuesAndEigenvalues) {
  const int m = 6;
  const int n = 4;
  const int lwork = 100;
  std::vector<double> work(100);
  int info = -9;
  const MatrixXd a = 1e-3 * random_matrix(m, n, 11);
  Stored s = store(a, 102);
  MatrixXd u(m, n);
  MatrixXd vt(n, n);
  Eigen::VectorXd sigma(n);
  dgesvd_("S", "A", &m, &n, s.data.data(), &s.leading, sigma.data(), u.data(), &m, vt.data(), &n, work.data(), &lwork,
          &info);
  EXPECT_EQ(info, 0);
  EXPECT_LT((u * sigma.asDiagonal() * vt - a).norm(), 1e-15);
  expect_equal(u.transpose() * u, MatrixXd::Identity(n, n));
  EXPECT_TRUE(std::is_sorted(sigma.data(), sigma.data() + n, std::greater<>()));
  dgesvd_("A", "A", &m, &n, s.data.data(), &s.leading, sigma.data(), u.data(), &m, vt.data(), &n, work.data(), &lwork,
          &info);
  EXPECT_EQ(info, -1);  // a basis of all six is not offered

  const MatrixXd symmetric = positive(5);
  for (const char uplo : {'L', 'U'}) {
    MatrixXd triangle = symmetric;
    if (uplo == 'L') triangle.triangularView<Eigen::StrictlyUpper>().setConstant(-7.0);
    if (uplo == 'U') triangle.triangularView<Eigen::StrictlyLower>().setConstant(-7.0);
    const int five = 5;
    const int none = 0;
    const double zero = 0.0;
    int found = 0;
    Eigen::VectorXd w(5);
    MatrixXd z(5, 5);
    std::vector<int> support(10);
    std::vector<int> iwork(100);
    dsyevr_("V", "A", &uplo, &five, triangle.data(), &five, &zero, &zero, &none, &none, &zero, &found, w.data(),
            z.data(), &five, support.data(), work.data(), &lwork, iwork.data(), &lwork, &info);
    EXPECT_EQ(info, 0);
    EXPECT_EQ(found, 5);
    EXPECT_TRUE(std::is_sorted(w.data(), w.data() + 5));
    expect_equal(z * w.asDiagonal() * z.transpose(), symmetric);
  }
}

}  // namespace
}  // namespace spectralclip::lab
