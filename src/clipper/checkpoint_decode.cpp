// SPDX-License-Identifier: Apache-2.0
// From bytes to a clipper's state, in three refusals: the envelope (magic, version, length, checksum), the content
// (every count and value in its range), the model (names and shapes). Nothing of the clipper is touched.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "clipper/byte_stream.h"
#include "clipper/checkpoint.h"
#include "clipper/checkpoint_format.h"
#include "clipper/saved_threshold.h"
#include "subspace/search.h"
#include "threshold/state_check.h"

namespace spectralclip {
namespace {

constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;  // counters count on from here without overflow
constexpr std::int64_t kSubspacePadding = 64;                  // a pass may be wider than the matrix by a vector or so
constexpr float kLargestEntry = 2;                             // of a unit vector, with room for any rounding
constexpr std::size_t kListedNames = 5;

struct SavedLayer {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t steps = 0;
  std::int64_t steps_clipped = 0;
  SavedThreshold threshold;
  SubspaceState subspace;
};

template <class... Parts>
void require_state(bool condition, const Parts&... parts) {
  if (!condition) throw StateFileError(detail::concat(parts...));
}

// The payload between header and checksum.
std::span<const std::uint8_t> open_envelope(std::span<const std::uint8_t> bytes) {
  require_state(bytes.size() >= kHeaderBytes + kChecksumBytes, "state is too short: ", bytes.size(), " of at least ",
                kHeaderBytes + kChecksumBytes, " bytes");
  require_state(std::equal(kCheckpointMagic.begin(), kCheckpointMagic.end(), bytes.begin()),
                "not a spectralclip state: it does not begin with its magic number");
  ByteReader header(bytes.subspan(kCheckpointMagic.size()));
  const auto version = header.integer<std::uint32_t>("format version");
  const auto library = header.integer<std::uint32_t>("library version");
  require_state(version <= kCheckpointVersion, "state has format version ", version, " (written by ", library >> 16,
                ".", library >> 8 & 0xffU, ".", library & 0xffU, "); this library reads up to ", kCheckpointVersion);
  require_state(version >= 1, "state has format version 0, which never was");
  (void)header.integer<std::uint64_t>("fingerprint");
  const auto payload = header.integer<std::uint64_t>("payload length");
  const std::size_t present = bytes.size() - kHeaderBytes - kChecksumBytes;
  require_state(payload <= present, "state is truncated at byte ", bytes.size(), ": its header promises ", payload,
                " bytes of payload, ", present, " are there");
  require_state(payload == present, "state has ", present - payload, " bytes too many");
  const auto sealed = bytes.first(bytes.size() - kChecksumBytes);
  const auto checksum = ByteReader(bytes.last(kChecksumBytes)).integer<std::uint64_t>("checksum");
  require_state(checksum == checksum_of(sealed), "state is damaged: its checksum does not match");
  return sealed.subspan(kHeaderBytes);
}

std::int64_t read_count(ByteReader& in, std::int64_t most, const char* field, const std::string& name) {
  const auto value = in.integer<std::int64_t>(field);
  require_state(value >= 0 && value <= most, "state of layer \"", name, "\": ", field, " = ", value, " is not in [0, ",
                most, "]");
  return value;
}

double read_magnitude(ByteReader& in, const char* field, const std::string& name) {
  const double value = in.float64(field);
  require_state(std::isfinite(value) && value >= 0, "state of layer \"", name, "\": ", field, " = ", value,
                " is not a finite number >= 0");
  return value;
}

SavedThreshold read_threshold(ByteReader& in, const std::string& name) {
  SavedThreshold saved;
  const auto kind = in.integer<std::uint8_t>("threshold kind");
  require_state(kind <= static_cast<std::uint8_t>(ThresholdKind::quantile), "state of layer \"", name,
                "\": threshold kind ", int{kind}, " is unknown");
  saved.kind = static_cast<ThresholdKind>(kind);
  saved.decay = in.float64("decay");
  saved.observed = read_count(in, kLargestCount, "observed", name);
  saved.average = read_magnitude(in, "average", name);
  const std::size_t count = in.count(sizeof(double), "window length");
  require_state(std::cmp_less_equal(count, saved.observed), "state of layer \"", name, "\": a window of ", count,
                " values after ", saved.observed, " observed");
  for (std::size_t i = 0; i < count; ++i) saved.values.push_back(read_magnitude(in, "window value", name));
  return saved;
}

SubspaceState read_subspace(ByteReader& in, const SavedLayer& layer) {
  SubspaceState state;
  const std::int64_t longest = std::max(layer.rows, layer.cols);
  state.cols = read_count(in, longest, "subspace length", layer.name);
  state.columns = read_count(in, longest + kSubspacePadding, "subspace columns", layer.name);  // 0: the rank is fixed
  require_state(state.columns == 0 || state.columns >= kLeastKept, "state of layer \"", layer.name, "\": a width of ",
                state.columns, " is below ", kLeastKept);
  state.kept = read_count(in, longest + kSubspacePadding, "kept vectors", layer.name);
  state.calm_steps = read_count(in, kLargestCount, "calm steps", layer.name);
  state.clipped_lately = read_count(in, longest, "directions clipped", layer.name);
  require_state(state.cols == 0 || state.cols == layer.rows || state.cols == layer.cols, "state of layer \"",
                layer.name, "\": vectors of length ", state.cols, " in a ", layer.rows, " x ", layer.cols, " matrix");
  const std::size_t entries = in.count(sizeof(float), "subspace entries");
  const bool fitting = state.kept == 0 ? entries == 0
                                       : state.cols > 0 && entries % static_cast<std::size_t>(state.cols) == 0 &&
                                             std::cmp_equal(entries / static_cast<std::size_t>(state.cols), state.kept);
  require_state(fitting, "state of layer \"", layer.name, "\": ", entries, " subspace entries for ", state.kept,
                " vectors of length ", state.cols);
  state.V.resize(entries);
  for (float& value : state.V) {
    value = in.float32("subspace entry");
    require_state(std::abs(value) <= kLargestEntry, "state of layer \"", layer.name, "\": ", value,
                  " in a vector of norm 1");
  }
  return state;
}

SavedLayer read_layer(ByteReader& in) {
  SavedLayer layer;
  layer.name = in.text("layer name");
  layer.rows = read_count(in, std::numeric_limits<std::int64_t>::max() / 2, "rows", layer.name);
  layer.cols = read_count(in, std::numeric_limits<std::int64_t>::max() / 2, "cols", layer.name);
  layer.steps = read_count(in, kLargestCount, "steps", layer.name);
  layer.steps_clipped = read_count(in, layer.steps, "steps clipped", layer.name);
  layer.threshold = read_threshold(in, layer.name);
  layer.subspace = read_subspace(in, layer);
  return layer;
}

// Grows with what was really read, whatever number of layers the file claims.
std::vector<SavedLayer> read_layers(ByteReader& in) {
  const std::size_t count = in.count(kLayerFixedBytes, "number of layers");
  std::vector<SavedLayer> layers;
  for (std::size_t i = 0; i < count; ++i) layers.push_back(read_layer(in));
  require_state(in.remaining() == 0, "state has ", in.remaining(), " bytes after its last layer");
  return layers;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kListedNames); ++i) text += (i > 0 ? ", " : " ") + names[i];
  if (names.size() > kListedNames) text += " and " + std::to_string(names.size() - kListedNames) + " more";
  return text;
}

