// SPDX-License-Identifier: Apache-2.0
#include "report/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "clipper/atomic_file.h"

namespace spectralclip::lab::report {
namespace {

using Row = std::vector<std::string>;

std::string cell_text(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

std::string cell_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return {};
  return value.is_number_float() ? cell_text(value.get<double>()) : value.dump();
}

Row key_of(const Run& run) { return {run.directory, run.name, std::to_string(run.seed)}; }

// A column for each name, in the order of first appearance; rows are filled up with nothing.
class Wide {
 public:
  explicit Wide(std::string name, Row columns) : table_{std::move(name), std::move(columns), {}} {}
  void start(Row values) { table_.rows.push_back(std::move(values)); }
  void set(const std::string& column, std::string value) {
    const auto found = std::find(table_.columns.begin(), table_.columns.end(), column);
    const auto place = static_cast<std::size_t>(found - table_.columns.begin());
    if (found == table_.columns.end()) table_.columns.push_back(column);
    Row& row = table_.rows.back();
    if (row.size() <= place) row.resize(place + 1);
    row[place] = std::move(value);
  }
  Table take() {
    for (Row& row : table_.rows) row.resize(table_.columns.size());
    return std::move(table_);
  }

 private:
  Table table_;
};

Table runs_table(const Collection& collection) {
  Wide table("runs", {"directory", "name", "seed", "task", "status", "step", "steps", "seconds", "diverged_at"});
  for (const Run& run : collection.runs) {
    Row row = key_of(run);
    row.insert(row.end(), {run.task, run.status, cell_text(run.step), cell_text(run.steps), cell_text(run.seconds),
                           cell_text(run.diverged_at)});
    table.start(std::move(row));
    for (const auto& [name, value] : run.results.items()) table.set("result." + name, cell_text(value));
    for (const auto& [key, value] : run.settings) table.set(key, value);
  }
  return table.take();
}

Table metrics_table(const Collection& collection) {
  Table table{"metrics", {"directory", "name", "seed", "metric", "step", "seconds", "value"}, {}};
  for (const Run& run : collection.runs) {
    for (const auto& [metric, series] : run.metrics) {
      for (std::size_t i = 0; i < series.step.size(); ++i) {
        Row row = key_of(run);
        row.insert(row.end(),
                   {metric, cell_text(series.step[i]), cell_text(series.seconds[i]), cell_text(series.value[i])});
        table.rows.push_back(std::move(row));
      }
    }
  }
  return table;
}

Table layers_table(const Collection& collection) {
  Table table{"layers", {"directory", "name", "seed", "layer", "step", "sigma_max", "tau"}, {}};
  for (const Run& run : collection.runs) {
    for (const auto& [layer, series] : run.layers) {
      for (std::size_t i = 0; i < series.step.size(); ++i) {
        Row row = key_of(run);
        row.insert(row.end(), {layer, cell_text(series.step[i]), cell_text(series.sigma[i]), cell_text(series.tau[i])});
        table.rows.push_back(std::move(row));
      }
    }
  }
  return table;
}

Table spectra_table(const Collection& collection) {
  Table table{"spectra", {"directory", "name", "seed", "layer", "step", "index", "before", "after"}, {}};
  for (const Run& run : collection.runs) {
    for (const auto& [layer, spectra] : run.spectra) {
      for (const Spectrum& spectrum : spectra) {
        for (std::size_t i = 0; i < spectrum.before.size(); ++i) {
          Row row = key_of(run);
          const double after = i < spectrum.after.size() ? spectrum.after[i] : kNothing;
          row.insert(row.end(), {layer, cell_text(spectrum.step), std::to_string(i + 1), cell_text(spectrum.before[i]),
                                 cell_text(after)});
          table.rows.push_back(std::move(row));
        }
      }
    }
  }
  return table;
}

Table trials_table(const Collection& collection) {
  Wide table("trials", {"directory", "name", "metric", "trial", "status", "value", "seconds"});
  for (const Sweep& sweep : collection.sweeps) {
    for (const Trial& trial : sweep.trials) {
      table.start({sweep.directory, sweep.name, sweep.metric, std::to_string(trial.number), trial.status,
                   cell_text(trial.value), cell_text(trial.seconds)});
      for (const auto& [key, value] : trial.values) table.set(key, cell_text(value));
    }
  }
  return table.take();
}

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

void append_line(std::string& text, const Row& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0) text += ',';
    text += field(row[i]);
  }
  text += "\r\n";
}

}  // namespace

std::vector<Table> tables_of(const Collection& collection) {
  std::vector<Table> tables = {runs_table(collection), metrics_table(collection), layers_table(collection),
                               spectra_table(collection), trials_table(collection)};
  std::erase_if(tables, [](const Table& table) { return table.rows.empty(); });
  return tables;
}

std::string csv_text(const Table& table) {
  std::string text;
  append_line(text, table.columns);
  for (const Row& row : table.rows) append_line(text, row);
  return text;
}

std::vector<std::string> write_tables(const Collection& collection, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::vector<std::string> paths;
  for (const Table& table : tables_of(collection)) {
    paths.push_back(folder + "/" + table.name + ".csv");
    write_text_atomically(paths.back(), csv_text(table));
  }
  return paths;
}

}  // namespace spectralclip::lab::report
