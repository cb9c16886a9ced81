#include "attune/observe/graph.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "attune/core/file.h"

namespace attune {
namespace {

std::string dot_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// "block.0.attention" -> "block.0", "block.0.attention": a number belongs to the name before it.
std::vector<std::string> modules_of(std::string_view path) {
  std::vector<std::string> modules;
  for (std::size_t end = 0; end < path.size();) {
    end = std::min(path.find('.', end + 1), path.size());
    const bool is_number_next =
        end + 1 < path.size() && std::isdigit(static_cast<unsigned char>(path[end + 1])) != 0;
    if (!is_number_next) modules.emplace_back(path.substr(0, end));
  }
  return modules;
}

// The name without that of the module it is in: "query.weight" in "block.0.attention".
std::string name_in(std::string_view module, std::string_view name) {
  const bool is_inside = !module.empty() && name.size() > module.size() &&
                         name.starts_with(module) && name[module.size()] == '.';
  return std::string(is_inside ? name.substr(module.size() + 1) : name);
}

struct Node {
  std::string path;
  std::string text;  // without the module's name
  bool is_parameter = false;
};

// A module's nodes, and the modules inside it.
struct Module {
  std::string path;
  std::vector<std::size_t> nodes{};
  std::vector<std::unique_ptr<Module>> inside{};

  Module& child(const std::string& child_path) {
    for (const auto& module : inside) {
      if (module->path == child_path) return *module;
    }
    return *inside.emplace_back(std::make_unique<Module>(Module{child_path}));
  }
};

class Graph final {
 public:
  Graph(const Tape& tape, const GraphOptions& options) : tape_(tape), options_(options) {
    for (std::size_t i = 0; i < tape.size(); ++i) add_record(tape.record_at(i));
    finish_visit();
  }

  std::string text() {
    Module root;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      Module* module = &root;
      for (const std::string& path : modules_of(nodes_[n].path)) module = &module->child(path);
      module->nodes.push_back(n);
    }
    std::string text =
        "digraph attune {\n"
        "  graph [fontname=\"Helvetica\", fontsize=11, style=\"rounded\", color=\"#8a94a6\"];\n"
        "  node [fontname=\"Helvetica\", fontsize=10, shape=box, style=\"rounded,filled\", "
        "color=\"#5b6b85\", fillcolor=\"#eef2f8\"];\n"
        "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#5b6b85\", fontcolor=\"#444444\"];\n";
    write(root, 1, text);
    for (const auto& [ends, shapes] : edges_) {
      text += fmt::format("  n{} -> n{} [label={}];\n", ends.first, ends.second,
                          dot_string(shapes_text(shapes)));
    }
    return text + "}\n";
  }

 private:
  using Counts = std::vector<std::pair<std::string, int>>;  // in the order of the first

  static void count(Counts& counts, const std::string& text) {
    for (auto& [known, times] : counts) {
      if (known == text) {
        ++times;
        return;
      }
    }
    counts.emplace_back(text, 1);
  }
  static std::string counts_text(const Counts& counts) {
    std::string text;
    for (const auto& [what, times] : counts) {
      if (!text.empty()) text += '\n';
      text += times == 1 ? what : fmt::format("{} \u00d7{}", what, times);
    }
    return text;
  }
  static std::string shapes_text(const std::vector<Shape>& shapes) {
    Counts counts;
    for (const Shape& shape : shapes) count(counts, to_string(shape));
    return counts_text(counts);
  }

  void add_record(const RecordView& record) {
    const bool goes_on =
        !options_.every_op && visit_ < nodes_.size() && nodes_[visit_].path == record.path;
    if (!goes_on) {
      finish_visit();
      visit_ = nodes_.size();
      nodes_.push_back({std::string(record.path), ""});
    }
    const std::size_t node = visit_;
    count(ops_, record.op.text);
    for (std::int32_t i = 0; i < record.outputs; ++i) {
      const std::int32_t slot = record.first_output + i;
      made_by_[slot] = node;
      if (options_.every_op) outputs_.push_back(tape_.shape_of(slot));
    }
    for (const std::int32_t slot : record.inputs) read(slot, node, record);
  }

