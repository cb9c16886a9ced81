#include "attune/optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "model/option_domain.h"

namespace attune {
namespace {

// A piece of work for one thread: enough elements to be worth handing out, few enough to balance
// over any pool. Every piece covers the same elements whatever the pool, so the result cannot
// depend on it.
constexpr std::int64_t kPieceElements = 16384;

// The part of one parameter that a piece updates.
template <std::floating_point T>
struct Slice {
  std::span<T> value;
  std::span<const T> gradient;
  std::array<std::span<T>, 2> moments;  // as many as the rule has
};

// adamw and adam: the mean m and the mean square v of gradients.
struct AdamRule {
  static constexpr std::array<std::string_view, 2> kMoments{"m", "v"};
  OptimizerConfig config;

  struct Step {
    kernels::AdamStep decaying;
    kernels::AdamStep plain;  // of parameters that do not decay
    template <class T>
    void operator()(const Slice<T>& slice, bool decays) const {
      kernels::adam<T>(decays ? decaying : plain, slice.value, slice.gradient, slice.moments[0],
                       slice.moments[1]);
    }
  };
  [[nodiscard]] Step step(double gradient_scale, double lr, std::int64_t update) const {
    Step step;
    step.plain = {.lr = lr,
                  .beta1 = config.beta1,
                  .beta2 = config.beta2,
                  .eps = config.eps,
                  .gradient_scale = gradient_scale,
                  .update = update};
    step.decaying = step.plain;
    const bool decoupled = config.kind == "adamw";
    (decoupled ? step.decaying.decoupled_decay : step.decaying.added_decay) = config.weight_decay;
    return step;
  }
};

// sgd: one decaying sum m of gradients.
struct SgdRule {
  static constexpr std::array<std::string_view, 1> kMoments{"m"};
  OptimizerConfig config;

  struct Step {
    kernels::SgdStep decaying;
    kernels::SgdStep plain;
    template <class T>
    void operator()(const Slice<T>& slice, bool decays) const {
      kernels::sgd<T>(decays ? decaying : plain, slice.value, slice.gradient, slice.moments[0]);
    }
  };
  [[nodiscard]] Step step(double gradient_scale, double lr, std::int64_t /*update*/) const {
    Step step;
    step.plain = {.lr = lr, .momentum = config.momentum, .gradient_scale = gradient_scale};
    step.decaying = step.plain;
    step.decaying.added_decay = config.weight_decay;
    return step;
  }
};

std::string moment_name(std::string_view moment, const Parameter& parameter) {
  return fmt::format("optim.{}.{}", moment, parameter.name());
}

// An optimizer whose rule updates each element from its own gradient and moments.
template <class Rule>
class ElementwiseOptimizer final : public Optimizer {
 public:
  explicit ElementwiseOptimizer(const OptimizerConfig& config) : rule_{config} {}

  [[nodiscard]] std::int64_t updates() const override { return updates_; }

  [[nodiscard]] std::vector<std::pair<std::string, Array>> state(
      const ParameterStore& parameters) const override {
    std::vector<std::pair<std::string, Array>> state;
    for (std::size_t k = 0; k < kMomentCount; ++k) {
      for (const Parameter& parameter : parameters) {
        const auto i = static_cast<std::size_t>(parameter.index());
        const bool has_moments = i < moments_.size() && !moments_[i][k].is_null();
        if (!has_moments && parameter.is_frozen()) continue;
        state.emplace_back(
            moment_name(Rule::kMoments[k], parameter),
            has_moments ? moments_[i][k] : Array::zeros(parameter.shape(), parameter.dtype()));
      }
    }
    return state;
  }

  void restore(const ParameterStore& parameters, std::int64_t updates,
               std::span<const std::pair<std::string, Array>> state) override {
    std::unordered_map<std::string_view, const Array*> by_name;
    for (const auto& [name, array] : state) by_name.emplace(name, &array);
    std::vector<Moments> restored(static_cast<std::size_t>(parameters.count()));
    for (const Parameter& parameter : parameters) {
      for (std::size_t k = 0; k < kMomentCount; ++k) {
        const std::string name = moment_name(Rule::kMoments[k], parameter);
        const auto found = by_name.find(name);
        if (found == by_name.end()) {
          if (parameter.is_frozen()) continue;
          throw IoError(fmt::format("optimizer state: {} is missing", name));
        }
        restored[static_cast<std::size_t>(parameter.index())][k] =
            checked(name, *found->second, parameter);
        by_name.erase(found);
      }
    }
    if (!by_name.empty()) {
      throw IoError(fmt::format("optimizer state: {} belongs to no parameter",
                                printable(by_name.begin()->first)));
    }
    moments_ = std::move(restored);
    updates_ = updates;
  }

