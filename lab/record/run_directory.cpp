// SPDX-License-Identifier: Apache-2.0
#include "record/run_directory.h"

#include <filesystem>

#include "clipper/atomic_file.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

std::optional<std::string> text_if_there(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_text(path);
}

// {"step": …, "seconds": …} and the values; nlohmann writes non-finite numbers as null.
nlohmann::ordered_json line_of(std::int64_t step, const nlohmann::ordered_json& values, std::optional<double> seconds) {
  nlohmann::ordered_json line{{"step", step}};
  if (seconds) line["seconds"] = *seconds;
  line.update(values);
  return line;
}

}  // namespace

RunDirectory::RunDirectory(const std::string& path) : path_(path), lock_(path) {}

std::optional<std::string> RunDirectory::config() const { return text_if_there(file("config.toml")); }

std::optional<nlohmann::ordered_json> RunDirectory::summary() const {
  const auto text = text_if_there(file("summary.json"));
  if (!text) return std::nullopt;
  auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    throw StateFileError(file("summary.json") + " is damaged: no JSON object");
  return json;
}

std::optional<CheckpointFile> RunDirectory::checkpoint() const {
  if (!std::filesystem::exists(file("checkpoint.bin"))) return std::nullopt;
  return CheckpointFile(file("checkpoint.bin"));
}

void RunDirectory::open(const std::string& config, std::int64_t last_step, double seconds) {
  const std::int64_t keep = last_step > 0 ? last_step : -1;
  metrics_ = std::make_unique<JsonlFile>(file("metrics.jsonl"), keep);
  layers_ = std::make_unique<JsonlFile>(file("layers.jsonl"), keep);
  spectra_ = std::make_unique<JsonlFile>(file("spectra.jsonl"), keep);
  write_text_atomically(file("config.toml"), config);
  config_ = config;
  earlier_seconds_ = seconds;
  start_ = std::chrono::steady_clock::now();
}

void RunDirectory::metrics(std::int64_t step, const nlohmann::ordered_json& values) {
  metrics_->append(line_of(step, values, seconds()));
}
void RunDirectory::layers(std::int64_t step, const nlohmann::ordered_json& values) {
  layers_->append(line_of(step, values, std::nullopt));
}
void RunDirectory::spectra(std::int64_t step, const nlohmann::ordered_json& values) {
  spectra_->append(line_of(step, values, std::nullopt));
}

void RunDirectory::flush() {
  metrics_->flush();
  layers_->flush();
  spectra_->flush();
}

void RunDirectory::save(std::int64_t step, const std::function<void(StateWriter&)>& write) {
  metrics_->sync();
  layers_->sync();
  spectra_->sync();
  CheckpointWriter writer(file("checkpoint.bin"), {config_, step, seconds()});
  write(writer);
  writer.commit();
}

void RunDirectory::write_summary(const nlohmann::ordered_json& summary) {
  write_text_atomically(file("summary.json"), summary.dump(2) + "\n");
}

double RunDirectory::seconds() const {
  return earlier_seconds_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace spectralclip::lab
