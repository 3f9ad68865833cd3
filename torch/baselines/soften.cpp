// SPDX-License-Identifier: Apache-2.0
// See soften.h. By products: G = a X with entries of X at most 1, so that nothing overflows; the result is then
// c A^-1/2 X with A = (c / a)^2 I + X X^T on the smaller side, by the coupled Newton-Schulz iteration
//   Y_0 = A / s, Z_0 = I;  T = rho (3 I - rho^2 Z Y) / 2;  Y <- Y T, Z <- T Z;  Z -> (A / s)^-1/2
// with s = ||A||_F. The share of the identity bounds the eigenvalues of A from below, so rho can be the best one for
// the interval [l, 1] of the roots of the eigenvalues of Z Y (Chen and Chow 2014): l grows by 2.6 a round instead
// of 1.5.
#include "baselines/soften.h"

#include <ATen/Parallel.h>

#include "baselines/rule_order.h"
#include "require.h"
#include "spectralclip/clip.h"
#include "tensor/gradients.h"
#include "tensor/scalar_type.h"

namespace spectralclip::torch {
namespace {

void require_supported(const std::string& name, const at::Tensor& tensor, Backend backend) {
  (void)storage_type(tensor, name);
  SPECTRALCLIP_REQUIRE(backend != Backend::core || tensor.is_cpu(), "backend core is for CPU tensors, parameter \"",
                       name, "\" is on ", tensor.device());
}

// The matrices of one packed CPU tensor.
void append_matrices(std::vector<AnyMatrix>& matrices, const at::Tensor& packed, const Matricized& shape) {
  const ScalarType type = storage_type(packed.scalar_type());
  auto* data = static_cast<std::uint8_t*>(packed.data_ptr());
  for (std::int64_t i = 0; i < shape.count; ++i) {
    matrices.emplace_back(data + i * shape.rows * shape.cols * size_of(type), type, shape.rows, shape.cols, shape.cols);
  }
}

void soften_on_cpu(const std::vector<at::Tensor>& values, const std::vector<Matricized>& shapes, double c) {
  std::vector<at::Tensor> packed;  // the tensor itself, or a copy where its strides differ
  std::vector<AnyMatrix> matrices;
  for (std::size_t i = 0; i < values.size(); ++i) {
    packed.push_back(values[i].contiguous());
    append_matrices(matrices, packed.back(), shapes[i]);
  }
  at::parallel_for(0, static_cast<std::int64_t>(matrices.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) (void)soften_singular_values(matrices[static_cast<std::size_t>(i)], c);
  });
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!packed[i].is_same(values[i])) values[i].copy_(packed[i]);
  }
}

// How far float64 and float32 carry: least share of the identity in A, and rounds until l = sqrt(share) has become 1.
struct Precision {
  at::ScalarType type;
  double least_share;
  int rounds;
};
Precision precision_on(const at::Device& device) {
  return device.is_mps() ? Precision{at::kFloat, 1e-6, 13} : Precision{at::kDouble, 1e-13, 20};
}

// M: … x k x k. M + diagonal I, in place.
void add_to_diagonal(const at::Tensor& M, const at::Tensor& diagonal) {
  M.diagonal(0, -2, -1).add_(diagonal.squeeze(-1));
}

at::Tensor matrix_norms(const at::Tensor& M) { return at::linalg_vector_norm(M, 2, {-2, -1}, /*keepdim=*/true); }

// Z with Z^2 = (A / s)^-1; A / s has eigenvalues in [l^2, 1]. l: … x 1 x 1.
at::Tensor inverse_root(const at::Tensor& scaled, at::Tensor l, int rounds) {
  at::Tensor Y = scaled;
  at::Tensor Z = at::eye(Y.size(-1), Y.options()).expand_as(Y);
  for (int round = 0; round < rounds; ++round) {
    const at::Tensor rho = (l * l + l + 1).reciprocal_().mul_(3).sqrt_();
    const at::Tensor T = at::matmul(Z, Y).mul_(rho.pow(3).mul_(-0.5));
    add_to_diagonal(T, rho * 1.5);
    Y = at::matmul(Y, T);
    Z = at::matmul(T, Z);
    l = rho * l * (3 - rho * rho * l * l) * 0.5;
  }
  return Z;
}

}  // namespace

std::vector<MatrixParameter> matrix_parameters(const NamedTensors& parameters, const SpectralClipperOptions& options) {
  const std::vector<Rule> rules = with_default_rules(options.rules);
  std::vector<MatrixParameter> matrices;
  for (const auto& [name, tensor] : distinct_parameters(parameters)) {
    const Parameter parameter{name, tensor.sizes().vec()};
    const Rule& rule = find_rule(rules, parameter);
    if (rule.treatment != Treatment::spectral || tensor.numel() == 0) continue;
    require_supported(name, tensor, options.backend);
    matrices.push_back({tensor, matricize(rule, parameter)});
  }
  return matrices;
}

void soften_inplace(const std::vector<at::Tensor>& values, const std::vector<MatrixParameter>& layers, double c,
                    Backend backend) {
  std::vector<at::Tensor> on_cpu;
  std::vector<Matricized> shapes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Matricized& shape = layers[i].shape;
    if (values[i].is_cpu() && backend != Backend::aten) {
      on_cpu.push_back(values[i]);
      shapes.push_back(shape);
    } else {
      const at::Tensor G = values[i].reshape({shape.count, shape.rows, shape.cols});
      values[i].copy_(soften_by_products(G, c).view(values[i].sizes()));
    }
  }
  soften_on_cpu(on_cpu, shapes, c);
}

at::Tensor soften_by_products(const at::Tensor& G, double c) {
  const Precision precision = precision_on(G.device());
  const bool tall = G.size(-2) > G.size(-1);
  at::Tensor X = (tall ? G.mT() : G).to(precision.type);          // L x k x max(m, n)
  const at::Tensor a = X.abs().amax({-2, -1}, /*keepdim=*/true);  // L x 1 x 1
  X = X / a;
  const at::Tensor A = at::matmul(X, X.mT());  // L x k x k
  const at::Tensor identity =
      at::maximum(matrix_norms(A).mul_(precision.least_share), a.reciprocal().mul_(c).square_());
  add_to_diagonal(A, identity);
  const at::Tensor s = matrix_norms(A);
  const at::Tensor root = inverse_root(A / s, (identity / s).sqrt_(), precision.rounds) * s.rsqrt();
  const at::Tensor softened = at::matmul(root, X).mul_(c).to(G.scalar_type());
  // s is not finite for NaN, Inf, zero, and entries so small beside c that softening changes nothing.
  return at::where(s.isfinite(), tall ? softened.mT() : softened, G).contiguous();
}

}  // namespace spectralclip::torch