 private:
  void update(ParameterStore& parameters, std::span<const Array> gradients, double gradient_scale,
              double lr, ThreadPool& pool, UpdateStatistics* statistics) override {
    check_gradients(parameters, gradients);
    moments_.resize(gradients.size());
    plan(parameters, gradients);
    const auto step = rule_.step(gradient_scale, lr, updates_ + 1);
    pool.run(static_cast<int>(piece_begins_.size()) - 1, [&](int piece) {
      const auto i = static_cast<std::size_t>(piece);
      for (std::size_t part = piece_begins_[i]; part < piece_begins_[i + 1]; ++part) {
        run(parts_[part], gradients, step, statistics != nullptr);
      }
    });
    ++updates_;
    if (statistics) add_up(*statistics, gradients.size());
  }

  static constexpr std::size_t kMomentCount = Rule::kMoments.size();
  using Moments = std::array<Array, kMomentCount>;

  // Elements [begin, end) of a parameter; `value` is its writable array.
  struct Part {
    std::size_t parameter;
    Array* value;
    bool decays;
    std::size_t begin;
    std::size_t end;
    double weight_squares = 0;  // where they were asked for
    double update_squares = 0;
  };

  static Array checked(const std::string& name, const Array& array, const Parameter& parameter) {
    if (!(array.shape() == parameter.shape()) || array.dtype() != parameter.dtype()) {
      throw IoError(fmt::format("optimizer state: {} is {} {} but the parameter is {} {}", name,
                                to_string(array.dtype()), to_string(array.shape()),
                                to_string(parameter.dtype()), to_string(parameter.shape())));
    }
    return array;
  }

  static void check_gradients(const ParameterStore& parameters, std::span<const Array> gradients) {
    if (gradients.size() != static_cast<std::size_t>(parameters.count())) {
      throw ShapeError(fmt::format("optimizer: {} gradients for {} parameters", gradients.size(),
                                   parameters.count()));
    }
    for (const Parameter& parameter : parameters) {
      const Array& gradient = gradients[static_cast<std::size_t>(parameter.index())];
      if (gradient.is_null()) continue;
      if (!(gradient.shape() == parameter.shape()) || gradient.dtype() != parameter.dtype()) {
        throw ShapeError(fmt::format("optimizer: gradient {} {} does not fit {}, {} {}",
                                     to_string(gradient.dtype()), to_string(gradient.shape()),
                                     parameter.name(), to_string(parameter.dtype()),
                                     to_string(parameter.shape())));
      }
    }
  }

  // Makes values and moments writable and cuts the work into pieces: large parameters at multiples
  // of kPieceElements, small ones gathered until a piece is full. Part p of piece i:
  // piece_begins_[i] <= p < piece_begins_[i + 1].
  void plan(ParameterStore& parameters, std::span<const Array> gradients) {
    parts_.clear();
    piece_begins_.assign(1, 0);
    std::int64_t filled = 0;
    for (Parameter& parameter : parameters) {
      const auto i = static_cast<std::size_t>(parameter.index());
      if (gradients[i].is_null() || parameter.is_frozen()) continue;
      Array& value = parameter.writable_value();
      prepare_moments(moments_[i], value);
      for (std::int64_t begin = 0; begin < value.size(); begin += kPieceElements) {
        const std::int64_t end = std::min(begin + kPieceElements, value.size());
        if (filled + end - begin > kPieceElements) {
          piece_begins_.push_back(parts_.size());
          filled = 0;
        }
        parts_.push_back({i, &value, parameter.options().decays, static_cast<std::size_t>(begin),
                          static_cast<std::size_t>(end)});
        filled += end - begin;
      }
    }
    if (!parts_.empty()) piece_begins_.push_back(parts_.size());
  }

