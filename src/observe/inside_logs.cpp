#include "attune/observe/inside_logs.h"

#include <cmath>

#include <fmt/format.h>

namespace attune {
namespace {

// Every step may have a line for each parameter, so lines are put together by hand and handed over
// at once; the names in them need no escapes.
using Lines = fmt::memory_buffer;

// Shortest decimals that read back as the same double. What is not finite has no field.
void add_number(Lines& lines, std::string_view name, double value) {
  if (std::isfinite(value)) fmt::format_to(std::back_inserter(lines), ",\"{}\":{}", name, value);
}

void end_line(Lines& lines) { lines.append(std::string_view("}\n")); }

void write(LineLog& log, const Lines& lines) { log.write_bytes({lines.data(), lines.size()}); }

}  // namespace

void GradientLog::on_step(const StepRecord& record) {
  if (!record.update || record.update->parameters.empty()) return;
  Lines lines;
  for (const ParameterRecord& parameter : record.update->parameters) {
    fmt::format_to(std::back_inserter(lines), "{{\"step\":{},\"parameter\":\"{}\"", record.step,
                   parameter.name);
    add_number(lines, "gradient_rms", parameter.gradient_rms);
    add_number(lines, "weight_rms", parameter.weight_rms);
    add_number(lines, "update_rms", parameter.update_rms);
    add_number(lines, "gradient_weight_ratio", parameter.gradient_rms / parameter.weight_rms);
    add_number(lines, "update_weight_ratio", parameter.update_rms / parameter.weight_rms);
    add_number(lines, "clipped_share", record.update->clipped_share);
    end_line(lines);
  }
  write(log_, lines);
}

double dead_up_to(Activation activation) { return activation == Activation::relu ? 0 : 1e-3; }

void ActivationLog::on_step(const StepRecord& record) {
  if (!record.activations || record.activations->places().empty()) return;
  Lines lines;
  for (const ActivationStatistics::Place& place : record.activations->places()) {
    fmt::format_to(std::back_inserter(lines), "{{\"step\":{},\"layer\":{},\"point\":\"{}\"",
                   record.step, place.layer, to_string(place.point));
    add_number(lines, "rms", place.rms());
    if (const auto share = place.dead_share(dead_up_to_)) add_number(lines, "dead_share", *share);
    end_line(lines);
  }
  write(log_, lines);
}

}  // namespace attune