  void read(std::int32_t slot, std::size_t node, const RecordView& record) {
    if (slot < 0) return;
    const Parameter* parameter = tape_.parameter_of(slot);
    const bool is_leaf = tape_.maker_of(slot) >= tape_.size();
    if (parameter && !options_.every_op) {
      const bool is_new = seen_.insert(slot).second;
      const std::string name = name_in(record.path, parameter->name());
      if (is_new) parameters_ += fmt::format("\n{} {}", name, to_string(parameter->shape()));
      if (is_new) made_by_[slot] = node;
    } else if (is_leaf && !made_by_.contains(slot)) {
      made_by_[slot] = nodes_.size();
      nodes_.push_back({parameter ? std::string(record.path) : "",
                        parameter ? name_in(record.path, parameter->name()) : "input",
                        parameter != nullptr});
      if (parameter) nodes_.back().text += '\n' + to_string(parameter->shape());
    }
    const std::size_t from = made_by_.at(slot);
    if (from != node) edges_[{from, node}].push_back(tape_.shape_of(slot));
  }

  // What was gathered belongs to the last visit.
  void finish_visit() {
    if (visit_ < nodes_.size()) {
      nodes_[visit_].text = counts_text(ops_) + parameters_;
      if (!outputs_.empty()) nodes_[visit_].text += '\n' + shapes_text(outputs_);
    }
    ops_.clear();
    parameters_.clear();
    outputs_.clear();
  }

  void write(const Module& module, int depth, std::string& text) const {
    const std::string indent(2 * static_cast<std::size_t>(depth), ' ');
    for (const std::size_t n : module.nodes) {
      const Node& node = nodes_[n];
      const bool is_named = !module.inside.empty() || options_.every_op || module.path.empty();
      const std::string name = is_named ? "" : last_name(module.path) + '\n';
      text += fmt::format("{}n{} [label={}{}];\n", indent, n, dot_string(name + node.text),
                          node.is_parameter ? ", shape=ellipse, fillcolor=\"#fff6e0\"" : "");
    }
    for (const auto& inside : module.inside) {
      const bool is_box = !inside->inside.empty() || options_.every_op;
      if (!is_box) {
        write(*inside, depth, text);
        continue;
      }
      text += fmt::format("{}subgraph {} {{\n{}  label={};\n", indent,
                          dot_string("cluster_" + inside->path), indent,
                          dot_string(last_name(inside->path)));
      write(*inside, depth + 1, text);
      text += indent + "}\n";
    }
  }

  // "attention" of "block.0.attention", "block.0" of "block.0".
  static std::string last_name(const std::string& path) {
    const std::vector<std::string> modules = modules_of(path);
    return modules.size() < 2 ? path : name_in(modules[modules.size() - 2], path);
  }

  const Tape& tape_;
  GraphOptions options_;
  std::vector<Node> nodes_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Shape>> edges_;
  std::map<std::int32_t, std::size_t> made_by_;  // slot -> node
  std::set<std::int32_t> seen_;                  // parameters that a module has listed
  // Of the node that records are added to.
  std::size_t visit_ = static_cast<std::size_t>(-1);
  Counts ops_;
  std::string parameters_;
  std::vector<Shape> outputs_;
};

}  // namespace

std::string to_dot(const Tape& tape, const GraphOptions& options) {
  return Graph(tape, options).text();
}

GradientObserver* GraphFile::gradients(StepPlace place) {
  return is_written_ || place.micro_batch != 0 || place.shard != 0 ? nullptr : this;
}

void GraphFile::on_output_gradients(const Tape& tape, const RecordView& /*record*/,
                                    std::span<const Array> /*dy*/) {
  if (std::exchange(is_written_, true)) return;
  write_file_atomically(file_, to_dot(tape, options_));
}

}  // namespace attune
