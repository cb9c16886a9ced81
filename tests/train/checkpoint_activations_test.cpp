#include <string>
#include <vector>

#include "attune/array/buffer_pool.h"
#include "attune/train/training_step.h"
#include "train/train_test.h"

// --checkpoint-activations: the same bits in less memory.
namespace attune::checkpoint_activations_test {

StepResult step_of(const Transformer& model, const Batch& batch, bool checkpoints) {
  ThreadPool pool(2);
  TrainingStep::Options options;
  options.random = {.seed = 5, .step = 3};
  options.statistics = true;
  options.checkpoint_activations = checkpoints;
  return TrainingStep(model, pool, 3).run({&batch, 1}, options);
}

TEST(CheckpointActivations, GradientsAndStatisticsAreBitwiseThoseWithout) {
  for (const EncodingInfo& encoding : list_encodings()) {
    for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
      SCOPED_TRACE(encoding.name);
      TransformerConfig config = small_config();
      config.positions = encoding.name;
      config.norm_position = norm;
      config.random_positions = norm == NormPosition::pre ? 0 : 40;
      config.dropout = 0.2;
      const Transformer model = random_model(config, DType::float32);
      const Batch batch = random_batch(7, 5, 1);
      const StepResult with = step_of(model, batch, true), without = step_of(model, batch, false);
      EXPECT_EQ(with.loss_nats, without.loss_nats);
      EXPECT_EQ(with.gradient_norm, without.gradient_norm);
      EXPECT_EQ(with.unreached, without.unreached);
      for (std::size_t i = 0; i < with.gradients.size(); ++i)
        EXPECT_EQ(with.gradients[i].to_vector(), without.gradients[i].to_vector()) << i;
      for (int layer = 0; layer < with.attention.layers(); ++layer) {
        const HeadStatistics &a = with.attention.at(layer, 0), &b = without.attention.at(layer, 0);
        EXPECT_EQ(a.rows_valid, b.rows_valid);
        EXPECT_EQ(a.entropy_sum, b.entropy_sum);
      }
    }
  }
}

std::int64_t peak_bytes(const Transformer& model, const Batch& batch, bool checkpoints) {
  ThreadPool pool(1);
  TrainingStep step(model, pool, 1);
  TrainingStep::Options options;
  options.checkpoint_activations = checkpoints;
  const std::int64_t before = buffer_pool::statistics().live_bytes;
  buffer_pool::reset_peak();
  static_cast<void>(step.run({&batch, 1}, options));
  return buffer_pool::statistics().peak_bytes - before;
}

// Everything counts that a step allocates, gradients too.
TEST(CheckpointActivations, HalvesThePeakMemoryOfEightLayers) {
  TransformerConfig config;
  config.n_layer = 8;
  config.n_embd = 64;
  config.block_size = 64;
  const Transformer model(config, 1);
  const Batch batch = random_batch(16, 64, 1);
  const std::int64_t with = peak_bytes(model, batch, true);
  const std::int64_t without = peak_bytes(model, batch, false);
  RecordProperty("peak_bytes_with", std::to_string(with));
  RecordProperty("peak_bytes_without", std::to_string(without));
  EXPECT_LE(2 * with, without) << with << " of " << without << " bytes";
}

}  // namespace attune::checkpoint_activations_test
