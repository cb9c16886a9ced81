#include "floor.h"

#include <cblas.h>

#include <cstddef>

#include "attune/core/random.h"

namespace attune::benchmarks {
namespace {

using Buffer = std::vector<float>;

constexpr auto kPlain = CblasNoTrans;
constexpr auto kTransposed = CblasTrans;

Buffer zeros(std::int64_t size) { return Buffer(static_cast<std::size_t>(size)); }

// Uniform in [-1, 1): no product comes near a subnormal number.
Buffer random(std::int64_t size) {
  Buffer values = zeros(size);
  RandomCursor cursor(Randomness{}.stream("benchmark.floor"), 0);
  for (float& value : values) value = static_cast<float>(2 * cursor.uniform() - 1);
  return values;
}

// y = x w^T, x: [rows, in], w: [out, in], and its gradients.
struct Map {
  Map(std::int64_t outputs, std::int64_t inputs)
      : out(outputs), in(inputs), weight(random(outputs * inputs)), gradient(weight.size()) {}
  std::int64_t out, in;
  Buffer weight, gradient;
};

// What lies between the products of a layer is made up; only what a product writes and another
// reads is passed on.
struct Layer {
  Layer(const TransformerConfig& model, std::int64_t examples)
      : query(model.n_embd, model.n_embd),
        key(query),
        value(query),
        output(query),
        up(model.d_ff, model.n_embd),
        down(model.n_embd, model.d_ff) {
    const std::int64_t rows = examples * model.block_size;
    attention_in = random(rows * model.n_embd);
    ffn_in = random(rows * model.n_embd);
    q = k = v = o = zeros(rows * model.n_embd);
    hidden = zeros(rows * model.d_ff);
    pattern = zeros(rows * model.n_head * model.block_size);
  }
  Map query, key, value, output, up, down;
  Buffer attention_in, ffn_in;
  Buffer q, k, v, o, hidden;
  Buffer pattern;  // [examples, heads, context, context]
};

}  // namespace

// All products of some of the examples, on one thread.
class Floor::Part final {
 public:
  Part(const TransformerConfig& model, std::int64_t examples)
      : model_(model),
        examples_(examples),
        rows_(examples * model.block_size),
        layers_(static_cast<std::size_t>(model.n_layer), Layer(model, examples)),
        head_(model.vocabulary, model.n_embd),
        head_in_(random(rows_ * model.n_embd)),
        logits_(zeros(rows_ * model.vocabulary)),
        logits_gradient_(random(rows_ * model.vocabulary)),
        y_(zeros(rows_ * model.n_embd)),
        dy_(random(rows_ * model.n_embd)),
        dx_(zeros(rows_ * model.n_embd)),
        dhidden_(zeros(rows_ * model.d_ff)),
        do_(dx_),
        dq_(dx_),
        dk_(dx_),
        dv_(dx_),
        dpattern_(zeros(model.block_size * model.block_size)) {}

  void run() {
    operations_ = 0;
    for (Layer& layer : layers_) forward(layer);
    forward(head_, head_in_, logits_);
    backward(head_, head_in_, logits_gradient_, dx_, 0);
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) backward(*layer);
  }
  [[nodiscard]] double operations() const { return operations_; }

 private:
  void product(CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, std::int64_t m,
               std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b,
               std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
    const auto size = [](std::int64_t extent) { return static_cast<blasint>(extent); };
    cblas_sgemm(CblasRowMajor, transpose_a, transpose_b, size(m), size(n), size(k), 1, a, size(lda),
                b, size(ldb), beta, c, size(ldc));
    operations_ += 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }

  void forward(const Map& map, const Buffer& x, Buffer& y) {
    product(kPlain, kTransposed, rows_, map.out, map.in, x.data(), map.in, map.weight.data(),
            map.in, 0, y.data(), map.out);
  }
  void backward(Map& map, const Buffer& x, const Buffer& dy, Buffer& dx, float beta) {
    product(kPlain, kPlain, rows_, map.in, map.out, dy.data(), map.out, map.weight.data(), map.in,
            beta, dx.data(), map.in);
    product(kTransposed, kPlain, map.out, map.in, rows_, dy.data(), map.out, x.data(), map.in, 0,
            map.gradient.data(), map.in);
  }

