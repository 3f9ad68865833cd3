// SPDX-License-Identifier: Apache-2.0
// Saved and loaded optimizers go on bit for bit; a foreign archive changes nothing.
#include <sstream>

#include "spectralclip/error.h"
#include "spectralclip/torch/muon.h"
#include "torch/optim_cases.h"

namespace spectralclip::torch {
namespace {

using testing::leaf;
using testing::normal;
using testing::set_gradient;
using ::torch::optim::Optimizer;

using Tensors = std::vector<at::Tensor>;
using Make = std::function<std::unique_ptr<Optimizer>(const Tensors&)>;

Tensors start() { return {leaf(normal({4, 3}, 1)), leaf(normal({5}, 2)), leaf(normal({3, 2, 2}, 3))}; }

void train(Optimizer& optimizer, Tensors& parameters, int first, int steps) {
  for (int t = first; t < first + steps; ++t) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto seed = 100 * static_cast<std::uint64_t>(t) + i;
      set_gradient(parameters[i], normal(parameters[i].sizes(), seed));
    }
    optimizer.step();
  }
}

std::string saved(const Optimizer& optimizer) {
  ::torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

void load(Optimizer& optimizer, const std::string& bytes) {
  std::istringstream stream(bytes);
  ::torch::serialize::InputArchive archive;
  archive.load_from(stream);
  optimizer.load(archive);
}

// Parameter 1 is a vector and goes to AdamW in Muon's case.
std::unique_ptr<Optimizer> make_muon(const Tensors& p, const MuonOptions& matrices, const MuonOptions& rest) {
  return std::make_unique<Muon>(
      muon_param_groups({{"a.weight", p[0]}, {"a.bias", p[1]}, {"b.weight", p[2]}}, matrices, rest));
}

struct Case {
  const char* name;
  Make trained;  // its options are the ones to be restored
  Make other;    // the same groups with different options
};

std::vector<Case> cases() {
  const auto muon = MuonOptions(0.1).form(MomentumForm::classic).nesterov(false).scale(UpdateScale::match_rms);
  const auto tuned = MuonOptions(muon).ns_steps(4).ns_coefficients({3, -3, 1}).eps(0.5).weight_decay(0.2).momentum(0.7);
  const auto adamw = MuonOptions(0.2).betas({0.5, 0.6}).adamw_eps(0.1);
  const auto sgd = MomentumSgdOptions(0.3).momentum(0.6).weight_decay(0.1).decoupled(true).form(MomentumForm::classic);
  return {{"Muon", [=](const Tensors& p) { return make_muon(p, tuned, adamw); },
           [](const Tensors& p) { return make_muon(p, {}, {}); }},
          {"MomentumSgd",
           [=](const Tensors& p) { return std::make_unique<MomentumSgd>(p, MomentumSgdOptions(sgd).nesterov(true)); },
           [](const Tensors& p) { return std::make_unique<MomentumSgd>(p); }}};
}

void expect_equal(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << "parameter " << i;
}

TEST(OptimizerArchive, ContinuesBitForBit) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    Tensors p = start();
    const auto optimizer = c.trained(p);
    train(*optimizer, p, 0, 3);
    const std::string bytes = saved(*optimizer);
    Tensors q;
    for (const at::Tensor& tensor : p) q.push_back(leaf(tensor));
    train(*optimizer, p, 3, 3);

    const auto resumed = c.other(q);
    load(*resumed, bytes);
    train(*resumed, q, 3, 3);
    expect_equal(p, q);
    // That neither options nor state came from `other`:
    Tensors r;
    for (const at::Tensor& tensor : q) r.push_back(leaf(tensor));
    const auto fresh = c.trained(r);
    train(*fresh, r, 3, 1);
    train(*resumed, q, 3, 1);
    EXPECT_FALSE(at::equal(r[0], q[0]));
  }
}

TEST(OptimizerArchive, RestoresEveryOption) {
  auto options = MuonOptions(0.7).weight_decay(0.2).momentum(0.3).form(MomentumForm::classic).nesterov(false).eps(0.5);
  options.scale(UpdateScale::none).ns_steps(3).ns_coefficients({1, 2, 3}).ns_type(OrthogonalizeType::bfloat16);
  options.betas({0.1, 0.2}).adamw_eps(0.4).use_adamw(true);
  Tensors p = start();
  const Muon muon(p, options);
  Muon other(p, MuonOptions().use_adamw(true));
  load(other, saved(muon));
  EXPECT_EQ(static_cast<const MuonOptions&>(other.param_groups()[0].options()), options);
  EXPECT_FALSE(options == MuonOptions(options).adamw_eps(0.3));
  EXPECT_FALSE(options == MuonOptions(options).ns_coefficients({1, 2, 4}));
}

// State that the archive does not have is dropped: a restored optimizer is the saved one, not a mixture.
TEST(OptimizerArchive, DropsStateOfItsOwn) {
  for (const Case& c : cases()) {
    Tensors p = start();
    const auto optimizer = c.trained(p);
    const std::string untrained = saved(*optimizer);
    train(*optimizer, p, 0, 2);
    EXPECT_EQ(optimizer->state().size(), 3U);
    load(*optimizer, untrained);
    EXPECT_TRUE(optimizer->state().empty()) << c.name;
  }
}

// Fewer groups, other group sizes, another optimizer's fields: refused, and training goes on as if nothing happened.
TEST(OptimizerArchive, ForeignArchivesChangeNothing) {
  Tensors single = {leaf(normal({4, 3}, 1))};
  Muon one_group(single);
  Muon uneven({::torch::optim::OptimizerParamGroup(single), ::torch::optim::OptimizerParamGroup(Tensors{})});
  ::torch::optim::SGD sgd(start(), 0.1);
  for (const Case& c : cases()) {
    Tensors p = start(), q = start();
    const auto optimizer = c.trained(p), control = c.trained(q);
    train(*optimizer, p, 0, 2);
    train(*control, q, 0, 2);
    for (const std::string& bytes : {saved(one_group), saved(uneven), saved(sgd)}) {
      EXPECT_ANY_THROW(load(*optimizer, bytes)) << c.name;
    }
    train(*optimizer, p, 2, 2);
    train(*control, q, 2, 2);
    expect_equal(p, q);
  }
}

TEST(OptimizerArchive, NamesTheMissingField) {
  Tensors p = start();
  ::torch::optim::SGD sgd(p, 0.1);
  MomentumSgd ours(p);
  const std::string message = testing::message_of<StateFileError>([&] { load(ours, saved(sgd)); });
  EXPECT_NE(message.find("no \"form\""), std::string::npos) << message;
}

}  // namespace
}  // namespace spectralclip::torch
