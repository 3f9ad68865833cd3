// SPDX-License-Identifier: Apache-2.0
// What the tests of optimizers and baselines share: reproducible tensors, comparison, singular values through an SVD in
// float64. Nothing here calls spectralclip.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace spectralclip::testing {

// Standard normal entries, the same for the same seed whatever was drawn before.
inline at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType type = at::kDouble) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble)).to(type);
}

// A leaf that an optimizer takes, and its gradient of this step.
inline at::Tensor leaf(const at::Tensor& value) { return value.detach().clone().requires_grad_(true); }
inline void set_gradient(at::Tensor& parameter, const at::Tensor& gradient) {
  parameter.mutable_grad() = gradient.detach().clone();
}

inline double epsilon(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kFloat:
      return std::numeric_limits<float>::epsilon();
    case at::kBFloat16:
      return std::ldexp(1.0, -7);
    default:
      return std::ldexp(1.0, -10);  // float16
  }
}

inline double norm_of(const at::Tensor& tensor) { return tensor.detach().to(at::kDouble).norm().item<double>(); }
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return norm_of(a.detach().to(at::kDouble) - b.detach().to(at::kDouble));
}

// ||actual - expected||_F <= tolerance; NaN on either side fails, so do different shapes.
inline ::testing::AssertionResult close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  if (actual.sizes() != expected.sizes()) {
    return ::testing::AssertionFailure() << "shape " << actual.sizes() << " instead of " << expected.sizes();
  }
  const double error = distance(actual, expected);
  if (error <= tolerance) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "off by " << error << ", allowed " << tolerance << ", norm expected "
                                       << norm_of(expected);
}

// U diag(f(sigma)) V^T in float64.
inline at::Tensor map_singular_values(const at::Tensor& M, const std::function<double(double)>& f) {
  auto [U, sigma, Vh] = at::linalg_svd(M.detach().to(at::kDouble), /*full_matrices=*/false);
  for (std::int64_t i = 0; i < sigma.size(0); ++i) sigma[i] = f(sigma[i].item<double>());
  return at::matmul(U * sigma, Vh);
}

// rows x cols with the given singular values, largest first.
inline at::Tensor with_singular_values(std::int64_t rows, std::int64_t cols, const std::vector<double>& sigma,
                                       std::uint64_t seed) {
  const auto k = static_cast<std::int64_t>(sigma.size());
  const at::Tensor U = std::get<0>(at::linalg_qr(normal({rows, k}, seed)));
  const at::Tensor V = std::get<0>(at::linalg_qr(normal({cols, k}, seed + 1)));
  return at::matmul(U * at::tensor(sigma, at::kDouble), V.t());
}

// How many values the operators of `call` hand to the host: on another device each of them would wait for it.
inline int host_reads(const std::function<void()>& call) {
  static thread_local int reads;
  reads = 0;
  const auto count = [](const at::RecordFunction& operation) -> std::unique_ptr<at::ObserverContext> {
    const std::string name = operation.name();
    for (const char* reader : {"aten::_local_scalar_dense", "aten::item", "aten::equal", "aten::nonzero"}) {
      reads += name == reader;
    }
    return nullptr;
  };
  const at::CallbackHandle handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}));
  call();
  at::removeCallback(handle);
  return reads;
}

// The text of the exception of type E that `call` throws; "" and a failure when it throws none.
template <class E>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace spectralclip::testing
