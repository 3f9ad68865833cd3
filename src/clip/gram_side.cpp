// SPDX-License-Identifier: Apache-2.0
// Slabs run along the other side, so that a product with the r x r side never mixes two of them.
#include "clip/gram_side.h"

namespace spectralclip {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// panel <- panel - panel Q D Q^T or panel - Q D Q^T panel
void apply_thin(const AnyMatrix& G, Side side, const Magnitude& size, const MatrixXd& Q, const VectorXd& weight) {
  const MatrixXd QD = Q * weight.asDiagonal();
  Panel panel;
  Panel coordinates;
  Undo undo(G);
  for_each_slab(G, side == Side::columns, [&](const Window& window) {
    read_panel(G, window, size.scale, panel);
    if (side == Side::columns) {
      resize_panel(coordinates, panel.rows(), QD.cols());
      coordinates.noalias() = panel * QD;
      panel.noalias() -= coordinates * Q.transpose();
    } else {
      resize_panel(coordinates, QD.cols(), panel.cols());
      coordinates.noalias() = QD.transpose() * panel;
      panel.noalias() -= Q * coordinates;
    }
    write_panel(G, window, size.unscale, panel);
  });
  undo.done();
}

}  // namespace

MatrixXd gram_of(const AnyMatrix& G, Side side, double scale) {
  const auto r = static_cast<Eigen::Index>(side == Side::columns ? G.cols : G.rows);
  MatrixXd A = MatrixXd::Zero(r, r);
  Panel panel;
  for_each_slab(G, side == Side::columns, [&](const Window& window) {
    read_panel(G, window, scale, panel);
    if (side == Side::columns) {
      A.selfadjointView<Eigen::Lower>().rankUpdate(panel.transpose());
    } else {
      A.selfadjointView<Eigen::Lower>().rankUpdate(panel);
    }
  });
  return A;
}

void apply_factor(const AnyMatrix& G, Side side, const Magnitude& size, const MatrixXd& F) {
  Panel panel;
  Undo undo(G);
  for_each_slab(G, side == Side::columns, [&](const Window& window) {
    read_panel(G, window, size.scale, panel);
    const Panel product = side == Side::columns ? Panel(panel * F) : Panel(F * panel);
    write_panel(G, window, size.unscale, product);
  });
  undo.done();
}

void remove_directions(const AnyMatrix& G, Side side, const Magnitude& size, const MatrixXd& Q,
                       const VectorXd& weight) {
  if (2 * Q.cols() <= Q.rows()) return apply_thin(G, side, size, Q, weight);
  MatrixXd F = MatrixXd::Identity(Q.rows(), Q.rows());
  F.noalias() -= (Q * weight.asDiagonal()) * Q.transpose();
  apply_factor(G, side, size, F);
}

}  // namespace spectralclip
