// SPDX-License-Identifier: Apache-2.0
// Windows of a stored matrix as float64 Eigen matrices and back. All dense methods read and write G through here:
// entries are scaled by a power of two (exact) so that their squares neither overflow nor underflow.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "spectralclip/matrix.h"

namespace spectralclip {

using Panel = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

struct Magnitude {
  bool finite = true;
  double largest = 0;  // max |entry|
  double scale = 1;    // power of two: scale * largest in [1/2, 1) wherever both are normal numbers
  double unscale = 1;  // 1 / scale, exact
};

// One read of G.
[[nodiscard]] Magnitude measure_magnitude(const AnyMatrix& G);

struct Window {
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

// Through nothing: Eigen frees the old block before it asks for the new one, and keeps the address of the old one when
// there is no memory, to free it once more.
void resize_panel(Panel& panel, Eigen::Index rows, Eigen::Index cols);

// panel = scale * G[window]
void read_panel(const AnyMatrix& G, const Window& window, double scale, Panel& panel);
// G[window] = unscale * panel, rounded to nearest; beyond the largest finite number it saturates instead of becoming
// Inf.
void write_panel(const AnyMatrix& G, const Window& window, double unscale, const Panel& panel);

// All of G: m x n.
[[nodiscard]] Panel read_all(const AnyMatrix& G, double scale);
void write_all(const AnyMatrix& G, double unscale, const Panel& whole);

// Calls body(window) for slabs of one side of G, about kPanelWidth wide: row slabs when `tall`, else column slabs.
inline constexpr std::int64_t kPanelWidth = 256;  // 256 x 768 float64 is 1.5 MB: L2 of most machines
template <class Body>
void for_each_slab(const AnyMatrix& G, bool tall, Body&& body) {
  const std::int64_t length = tall ? G.rows : G.cols;
  for (std::int64_t first = 0; first < length; first += kPanelWidth) {
    const std::int64_t width = length - first < kPanelWidth ? length - first : kPanelWidth;
    body(tall ? Window{first, 0, width, G.cols} : Window{0, first, G.rows, width});
  }
}

// Takes back what was written slab by slab when something fails in between: a copy of G while more than one slab is
// written, as much memory as G itself. Done, it keeps what is there.
class Undo {
 public:
  explicit Undo(const AnyMatrix& G);
  ~Undo();
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  void done() noexcept { stored_.clear(); }

 private:
  AnyMatrix G_;
  std::vector<std::byte> stored_;  // rows packed; empty: nothing to take back
};

}  // namespace spectralclip
