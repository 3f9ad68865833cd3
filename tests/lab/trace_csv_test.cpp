// SPDX-License-Identifier: Apache-2.0
// The published table from run directories that are written here by hand.
#include "studies/trace_csv.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "scratch_folder.h"
#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

namespace fs = std::filesystem;

class TraceCsv : public ::testing::Test {
 protected:
  std::string write_run(const std::string& name, const std::string& metrics, const std::string& sigma = "0.01",
                        const std::string& task = "trace-regression") {
    const fs::path run = fs::path(folder()) / name;
    fs::create_directories(run);
    std::ofstream(run / "metrics.jsonl") << metrics;
    std::ofstream(run / "summary.json") << R"({"status":"finished","task":")" << task
                                        << R"(","settings":{"trace.sigma":")" << sigma << R"("}})";
    return run.string();
  }
  [[nodiscard]] const std::string& folder() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST_F(TraceCsv, MeanDeviationAndRangeOverSeeds) {
  const std::string a = write_run("a", R"({"step":1,"seconds":0.1,"EMA":1.0,"constant_tau_0.05":0.5}
{"step":5,"seconds":0.2,"EMA":0.25,"constant_tau_0.05":0.5}
)");
  const std::string b = write_run("b", R"({"step":1,"seconds":0.3,"EMA":3.0,"constant_tau_0.05":0.5}
{"step":5,"seconds":0.4,"EMA":0.75,"constant_tau_0.05":null}
)");
  const std::string path = write_trace_csv({a, b}, folder());
  EXPECT_EQ(path, folder() + "/tracereg_sigma0.01_seeds2.csv");
  EXPECT_EQ(text_of(path),
            "method,iteration,mean,std,min,max\n"
            "EMA,0,2.0,1.0,1.0,3.0\n"
            "EMA,4,0.5,0.25,0.25,0.75\n"
            "constant_tau_0.05,0,0.5,0.0,0.5,0.5\n"
            "constant_tau_0.05,4,,,,\n");
}

TEST_F(TraceCsv, RunsThatDoNotBelongTogetherAreRefused) {
  const std::string a = write_run("a", "{\"step\":1,\"EMA\":1.0}\n");
  EXPECT_THROW((void)write_trace_csv({}, folder()), InvalidArgument);
  EXPECT_THROW((void)write_trace_csv({a, write_run("b", "{\"step\":2,\"EMA\":1.0}\n")}, folder()), InvalidArgument);
  EXPECT_THROW((void)write_trace_csv({a, write_run("c", "{\"step\":1,\"Quantile\":1.0}\n")}, folder()),
               InvalidArgument);
  EXPECT_THROW((void)write_trace_csv({a, write_run("d", "{\"step\":1,\"EMA\":1.0}\n", "0.1")}, folder()),
               InvalidArgument);
  EXPECT_THROW((void)write_trace_csv({write_run("e", "{\"step\":1,\"EMA\":1.0}\n", "0.01", "rates")}, folder()),
               InvalidArgument);
  EXPECT_THROW((void)write_trace_csv({a, folder() + "/nowhere"}, folder()), StateFileError);
  EXPECT_THROW((void)write_trace_csv({write_run("f", "{\"step\":1,")}, folder()), StateFileError);
  EXPECT_THROW((void)write_trace_csv({write_run("g", "{\"EMA\":1}\n")}, folder()), StateFileError);
  EXPECT_FALSE(fs::exists(folder() + "/tracereg_sigma0.01_seeds2.csv"));
}

}  // namespace
}  // namespace spectralclip::lab
