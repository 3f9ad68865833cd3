// SPDX-License-Identifier: Apache-2.0
// Programs and libraries of different versions: structs that are shorter or longer than ours. A shorter one lies at the
// end of a page behind which nothing may be read or written.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "c_api/one_matrix.h"

namespace {

using namespace sclip_testing;

// Memory that ends where the next page is forbidden.
class EndOfPage {
 public:
  EndOfPage()
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        memory_(static_cast<unsigned char*>(
            ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (::mprotect(memory_ + page_, page_, PROT_NONE) != 0) throw std::runtime_error("mprotect");
  }
  ~EndOfPage() { ::munmap(memory_, 2 * page_); }
  EndOfPage(const EndOfPage&) = delete;
  EndOfPage& operator=(const EndOfPage&) = delete;

  // The last `size` bytes, with those of `source` as far as it goes, and their size said.
  template <class Struct>
  Struct* hold(const Struct& source, std::size_t size) {
    unsigned char* const place = memory_ + page_ - size;
    std::memset(place, 0, size);
    std::memcpy(place, &source, std::min(size, sizeof source));
    const std::uint64_t said = size;
    std::memcpy(place, &said, sizeof said);
    return reinterpret_cast<Struct*>(place);
  }

 private:
  std::size_t page_;
  unsigned char* memory_;
};

// A matrix of sigma_max 9 or so; what sclip_clip_matrix leaves of it.
std::vector<float> clipped(const sclip_clip_options* options) {
  auto gradient = make_gradient(2);
  const sclip_matrix G = matrix_of(gradient);
  EXPECT_EQ(sclip_clip_matrix(&G, 2.0, options, nullptr), SCLIP_OK) << sclip_last_error();
  return gradient;
}

TEST(CApiSizes, AShorterStructHasDefaultsBehindItsEnd) {
  EndOfPage page;
  sclip_clip_options full = initialised(sclip_clip_options_init);
  full.method = SCLIP_METHOD_SKETCHED;
  full.rank = 2;
  full.seed = 12345;  // the last field: lost in a shorter struct
  sclip_clip_options without_seed = full;
  without_seed.seed = 0;
  ASSERT_NE(clipped(&full), clipped(&without_seed)) << "the seed tells them apart";
  for (std::size_t size = 8; size <= sizeof full; size += 8) {
    const auto* const held = page.hold(full, size);
    const auto result = clipped(held);
    if (size == sizeof full) {
      EXPECT_EQ(result, clipped(&full));
    } else if (size == offsetof(sclip_clip_options, seed)) {
      EXPECT_EQ(result, clipped(&without_seed));
    } else if (size == 8) {
      EXPECT_EQ(result, clipped(nullptr));
    }
  }
}

TEST(CApiSizes, EveryStructMayEndAtTheEndOfAPage) {
  auto gradient = make_gradient(0);
  EndOfPage pages[6];
  const Options options;
  for (std::size_t size = 8; size <= sizeof(sclip_clipper_options); size += 8) {
    Handle handle;
    ASSERT_EQ(sclip_clipper_create(&kParameter, 1, pages[0].hold(options.clipper, size), &handle.clipper), SCLIP_OK)
        << size << sclip_last_error();
    const auto* const view =
        pages[1].hold(sclip_gradient_of(gradient.data(), SCLIP_FLOAT32), 24);  // without row_stride
    for (std::size_t report = 8; report <= sizeof(sclip_step_report); report += 8) {
      ASSERT_EQ(sclip_clipper_step(handle.clipper, view, 1, pages[2].hold(step_report(), report)), SCLIP_OK);
    }
    for (std::size_t report = 8; report <= sizeof(sclip_layer_report); report += 8) {
      auto* const clip = pages[3].hold(clip_report(), std::min(report, sizeof(sclip_clip_report)));
      ASSERT_EQ(sclip_clipper_layer_report(handle.clipper, 0, pages[4].hold(layer_report(), report), clip), SCLIP_OK);
    }
  }
  for (std::size_t size = 8; size < sizeof(sclip_parameter); size += 8) {
    Handle handle;
    const auto status = sclip_clipper_create(pages[5].hold(kParameter, size), 1, nullptr, &handle.clipper);
    EXPECT_EQ(status, size < 16 ? SCLIP_INVALID_ARGUMENT : SCLIP_OK) << size << ": a name, and 0 axes";
  }
}

// A newer program: its structs go on behind ours.
template <class Struct>
struct Newer {
  Struct known;
  std::uint64_t added[3];
};

TEST(CApiSizes, ALongerStructIsUnderstoodUnlessItAsksForWhatIsNotThere) {
  Newer<sclip_clip_options> newer;
  sclip_clip_options_init_sized(&newer.known, sizeof newer);
  EXPECT_EQ(newer.known.struct_size, sizeof newer);
  EXPECT_EQ(newer.added[0], 0U) << "initialised to its end";
  EXPECT_EQ(newer.added[2], 0U);
  EXPECT_EQ(clipped(&newer.known), clipped(nullptr));
  newer.added[1] = 7;
  auto gradient = make_gradient(2);
  const auto before = gradient;
  const sclip_matrix G = matrix_of(gradient);
  EXPECT_EQ(sclip_clip_matrix(&G, 2.0, &newer.known, nullptr), SCLIP_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sclip_last_error()).find("older than the program's header"), std::string::npos);
  EXPECT_EQ(gradient, before);
}

TEST(CApiSizes, ALongerReportIsFilledToItsEnd) {
  Newer<sclip_clip_report> newer;
  std::memset(&newer, 0xab, sizeof newer);
  newer.known.struct_size = sizeof newer;
  auto gradient = make_gradient(2);
  const sclip_matrix G = matrix_of(gradient);
  ASSERT_EQ(sclip_clip_matrix(&G, 2.0, nullptr, &newer.known), SCLIP_OK) << sclip_last_error();
  EXPECT_EQ(newer.known.struct_size, sizeof newer);
  EXPECT_EQ(newer.known.tau, 2.0);
  for (const std::uint64_t value : newer.added) EXPECT_EQ(value, 0U);
}

TEST(CApiSizes, ArraysMayBeOfAnotherSizeButOfOne) {
  Newer<sclip_parameter> parameters[2];
  std::memset(parameters, 0, sizeof parameters);
  parameters[0].known = kParameter;
  parameters[1].known = sclip_parameter_of("other", kShape, 2);
  for (auto& parameter : parameters) parameter.known.struct_size = sizeof parameter;
  Handle handle;
  ASSERT_EQ(sclip_clipper_create(&parameters[0].known, 2, nullptr, &handle.clipper), SCLIP_OK) << sclip_last_error();
  EXPECT_EQ(sclip_clipper_layer_count(handle.clipper), 2);
  sclip_layer_report layer = layer_report();
  ASSERT_EQ(sclip_clipper_layer_report(handle.clipper, 1, &layer, nullptr), SCLIP_OK);
  EXPECT_STREQ(layer.name, "other");
  parameters[1].known.struct_size = sizeof(sclip_parameter);
  Handle refused;
  EXPECT_EQ(sclip_clipper_create(&parameters[0].known, 2, nullptr, &refused.clipper), SCLIP_INVALID_ARGUMENT);
  EXPECT_NE(std::string(sclip_last_error()).find("of index 1"), std::string::npos) << sclip_last_error();
}

TEST(CApiSizes, StraySizesAreRefusedByName) {
  auto gradient = make_gradient(2);
  const sclip_matrix G = matrix_of(gradient);
  sclip_clip_options options = initialised(sclip_clip_options_init);
  for (const std::uint64_t stray :
       {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{12}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    options.struct_size = stray;
    EXPECT_EQ(sclip_clip_matrix(&G, 2.0, &options, nullptr), SCLIP_INVALID_ARGUMENT);
    EXPECT_NE(std::string(sclip_last_error()).find("sclip_clip_options.struct_size"), std::string::npos);
  }
}

}  // namespace
