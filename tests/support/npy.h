// SPDX-License-Identifier: Apache-2.0
// Reads the recorded gradients beside the checkout: .npy, version 1, little-endian float32, C order, three axes.
// Nothing else of the format is understood, and a file that is something else is refused with its name.
#pragma once

#include <Eigen/Core>
#include <optional>
#include <string>
#include <vector>

namespace spectralclip::testing {

// $SPECTRALCLIP_DATA/gradients, else ../shared/data/gradients; nullopt when there is no such folder.
[[nodiscard]] std::optional<std::string> gradients_folder();

// One matrix per step. Throws std::runtime_error when the file is missing, damaged or of another kind.
[[nodiscard]] std::vector<Eigen::MatrixXd> read_npy_sequence(const std::string& path);

inline constexpr const char* kRecordedFiles[] = {"attn_c_proj_256x256.npy", "mlp_c_fc_1024x256.npy"};
inline constexpr const char* kNoRecordedGradients =
    "no recorded gradients: put them in ../shared/data/gradients or set SPECTRALCLIP_DATA";

}  // namespace spectralclip::testing
