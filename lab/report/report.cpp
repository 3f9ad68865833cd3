// SPDX-License-Identifier: Apache-2.0
#include "report/report.h"

#include <cstdint>
#include <span>

#include "clipper/atomic_file.h"
#include "report/collect.h"
#include "report/model.h"
#include "report/page.h"

namespace spectralclip::lab::report {

ReportResult write_report(const std::vector<std::string>& directories, const std::string& output_file,
                          const ReportOptions& options) {
  const Collection collection = collect(directories);
  const Json model = make_model(collection, {options.title, options.command});
  const std::string page = render_page(embedded_page(), model);
  write_text_atomically(output_file, page);
  return {collection.runs.size(), collection.sweeps.size(), model["figures"].size(), collection.warnings};
}

}  // namespace spectralclip::lab::report
