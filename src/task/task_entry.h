#pragma once

#include <memory>
#include <string_view>

#include "attune/task/task.h"

namespace attune {

// What a task's file offers to the list of tasks in registry.cpp.
struct TaskEntry {
  std::string_view name;
  std::string_view description;
  std::unique_ptr<Task> (*make)(const TaskOptions&);
};

[[nodiscard]] TaskEntry copy_task();
[[nodiscard]] TaskEntry reverse_task();
[[nodiscard]] TaskEntry sort_task();
[[nodiscard]] TaskEntry addition_task();
[[nodiscard]] TaskEntry modular_task();
[[nodiscard]] TaskEntry parity_task();
[[nodiscard]] TaskEntry recall_task();
[[nodiscard]] TaskEntry induction_task();
[[nodiscard]] TaskEntry brackets_task();
[[nodiscard]] TaskEntry text_task();

}  // namespace attune
