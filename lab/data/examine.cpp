// SPDX-License-Identifier: Apache-2.0
#include "data/examine.h"

#include <algorithm>
#include <filesystem>

#include "data/cifar10.h"
#include "data/data_error.h"
#include "data/llmc_model.h"
#include "data/mapped_file.h"
#include "data/safetensors.h"
#include "data/sha256.h"
#include "data/token_data.h"
#include "data/token_shards.h"

namespace spectralclip::lab::data {
namespace {

constexpr std::int64_t kGpt2Tokens = 50257;

std::string cifar_text(const MappedFile& file) {
  const std::int64_t records = check_cifar_batch(file.bytes(), file.path());
  return detail::concat(records, " images: ", to_string(cifar_origin(file.bytes())));
}

std::string shard_text(const MappedFile& file) {
  const auto tokens = parse_shard(file.bytes(), file.path());
  require_below(tokens, kGpt2Tokens, file.path());
  return detail::concat("a shard of ", tokens.size(), " GPT-2 tokens");
}

std::string model_text(const std::string& path) {
  if (path.ends_with(".safetensors"))
    return detail::concat("a safetensors file of ", Safetensors(path).tensors().size(), " tensors");
  const LlmcModelFile file(path);
  return detail::concat("a model of llm.c, ", file.model().shape.layers, " layers of ", file.model().shape.channels,
                        " channels");
}

// What the format says; throws DataError when it is broken.
std::string format_text(const DataSet& set, const std::string& path) {
  if (set.name == "gpt2") return model_text(path);
  if (path.ends_with(".bin")) {
    const MappedFile file(path);
    return set.name == "cifar10" ? cifar_text(file) : shard_text(file);
  }
  if (path.ends_with(".txt") || path.ends_with(".raw"))
    return detail::concat("a text with ", open_text(path).vocabulary_size, " different characters");
  return "a file whose sum is not in the list";
}

}  // namespace

Finding examine(const DataSet& set, const std::string& path) {
  Finding finding;
  finding.bytes = MappedFile(path).size();
  finding.sha256 = sha256_of_file(path);
  const auto same_sum = std::ranges::find(set.known, finding.sha256, &KnownFile::sha256);
  if (same_sum != set.known.end()) {
    finding.known = true;
    finding.text = same_sum->what;
    return finding;
  }
  const std::string name = std::filesystem::path(path).filename().string();
  const auto same_name = std::ranges::find(set.known, name, &KnownFile::name);
  try {
    finding.text = format_text(set, path);
    if (same_name == set.known.end()) return finding;
    finding.good = !same_name->only;
    finding.text += detail::concat(", but not the known ", name, " (", same_name->bytes, " bytes, SHA-256 ",
                                   same_name->sha256, ")");
  } catch (const DataError& error) {
    finding.good = false;
    finding.text = error.what();
  }
  return finding;
}

}  // namespace spectralclip::lab::data
