// SPDX-License-Identifier: Apache-2.0
#include "sweep/searchers.h"

namespace spectralclip::lab {
namespace {

class GridSearch final : public NumberedSearch {
 public:
  explicit GridSearch(SearchSpace space) : space_(std::move(space)) { (void)grid_size(space_); }
  Candidate ask() override {
    const std::int64_t trial = take_number();
    return {trial, grid_point(space_, trial - 1)};
  }

 private:
  SearchSpace space_;
};

}  // namespace

std::unique_ptr<Search> make_grid_search(const SearchSpace& space) { return std::make_unique<GridSearch>(space); }

}  // namespace spectralclip::lab
