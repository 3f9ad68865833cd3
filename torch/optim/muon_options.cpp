// SPDX-License-Identifier: Apache-2.0
// Names, ranges and archives of Muon's options and state.
#include <cmath>

#include "baselines/enum_names.h"
#include "optim/archive.h"
#include "optim/ranges.h"
#include "spectralclip/torch/muon.h"

namespace spectralclip::torch {
namespace {

using ::torch::serialize::InputArchive;
using ::torch::serialize::OutputArchive;

constexpr std::array<EnumName<UpdateScale>, 3> kScales = {
    {{UpdateScale::original, "original"}, {UpdateScale::match_rms, "match_rms"}, {UpdateScale::none, "none"}}};
constexpr std::array<EnumName<OrthogonalizeType>, 3> kTypes = {{{OrthogonalizeType::automatic, "auto"},
                                                                {OrthogonalizeType::float32, "float32"},
                                                                {OrthogonalizeType::bfloat16, "bfloat16"}}};

constexpr std::int64_t kMostSteps = 99;  // torch.optim.Muon's limit; five are enough

constexpr std::array kMuonFields = {"lr",        "weight_decay", "momentum",        "form", "nesterov",
                                    "scale",     "ns_steps",     "ns_coefficients", "eps",  "ns_type",
                                    "use_adamw", "betas",        "adamw_eps"};
template <class Options>  // MuonOptions, const or not
auto muon_fields(Options& o) {
  return std::tie(o.lr(), o.weight_decay(), o.momentum(), o.form(), o.nesterov(), o.scale(), o.ns_steps(),
                  o.ns_coefficients(), o.eps(), o.ns_type(), o.use_adamw(), o.betas(), o.adamw_eps());
}

constexpr std::array kStateNames = {"step", "momentum_buffer", "exp_avg", "exp_avg_sq"};
template <class State>  // MuonParamState, const or not
auto state_fields(State& s) {
  return std::tie(s.step(), s.momentum_buffer(), s.exp_avg(), s.exp_avg_sq());
}

void validate_orthogonalization(const MuonOptions& options) {
  require_named("scale", kScales, options.scale());
  require_named("ns_type", kTypes, options.ns_type());
  SPECTRALCLIP_REQUIRE(options.ns_steps() >= 0 && options.ns_steps() <= kMostSteps, "ns_steps = ", options.ns_steps(),
                       " must lie in [0, ", kMostSteps, "]");
  for (const double coefficient : options.ns_coefficients()) {
    SPECTRALCLIP_REQUIRE(std::isfinite(coefficient), "ns_coefficients hold ", coefficient, ", they must be finite");
  }
  require_not_negative("eps", options.eps());
}

}  // namespace

const char* to_string(UpdateScale scale) noexcept { return name_of(kScales, scale); }
UpdateScale parse_update_scale(std::string_view name) { return parse_name("update scale", kScales, name); }
const char* to_string(OrthogonalizeType type) noexcept { return name_of(kTypes, type); }
OrthogonalizeType parse_orthogonalize_type(std::string_view name) {
  return parse_name("orthogonalize type", kTypes, name);
}

MuonOptions::MuonOptions(double lr) : lr_(lr) {}
void MuonOptions::serialize(InputArchive& archive) { read_fields(archive, kMuonFields, muon_fields(*this)); }
void MuonOptions::serialize(OutputArchive& archive) const { write_fields(archive, kMuonFields, muon_fields(*this)); }
double MuonOptions::get_lr() const { return lr(); }
void MuonOptions::set_lr(const double lr) { this->lr(lr); }
bool operator==(const MuonOptions& a, const MuonOptions& b) { return muon_fields(a) == muon_fields(b); }

MuonOptions muon_adamw_options(double lr) { return MuonOptions(lr).use_adamw(true).weight_decay(0.01); }

void validate(const MuonOptions& options) {
  require_not_negative("lr", options.lr());
  require_not_negative("weight_decay", options.weight_decay());
  require_decay("momentum", options.momentum());
  SPECTRALCLIP_REQUIRE(options.form() <= MomentumForm::classic, "momentum form = ", static_cast<int>(options.form()),
                       " is neither ema (0) nor classic (1)");
  validate_orthogonalization(options);
  require_decay("betas[0]", std::get<0>(options.betas()));
  require_decay("betas[1]", std::get<1>(options.betas()));
  require_not_negative("adamw_eps", options.adamw_eps());
}

void MuonParamState::serialize(InputArchive& archive) { read_fields(archive, kStateNames, state_fields(*this)); }
void MuonParamState::serialize(OutputArchive& archive) const {
  write_fields(archive, kStateNames, state_fields(*this));
}

}  // namespace spectralclip::torch