  // visit(offset of the head in [examples, context, model], its scores in `pattern`)
  template <class Visit>
  void for_each_head(Layer& layer, Visit visit) {
    const std::int64_t context = model_.block_size;
    float* pattern = layer.pattern.data();
    for (std::int64_t example = 0; example < examples_; ++example) {
      for (std::int64_t head = 0; head < model_.n_head; ++head) {
        visit(example * context * model_.n_embd + head * model_.head_dim, pattern);
        pattern += context * context;
      }
    }
  }

  void forward(Layer& layer) {
    forward(layer.query, layer.attention_in, layer.q);
    forward(layer.key, layer.attention_in, layer.k);
    forward(layer.value, layer.attention_in, layer.v);
    const std::int64_t context = model_.block_size, width = model_.n_embd, depth = model_.head_dim;
    for_each_head(layer, [&](std::int64_t at, float* pattern) {
      product(kPlain, kTransposed, context, context, depth, layer.q.data() + at, width,
              layer.k.data() + at, width, 0, pattern, context);
      product(kPlain, kPlain, context, depth, context, pattern, context, layer.v.data() + at, width,
              0, layer.o.data() + at, width);
    });
    forward(layer.output, layer.o, y_);
    forward(layer.up, layer.ffn_in, layer.hidden);
    forward(layer.down, layer.hidden, y_);
  }

  void backward(Layer& layer) {
    backward(layer.down, layer.hidden, dy_, dhidden_, 0);
    backward(layer.up, layer.ffn_in, dhidden_, dx_, 0);
    backward(layer.output, layer.o, dy_, do_, 0);
    const std::int64_t context = model_.block_size, width = model_.n_embd, depth = model_.head_dim;
    float* dpattern = dpattern_.data();
    for_each_head(layer, [&](std::int64_t at, const float* pattern) {
      product(kPlain, kTransposed, context, context, depth, do_.data() + at, width,
              layer.v.data() + at, width, 0, dpattern, context);
      product(kTransposed, kPlain, context, depth, context, pattern, context, do_.data() + at,
              width, 0, dv_.data() + at, width);
      product(kPlain, kPlain, context, depth, context, dpattern, context, layer.k.data() + at,
              width, 0, dq_.data() + at, width);
      product(kTransposed, kPlain, context, depth, context, dpattern, context, layer.q.data() + at,
              width, 0, dk_.data() + at, width);
    });
    backward(layer.query, layer.attention_in, dq_, dx_, 0);
    backward(layer.key, layer.attention_in, dk_, dx_, 1);
    backward(layer.value, layer.attention_in, dv_, dx_, 1);
  }

  const TransformerConfig model_;
  const std::int64_t examples_;
  const std::int64_t rows_;
  double operations_ = 0;
  std::vector<Layer> layers_;
  Map head_;
  Buffer head_in_, logits_, logits_gradient_;
  Buffer y_, dy_, dx_, dhidden_, do_, dq_, dk_, dv_;
  Buffer dpattern_;  // of one head
};

Floor::Floor(const Configuration& configuration, ThreadPool& pool)
    : pool_(pool), parts_(static_cast<std::size_t>(pool.threads())) {
  openblas_set_num_threads(1);
  const std::int64_t threads = pool.threads();
  // Each thread touches its own buffers first.
  pool_.run(pool_.threads(), [&](int part) {
    const std::int64_t begin = part * configuration.batch / threads;
    const std::int64_t end = (part + 1) * configuration.batch / threads;
    parts_[static_cast<std::size_t>(part)] =
        std::make_unique<Part>(configuration.model, end - begin);
  });
  run();
  for (const auto& part : parts_) operations_ += part->operations();
}

Floor::~Floor() = default;

void Floor::run() {
  pool_.run(pool_.threads(), [&](int part) { parts_[static_cast<std::size_t>(part)]->run(); });
}

}  // namespace attune::benchmarks
