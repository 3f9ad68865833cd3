// SPDX-License-Identifier: Apache-2.0
// One case of the fused pass or of the update, and its comparison with the twin.
//
// Error bound (Higham 2002, section 3.1): an inner product of n terms in any order is off by at most n eps sum |g||v|
// to first order; W enters Z (m terms) once and S (m terms) twice. So with |G|, |V| put through the twin,
//   |Z - Z'| <= 2 (n + m + 4) eps |G|^T |G| |V|,  |S - S'| <= 2 (2 n + m + 4) eps (|G||V|)^T (|G||V|),
// the 2 because kernel and twin both round. terms() is the larger one of the two factors.
#pragma once

#include "kernels/apply_right.h"
#include "kernels/guarded.h"
#include "kernels/reference.h"

namespace spectralclip::kernels {

// Around the vector widths 2, 4, 8 and 16, eight vectors and two more, odd lengths, more than one tile.
inline constexpr std::int64_t kLengths[] = {1,  2,  3,  4,  5,  7,  8,  9,   15,  16,  17,  18,  31,
                                            32, 33, 34, 63, 64, 65, 66, 100, 129, 130, 191, 257, 1027};

struct Shape {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t k;
  std::int64_t gap;     // entries between the rows of G
  std::int64_t offset;  // entries by which G is misaligned

  [[nodiscard]] double terms() const { return 2.0 * static_cast<double>(2 * cols + rows + 4); }
};

inline std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.rows << " x " << s.cols << ", k = " << s.k << ", gap " << s.gap << ", offset " << s.offset;
}

template <class T>
struct PassCase {
  Shape shape;
  Strided<T> G;
  Guarded<T> Vt;
  Guarded<T> Zt;
  Guarded<double> S;
  Guarded<T> scratch;

  PassCase(const Shape& s, Entries entries)
      : shape(s),
        G(s.rows, s.cols, s.gap, s.offset, {entries, 1}),
        Vt(s.k * padded(s.cols)),
        Zt(s.k * padded(s.cols)),
        S(s.k * s.k),
        scratch(fused_pass_scratch<T>(s.k)) {
    fill_padded(Vt, s.k, s.cols, Source<T>(entries, 2));
  }
  [[nodiscard]] FusedPass<T> pass() {
    return {G.memory.data(), shape.rows, shape.cols, G.stride, Vt.data(), shape.k, Zt.data(), S.data(), scratch.data()};
  }
  void make_absolute() {
    G.make_absolute();
    std::transform(Vt.data(), Vt.data() + Vt.size(), Vt.data(), [](T x) { return std::abs(x); });
  }
  [[nodiscard]] bool intact() {
    return G.gaps_intact() && Vt.intact() && padding_is_zero(Zt, shape.k, shape.cols) && S.intact() && scratch.intact();
  }
};

template <class T>
void compare_pass(const Shape& shape) {
  const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << shape);
  for (const Entries entries : {Entries::integers, Entries::reals}) {
    PassCase<T> fast(shape, entries);
    PassCase<T> twin(shape, entries);
    PassCase<T> size(shape, entries);
    size.make_absolute();
    const double norm = fused_pass(fast.pass());
    const double expected = reference::fused_pass(twin.pass());
    (void)reference::fused_pass(size.pass());
    const double terms = entries == Entries::integers ? 0.0 : shape.terms();
    expect_within<T>(fast.Zt, twin.Zt, size.Zt, terms, "Z");
    expect_within<T>(fast.S, twin.S, size.S, terms, "S");
    ASSERT_LE(std::abs(norm - expected), terms * static_cast<double>(std::numeric_limits<T>::epsilon()) * expected);
    ASSERT_TRUE(fast.intact()) << "wrote outside its output";
  }
}

// coefficients: powers of two, so that integers stay exact.
template <class T>
struct UpdateCase {
  Shape shape;
  Strided<T> G;
  Guarded<T> Vt;
  Guarded<T> coefficient;
  Guarded<T> scratch;

  UpdateCase(const Shape& s, Entries entries)
      : shape(s),
        G(s.rows, s.cols, s.gap, s.offset, {entries, 3}),
        Vt(s.k * padded(s.cols)),
        coefficient(s.k),
        scratch(fused_pass_scratch<T>(s.k)) {
    fill_padded(Vt, s.k, s.cols, Source<T>(entries, 4));
    for (std::int64_t c = 0; c < s.k; ++c) coefficient[c] = static_cast<T>(c % 3 == 0 ? 0.5 : c % 3 == 1 ? 0.25 : 1);
  }
  [[nodiscard]] RightUpdate<T> update() {
    return {G.memory.data(), shape.rows, shape.cols, G.stride, Vt.data(), shape.k, coefficient.data(), scratch.data()};
  }
  [[nodiscard]] bool intact() { return G.gaps_intact() && Vt.intact() && coefficient.intact() && scratch.intact(); }
};

// |G| + (|G||V|) diag |coefficient| |V|^T, the size of what is summed in an entry of the new G: the twin subtracts, so
// the coefficients change sign.
template <class T>
void take_sizes(UpdateCase<T>& c) {
  c.G.make_absolute();
  std::transform(c.Vt.data(), c.Vt.data() + c.Vt.size(), c.Vt.data(), [](T x) { return std::abs(x); });
  for (std::int64_t i = 0; i < c.shape.k; ++i) c.coefficient[i] = -std::abs(c.coefficient[i]);
  (void)reference::apply_right(c.update());
}

template <class T>
void compare_update(const Shape& shape) {
  const testing::ScopedTrace trace(__FILE__, __LINE__, testing::Message() << shape);
  for (const Entries entries : {Entries::integers, Entries::reals}) {
    UpdateCase<T> fast(shape, entries);
    UpdateCase<T> twin(shape, entries);
    UpdateCase<T> size(shape, entries);
    take_sizes(size);
    const double norm = apply_right(fast.update());
    const double expected = reference::apply_right(twin.update());
    // n terms make W, k + 2 more the entry; both sides round.
    const double unit =
        2.0 * static_cast<double>(shape.cols + shape.k + 4) * static_cast<double>(std::numeric_limits<T>::epsilon());
    double norm_limit = 0;
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      for (std::int64_t j = 0; j < shape.cols; ++j) {
        const double limit = entries == Entries::integers ? 0.0 : unit * static_cast<double>(size.G.row(i)[j]);
        const double entry = static_cast<double>(twin.G.row(i)[j]);
        ASSERT_LE(std::abs(static_cast<double>(fast.G.row(i)[j]) - entry), limit) << "row " << i << ", column " << j;
        norm_limit += 2 * std::abs(entry) * limit + limit * limit + unit * entry * entry;
      }
    }
    ASSERT_LE(std::abs(norm - expected), norm_limit);
    ASSERT_TRUE(fast.intact()) << "wrote outside its output";
  }
}

}  // namespace spectralclip::kernels
