// SPDX-License-Identifier: Apache-2.0
// What lab/data makes of files, for tests in Python, which write and read the same files with the real libraries:
//
//   data_tool safetensors IN OUT         reads IN and writes OUT
//   data_tool floats IN NAME OUT         one tensor of a safetensors file as float32
//   data_tool llmc IN OUT                reads a model of llm.c and writes it again
//   data_tool tokens PATH SIZE OUT       train, then validation, as int64; prints their sizes and the vocabulary's
//   data_tool cifar FOLDER OUT           all labels as int64, then all images
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "data/cifar10.h"
#include "data/llmc_model.h"
#include "data/safetensors.h"
#include "data/token_data.h"

namespace {

using namespace spectralclip::lab::data;

template <class T>
void put(std::ofstream& out, const std::vector<T>& values) {
  out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
}

void floats(const std::string& in, const std::string& name, const std::string& out) {
  const Safetensors file(in);
  const TensorView* const tensor = file.find(name);
  const TensorView& found = tensor != nullptr ? *tensor : file.require(name, {});
  std::vector<float> values(static_cast<std::size_t>(found.entries()));
  to_float(found, values);
  std::ofstream stream(out, std::ios::binary);
  put(stream, values);
}

void tokens(const std::string& path, const std::string& vocabulary, const std::string& out) {
  const TokenData data = open_tokens(path, std::stoll(vocabulary));
  std::ofstream stream(out, std::ios::binary);
  for (const Tokens* const part : {&data.train, &data.validation}) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(part->size()));
    part->copy(0, std::span(values));
    put(stream, values);
  }
  std::printf("%lld %lld %lld\n", static_cast<long long>(data.train.size()),
              static_cast<long long>(data.validation.size()), static_cast<long long>(data.vocabulary_size));
}

void cifar(const std::string& folder, const std::string& out) {
  const Cifar10 data = open_cifar10(folder);
  std::ofstream stream(out, std::ios::binary);
  for (const CifarImages* const part : {&data.train, &data.test}) {
    std::vector<std::int64_t> labels(static_cast<std::size_t>(part->size()));
    part->copy_labels(0, labels);
    put(stream, labels);
  }
  for (const CifarImages* const part : {&data.train, &data.test}) {
    std::vector<std::uint8_t> images(static_cast<std::size_t>(part->size() * kCifarPixels));
    part->copy_images(0, images);
    put(stream, images);
  }
  std::printf("%s\n", data.source.c_str());
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "safetensors") {
    const Safetensors file(words[1]);
    write_safetensors(words[2], file.tensors(), file.metadata());
  } else if (words.size() == 4 && words[0] == "floats") {
    floats(words[1], words[2], words[3]);
  } else if (words.size() == 3 && words[0] == "llmc") {
    const LlmcModelFile file(words[1]);
    write_llmc_model(words[2], file.model().shape, file.model().tensors);
  } else if (words.size() == 4 && words[0] == "tokens") {
    tokens(words[1], words[2], words[3]);
  } else if (words.size() == 3 && words[0] == "cifar") {
    cifar(words[1], words[2]);
  } else {
    std::fprintf(stderr, "data_tool: see the head of its source\n");
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
