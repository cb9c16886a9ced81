#include <array>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "attune/task/task.h"
#include "task/task_entry.h"

namespace attune {
namespace {

std::array<TaskEntry, 10> entries() {
  return {copy_task(),   reverse_task(), sort_task(),      addition_task(), modular_task(),
          parity_task(), recall_task(),  induction_task(), brackets_task(), text_task()};
}

}  // namespace

std::unique_ptr<Task> make_task(const TaskOptions& options) {
  std::vector<std::string> names;
  for (const TaskEntry& entry : entries()) {
    if (entry.name == options.name) return entry.make(options);
    names.emplace_back(entry.name);
  }
  throw ConfigError(fmt::format("unknown task \"{}\"; there are {}{}", options.name,
                                fmt::join(names, ", "), did_you_mean(options.name, names)));
}

std::vector<TaskInfo> list_tasks() {
  std::vector<TaskInfo> infos;
  for (const TaskEntry& entry : entries())
    infos.push_back({std::string(entry.name), std::string(entry.description)});
  return infos;
}

}  // namespace attune
