// SPDX-License-Identifier: Apache-2.0
// The operators and the class of the Python package. Schemas mark what is written; the fake kernels stand in Python,
// beside the functions that call these. Misuse arrives there as ValueError, a bad state as RuntimeError.
#include <torch/library.h>

#include "ops/clipper_object.h"
#include "ops/gradient_clipper_object.h"
#include "ops/sharded_object.h"
#include "spectralclip/error.h"
#include "spectralclip/proposal.h"
#include "spectralclip/torch/clip_grad.h"
#include "spectralclip/torch/report_fields.h"
#include "spectralclip/version.h"

namespace spectralclip::torch {
namespace {

template <class Work>
auto translated(Work&& work) {
  try {
    return work();
  } catch (const InvalidArgument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

at::Tensor clip_inplace(const at::Tensor& G, double tau, const SettingTexts& settings, std::string_view backend) {
  return translated([&] { return clip_singular_values_(G, tau, clip_options(settings), parse_backend(backend)); });
}

std::tuple<at::Tensor, at::Tensor> clip_copy(const at::Tensor& G, double tau, const SettingTexts& settings,
                                             std::string_view backend) {
  at::Tensor clipped = G.detach().clone();
  at::Tensor report = clip_inplace(clipped, tau, settings, backend);
  return {clipped, report};
}

std::tuple<at::Tensor, at::Tensor> clip_grads(const std::vector<at::Tensor>& gradients, double max_sigma,
                                              const SettingTexts& settings, std::string_view backend,
                                              bool error_if_nonfinite) {
  return translated([&] {
    ClipGradOptions options;
    options.clip = clip_options(settings, options.clip);
    options.backend = parse_backend(backend);
    at::Tensor statuses;
    const at::Tensor norm = clip_gradients(gradients, max_sigma, options, error_if_nonfinite, &statuses);
    return std::make_tuple(norm, statuses);
  });
}

at::Tensor clipper_step(std::int64_t handle, const std::vector<at::Tensor>& gradients,
                        const std::vector<std::int64_t>& numbers) {
  return translated([&] { return ClipperObject::by_handle(handle).step(gradients, numbers); });
}

std::vector<std::string> field_names() { return {kReportFieldNames.begin(), kReportFieldNames.end()}; }

// sigma_max: steps x anything; of each column steps, tau, share, low, high, early, late (float64).
at::Tensor propose(const at::Tensor& sigma_max, double share) {
  return translated([&] {
    TORCH_CHECK_VALUE(sigma_max.dim() == 2, "sigma_max is steps x layers, not of shape ", sigma_max.sizes());
    const at::Tensor columns = sigma_max.to(at::kCPU, at::kDouble).t().contiguous();
    const auto steps = static_cast<std::size_t>(columns.size(1));
    at::Tensor rows = at::empty({columns.size(0), 7}, at::kDouble);
    auto* row = rows.data_ptr<double>();
    for (std::int64_t i = 0; i < columns.size(0); ++i) {
      const double* values = columns.const_data_ptr<double>() + i * columns.size(1);
      const ThresholdProposal p = propose_threshold({values, steps}, share);
      for (const double number : {static_cast<double>(p.steps), p.tau, p.share, p.low, p.high, p.early, p.late}) {
        *row++ = number;
      }
    }
    return rows;
  });
}

using Self = c10::intrusive_ptr<ClipperObject>;
using GradientClipperSelf = c10::intrusive_ptr<GradientClipperObject>;

Self make_clipper(std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
                  const std::vector<SettingTexts>& own, const SettingTexts& settings,
                  const std::vector<SettingTexts>& rules) {
  return translated(
      [&] { return c10::make_intrusive<ClipperObject>(std::move(names), parameters, own, settings, rules); });
}

}  // namespace

}  // namespace spectralclip::torch

namespace ops = spectralclip::torch;  // the macros below need ::torch

TORCH_LIBRARY(spectralclip, m) {
  m.class_<ops::ClipperObject>("Clipper")
      .def(::torch::init(&ops::make_clipper))
      .def("step",
           [](const ops::Self& self, const std::vector<at::Tensor>& gradients,
              const std::vector<std::int64_t>& numbers) {
             return ops::translated([&] { return self->step(gradients, numbers); });
           })
      .def("step_parameter",
           [](const ops::Self& self, std::int64_t number, const at::Tensor& gradient) {
             return ops::translated([&] { return self->step_parameter(number, gradient); });
           })
      .def("add_parameters",
           [](const ops::Self& self, std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
              const std::vector<ops::SettingTexts>& own) {
             ops::translated([&] { self->add_parameters(std::move(names), parameters, own); });
           })
      .def("report", [](const ops::Self& self) { return self->report(); })
      .def("plan", [](const ops::Self& self) { return self->plan(); })
      .def("states", [](const ops::Self& self) { return self->states(); })
      .def("set_states",
           [](const ops::Self& self, const at::Tensor& counts, const at::Tensor& averages,
              const std::vector<at::Tensor>& windows, const std::vector<at::Tensor>& vectors) {
             ops::translated([&] { self->set_states(counts, averages, windows, vectors); });
           })
      .def("thresholds", [](const ops::Self& self) { return self->thresholds(); })
      .def("report_values", [](const ops::Self& self) { return self->report_values(); })
      .def("hints", [](const ops::Self& self) { return self->hints(); })
      .def("load_notes", [](const ops::Self& self) { return self->load_notes(); })
      .def("steps", [](const ops::Self& self) { return self->steps(); })
      .def("handle", [](const ops::Self& self) { return self->handle(); })
      .def("serialize", [](const ops::Self& self) { return self->serialize(); })
      .def("deserialize",
           [](const ops::Self& self, const at::Tensor& bytes) { ops::translated([&] { self->deserialize(bytes); }); });

  m.class_<ops::GradientClipperObject>("GradientClipper")
      .def(::torch::init([](std::vector<std::string> names, const std::vector<at::Tensor>& parameters,
                            const ops::SettingTexts& settings, const std::vector<ops::SettingTexts>& rules) {
        return ops::translated([&] {
          return c10::make_intrusive<ops::GradientClipperObject>(std::move(names), parameters, settings, rules);
        });
      }))
      .def("clip",
           [](const ops::GradientClipperSelf& self, const std::vector<at::Tensor>& values,
              const std::vector<std::int64_t>& numbers) {
             return ops::translated([&] { return self->clip(values, numbers); });
           })
      .def("is_separable", [](const ops::GradientClipperSelf& self) { return self->is_separable(); });
  ops::register_sharded(m);

  m.def("clip_singular_values(Tensor G, float tau, str[] settings, str backend) -> (Tensor, Tensor)");
  m.def("clip_singular_values_(Tensor(a!) G, float tau, str[] settings, str backend) -> Tensor");
  m.def(
      "clip_grads_(Tensor(a!)[] gradients, float max_sigma, str[] settings, str backend, bool error_if_nonfinite) -> "
      "(Tensor, Tensor)");
  m.def("clipper_step_(int handle, Tensor(a!)[] gradients, int[] numbers) -> Tensor");
  m.def("propose(Tensor sigma_max, float share) -> Tensor");
  m.def("report_fields() -> str[]", &ops::field_names);
  m.def("simd_target() -> str", [] { return std::string(spectralclip::simd_target()); });
  m.def("set_simd_target(str name) -> ()",
        [](std::string_view name) { ops::translated([&] { spectralclip::set_simd_target(name); }); });
  m.def("core_version() -> str", [] { return std::string(spectralclip::version()); });
}

TORCH_LIBRARY_IMPL(spectralclip, CompositeExplicitAutograd, m) {
  m.impl("clip_singular_values", &ops::clip_copy);
  m.impl("clip_singular_values_", &ops::clip_inplace);
  m.impl("clip_grads_", &ops::clip_grads);
  m.impl("clipper_step_", &ops::clipper_step);
  m.impl("propose", &ops::propose);
}