  // Zero before the first update. Where a checkpoint still holds them, the optimizer goes on with
  // copies.
  static void prepare_moments(Moments& moments, const Array& value) {
    for (Array& moment : moments) {
      if (moment.is_null()) {
        moment = Array::zeros(value.shape(), value.dtype());
      } else if (moment.is_shared()) {
        moment = moment.clone();
      }
    }
  }

  void run(Part& part, std::span<const Array> gradients, const typename Rule::Step& step,
           bool measures) {
    dispatch(part.value->dtype(), [&]<class T>() {
      // Blocks of whole vectors: an element meets the same arithmetic with and without them.
      constexpr std::size_t kBlock = 2048;
      std::array<T, kBlock> before;
      const std::size_t block = measures ? kBlock : part.end - part.begin;
      for (std::size_t begin = part.begin; begin < part.end; begin += block) {
        const Slice<T> slice =
            slice_of<T>(part, gradients, begin, std::min(begin + block, part.end));
        if (measures) std::ranges::copy(slice.value, before.begin());
        step(slice, part.decays);
        if (!measures) continue;
        const auto size = static_cast<std::int64_t>(slice.value.size());
        part.weight_squares += kernels::sum_of_squares_run(before.data(), size);
        part.update_squares +=
            kernels::sum_of_square_differences_run(slice.value.data(), before.data(), size);
      }
    });
  }

  template <class T>
  Slice<T> slice_of(const Part& part, std::span<const Array> gradients, std::size_t begin,
                    std::size_t end) {
    Slice<T> slice;
    slice.value = part.value->template mutable_data<T>().subspan(begin, end - begin);
    slice.gradient = gradients[part.parameter].template data<T>().subspan(begin, end - begin);
    for (std::size_t k = 0; k < kMomentCount; ++k) {
      slice.moments[k] =
          moments_[part.parameter][k].template mutable_data<T>().subspan(begin, end - begin);
    }
    return slice;
  }

  // The parts in their order, whichever threads they ran on.
  void add_up(UpdateStatistics& statistics, std::size_t count) const {
    statistics.weight_squares.assign(count, 0);
    statistics.update_squares.assign(count, 0);
    for (const Part& part : parts_) {
      statistics.weight_squares[part.parameter] += part.weight_squares;
      statistics.update_squares[part.parameter] += part.update_squares;
    }
  }

  Rule rule_;
  std::int64_t updates_ = 0;
  std::vector<Moments> moments_;  // of each parameter; null before its first update
  std::vector<Part> parts_;       // of the step at hand; kept for their capacity
  std::vector<std::size_t> piece_begins_;
};

}  // namespace

void Optimizer::step(ParameterStore& parameters, const Gradients& gradients, double lr) {
  std::vector<Array> by_index(static_cast<std::size_t>(parameters.count()));
  for (const Gradients::Entry& entry : gradients.entries()) {
    if (entry.parameter == nullptr) continue;
    if (parameters.find(entry.parameter->name()) != entry.parameter) {
      throw UsageError("optimizer: the parameter " + entry.parameter->name() +
                       " does not belong to the store that is updated");
    }
    by_index[static_cast<std::size_t>(entry.parameter->index())] = entry.gradient;
  }
  ThreadPool pool(1);
  step(parameters, by_index, 1, lr, pool);
}

void check(const OptimizerConfig& config) {
  static const std::array<std::string, 3> kKinds{"adamw", "adam", "sgd"};
  require_one_of("--optimizer", config.kind, kKinds);
  require_below_one("--beta1", config.beta1);
  require_below_one("--beta2", config.beta2);
  require_below_one("--momentum", config.momentum);
  // Smaller values round to 0 in float32, where a parameter without gradient would become 0 / 0.
  require_between("--eps", config.eps, 1e-30, 1e6);
  require_not_negative("--weight-decay", config.weight_decay);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config) {
  check(config);
  if (config.kind == "sgd") return std::make_unique<ElementwiseOptimizer<SgdRule>>(config);
  return std::make_unique<ElementwiseOptimizer<AdamRule>>(config);
}

}  // namespace attune