using LayersByName = std::unordered_map<std::string_view, SavedLayer*>;

void require_same_names(const LayersByName& saved, const LayerSet& set) {
  std::vector<std::string> missing;
  std::unordered_map<std::string_view, bool> expected;
  for (const LayerReport& report : set.reports) {
    expected.emplace(report.name, true);
    if (!saved.contains(report.name)) missing.push_back(report.name);
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, layer] : saved)
    if (!expected.contains(name)) unexpected.emplace_back(name);
  if (missing.empty() && unexpected.empty()) return;
  std::sort(unexpected.begin(), unexpected.end());
  std::string text = "state is of another model:";
  if (!missing.empty()) text += " missing" + listed(missing);
  if (!unexpected.empty()) text += (missing.empty() ? " unexpected" : "; unexpected") + listed(unexpected);
  throw StateFileError(text);
}

LayerState matched(SavedLayer& saved, const Layer& layer, const LayerReport& report, std::string& note) {
  require_state(saved.rows == report.rows && saved.cols == report.cols, "state is of another model: layer \"",
                report.name, "\" is ", saved.rows, " x ", saved.cols, " there and ", report.rows, " x ", report.cols,
                " here");
  LayerState state{saved.steps, saved.steps_clipped, restored(saved.threshold, layer.threshold, &note),
                   std::move(saved.subspace)};
  require_state(fits(layer.threshold, state.threshold), "state of layer \"", report.name,
                "\": its threshold is inconsistent");
  return state;
}

// Layers of equal fate in one line.
class Notes {
 public:
  void add(const std::string& note, const std::string& layer) {
    if (note.empty()) return;
    const auto same =
        std::find_if(groups_.begin(), groups_.end(), [&](const auto& group) { return group.first == note; });
    if (same == groups_.end()) {
      groups_.push_back({note, {layer}});
    } else {
      same->second.push_back(layer);
    }
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const auto& [note, layers] : groups_) lines.push_back(note + " (layers" + listed(layers) + ")");
    return lines;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> groups_;
};

}  // namespace

Checkpoint decode_checkpoint(std::span<const std::uint8_t> bytes, const LayerSet& set) {
  ByteReader in(open_envelope(bytes));
  Checkpoint checkpoint;
  checkpoint.steps = read_count(in, kLargestCount, "steps", "(all)");
  std::vector<SavedLayer> saved = read_layers(in);
  LayersByName by_name;
  for (SavedLayer& layer : saved)
    require_state(by_name.emplace(layer.name, &layer).second, "state holds layer \"", layer.name, "\" twice");
  require_same_names(by_name, set);
  Notes notes;
  for (std::size_t i = 0; i < set.layers.size(); ++i) {
    std::string note;
    checkpoint.layers.push_back(matched(*by_name.at(set.reports[i].name), set.layers[i], set.reports[i], note));
    notes.add(note, set.reports[i].name);
  }
  checkpoint.notes = notes.lines();
  return checkpoint;
}

}  // namespace spectralclip
