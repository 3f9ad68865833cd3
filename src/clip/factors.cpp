// SPDX-License-Identifier: Apache-2.0
// A factor is a header, then its numbers: coefficients, then vectors one after another.
#include "clip/factors.h"

#include <cstring>
#include <limits>

#include "clip/entries.h"
#include "kernels/fused_pass.h"
#include "require.h"
#include "subspace/pass.h"

namespace spectralclip {
namespace {

enum Kind : std::uint32_t { right_vectors, side_of_columns, side_of_rows, scale, zero, all_entries, kKinds };

struct Header {
  std::uint32_t kind = 0;
  std::uint32_t type = 0;
  std::int64_t count = 0;   // directions
  std::int64_t length = 0;  // of each
  double number = 0;        // scale
};

struct Factor {
  Header header;
  const std::uint8_t* data = nullptr;
  template <class T>
  [[nodiscard]] std::vector<T> numbers(std::size_t first, std::size_t count) const {
    std::vector<T> result(count);
    std::memcpy(result.data(), data + first * sizeof(T), count * sizeof(T));
    return result;
  }
};

std::size_t numbers_of(const Header& h) {
  const auto count = static_cast<std::size_t>(h.count), length = static_cast<std::size_t>(h.length);
  if (h.kind == all_entries) return count * length;
  return h.kind <= side_of_rows ? count * (length + 1) : 0;
}

// Everything is checked before anything is written.
std::vector<Factor> read_factors(const AnyMatrix& G, std::span<const std::uint8_t> bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::vector<Factor> factors;
  while (!bytes.empty()) {
    Factor f;
    SPECTRALCLIP_REQUIRE(bytes.size() >= sizeof f.header, "factors end within a header");
    std::memcpy(&f.header, bytes.data(), sizeof f.header);
    const Header& h = f.header;
    SPECTRALCLIP_REQUIRE(h.kind < kKinds && h.type <= 3 && h.count >= 0 && h.length >= 0 && h.count < kMost &&
                             h.length < kMost && (h.length == 0 || h.count < kMost / h.length),
                         "factors are damaged: kind ", h.kind, ", ", h.count, " x ", h.length);
    const std::int64_t expected = h.kind == right_vectors || h.kind == side_of_columns || h.kind == all_entries ? G.cols
                                  : h.kind == side_of_rows                                                      ? G.rows
                                                                                                                : 0;
    SPECTRALCLIP_REQUIRE(h.length == expected && (h.kind != all_entries || h.count == G.rows),
                         "factors of vectors of length ", h.length, " for a ", G.rows, " x ", G.cols, " matrix");
    const auto type = static_cast<ScalarType>(h.type);
    const bool needs_type = h.kind == right_vectors || h.kind == all_entries;
    const bool work_type = type == (G.type == ScalarType::float64 ? ScalarType::float64 : ScalarType::float32);
    SPECTRALCLIP_REQUIRE(!needs_type || (h.kind == all_entries ? type == G.type : work_type), "factors of ",
                         to_string(type), " numbers for a matrix of ", to_string(G.type));
    const std::size_t size = numbers_of(h) * static_cast<std::size_t>(needs_type ? size_of(type) : 8);
    bytes = bytes.subspan(sizeof f.header);
    SPECTRALCLIP_REQUIRE(bytes.size() >= size, "factors end within their numbers");
    f.data = bytes.data();
    bytes = bytes.subspan(size);
    factors.push_back(f);
  }
  return factors;
}

template <class T>
void apply_vectors(const AnyMatrix& G, const Factor& f, Executor& executor) {
  const auto c = static_cast<std::size_t>(f.header.count), n = static_cast<std::size_t>(f.header.length);
  const std::vector<T> coefficient = f.numbers<T>(0, c);
  const auto ld = static_cast<std::size_t>(kernels::padded(f.header.length));
  Arena rows, memory;
  rows.reserve(Arena::padded_bytes<T>(static_cast<std::int64_t>(c * ld)));
  T* Vt = rows.take<T>(static_cast<std::int64_t>(c * ld));
  std::fill(Vt, Vt + c * ld, T{0});
  for (std::size_t i = 0; i < c; ++i) std::memcpy(Vt + i * ld, f.data + (c + i * n) * sizeof(T), n * sizeof(T));
  (void)run_update<T>(Rows(G), Vt, f.header.count, coefficient.data(), memory, executor);
}

void apply_side(const AnyMatrix& G, const Factor& f) {
  const auto c = static_cast<std::size_t>(f.header.count), n = static_cast<std::size_t>(f.header.length);
  const std::vector<double> numbers = f.numbers<double>(0, c * (n + 1));
  const auto rank = static_cast<Eigen::Index>(c), length = static_cast<Eigen::Index>(n);
  const Eigen::VectorXd weight = Eigen::Map<const Eigen::VectorXd>(numbers.data(), rank);
  const Eigen::MatrixXd Q = Eigen::Map<const Eigen::MatrixXd>(numbers.data() + c, length, rank);
  Magnitude size;
  size.scale = f.header.number;
  size.unscale = 1 / size.scale;
  remove_directions(G, f.header.kind == side_of_columns ? Side::columns : Side::rows, size, Q, weight);
}

void apply(const AnyMatrix& G, const Factor& f, Executor& executor) {
  switch (f.header.kind) {
    case right_vectors:
      return G.type == ScalarType::float64 ? apply_vectors<double>(G, f, executor)
                                           : apply_vectors<float>(G, f, executor);
    case side_of_columns:
    case side_of_rows:
      return apply_side(G, f);
    case scale:
      return scale_entries(G, f.header.number, executor);
    case zero:
      return fill_zero(G);
    default: {
      const std::size_t row = static_cast<std::size_t>(G.cols * size_of(G.type));
      for (std::int64_t i = 0; i < G.rows; ++i) {
        std::memcpy(static_cast<std::byte*>(G.data) + i * G.row_stride * size_of(G.type),
                    f.data + static_cast<std::size_t>(i) * row, row);
      }
    }
  }
}

}  // namespace

void FactorWriter::put(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::uint8_t*>(data);
  factors_->bytes_.insert(factors_->bytes_.end(), from, from + bytes);
}

void FactorWriter::begin(std::uint32_t kind, ScalarType type, std::int64_t count, std::int64_t length) {
  const Header header{kind, static_cast<std::uint32_t>(type), count, length, 0};
  put(&header, sizeof header);
}

template <class T>
void FactorWriter::vectors(const T* Vt, std::int64_t c, std::int64_t n, std::int64_t ld, const T* coefficient) {
  if (factors_ == nullptr) return;
  begin(right_vectors, kScalarTypeOf<T>, c, n);
  put(coefficient, static_cast<std::size_t>(c) * sizeof(T));
  for (std::int64_t i = 0; i < c; ++i) put(Vt + i * ld, static_cast<std::size_t>(n) * sizeof(T));
}
template void FactorWriter::vectors(const float*, std::int64_t, std::int64_t, std::int64_t, const float*);
template void FactorWriter::vectors(const double*, std::int64_t, std::int64_t, std::int64_t, const double*);

void FactorWriter::side(Side side, double scale, const Eigen::MatrixXd& Q, const Eigen::VectorXd& weight) {
  if (factors_ == nullptr) return;
  const Header header{side == Side::columns ? side_of_columns : side_of_rows, 1, Q.cols(), Q.rows(), scale};
  put(&header, sizeof header);
  put(weight.data(), static_cast<std::size_t>(weight.size()) * sizeof(double));
  put(Q.data(), static_cast<std::size_t>(Q.size()) * sizeof(double));
}

void FactorWriter::scaled(double factor) {
  if (factors_ == nullptr) return;
  const Header header{scale, 1, 0, 0, factor};
  put(&header, sizeof header);
}

void FactorWriter::zeros() {
  if (factors_ == nullptr) return;
  factors_->clear();  // whatever was there before
  begin(zero, ScalarType::float64, 0, 0);
}

void FactorWriter::entries(const AnyMatrix& G) {
  if (factors_ == nullptr) return;
  factors_->clear();
  begin(all_entries, G.type, G.rows, G.cols);
  const std::size_t row = static_cast<std::size_t>(G.cols * size_of(G.type));
  for (std::int64_t i = 0; i < G.rows; ++i)
    put(static_cast<std::byte*>(G.data) + i * G.row_stride * size_of(G.type), row);
}

void apply_factors(const AnyMatrix& G, const ClipFactors& factors, Executor& executor) {
  validate(G);
  for (const Factor& factor : read_factors(G, factors.bytes())) apply(G, factor, executor);
}

}  // namespace spectralclip
