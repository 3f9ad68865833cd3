// SPDX-License-Identifier: Apache-2.0
#include "tasks.h"

#include <algorithm>

#include "config/keys.h"
#include "require.h"
#include "spectralclip/settings.h"
#include "studies/tasks.h"
#include "tasks/task_list.h"

namespace spectralclip::cli {

const std::vector<lab::TaskInfo>& all_tasks() {
  static const std::vector<lab::TaskInfo> tasks = [] {
    std::vector<lab::TaskInfo> all = lab::training_tasks();
    for (lab::TaskInfo& task : lab::study_tasks()) all.push_back(std::move(task));
    return all;
  }();
  return tasks;
}

const lab::TaskInfo& find_task(std::string_view name) {
  std::vector<std::string> names;
  for (const lab::TaskInfo& task : all_tasks()) {
    if (task.name == name) return task;
    names.push_back(task.name);
  }
  std::string known;
  for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
  const std::string near = nearest_name(name, names);
  throw InvalidArgument(detail::concat("no task is called \"", name, "\"",
                                       near.empty() ? "" : "; did you mean \"" + near + "\"?", " (known: ", known,
                                       ")"));
}

void require_read(const lab::TaskInfo& task, const lab::Resolved& resolved) {
  for (const std::string& key : resolved.keys) {
    const std::string group = lab::group_of(key);
    if (group.empty() || std::find(task.groups.begin(), task.groups.end(), group) != task.groups.end()) continue;
    throw InvalidArgument(
        detail::concat(key, " has no effect on the task ", task.name, ", which does not read [", group, "]"));
  }
}

}  // namespace spectralclip::cli
