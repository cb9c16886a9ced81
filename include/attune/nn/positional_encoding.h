#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attune/nn/pass.h"
#include "attune/nn/scope.h"
#include "attune/ops/columns.h"

namespace attune {

// cos and sin of a rotation's angles, [1 or batch, time, rotated / 2].
struct Rotation {
  Array cosines;
  Array sines;
};

// x becomes scale x + added; `added` is [time, model] or [batch, time, model], null: nothing.
struct EmbeddingTerm {
  double scale = 1;
  Var added;
};

// What an encoding makes of the positions of one forward pass, once, for all layers.
struct PositionContext {
  Positions query;                 // of the tokens of this pass
  Positions new_key;               // of the keys of this pass: the query's, or those of a memory
  const KvCache* cache = nullptr;  // of the keys in front of the new ones; null: none are
  Rotation query_rotation;         // null arrays where the encoding does not rotate
  Rotation key_rotation;           // of the keys that transform_key is given, see CachePolicy
  // Added to the scaled scores; null where there is nothing to add. Where only the distance key -
  // query matters, the table is the smaller by far: column c is of distance first_distance + c, the
  // keys stand at distance_keys.
  Var score_bias;      // [1 or batch, heads, query, key]
  Var distance_table;  // [heads, distances]
  std::int64_t first_distance = 0;
  Positions distance_keys;
  // For terms that depend on content and look something up by distance: a column for each pair of
  // query and key, and what stands for each column.
  Columns columns;        // [1 or batch, 1, query, key]
  Array column_features;  // [columns, features]

  // Of all keys: those in the cache, then the new ones. A copy, so ask once: a pass under a scheme
  // that does not ask costs the same however many tokens were read before.
  [[nodiscard]] Positions key() const;
  // Them, and the distances between any query and any key: what a distance table takes.
  struct Distances {
    Positions keys;
    std::int64_t first;
    std::int64_t count;
  };
  [[nodiscard]] Distances distances() const;
  // Columns low .. high of key - query; distances beyond are clipped.
  [[nodiscard]] Columns clipped_distances(std::int64_t low, std::int64_t high) const;

  // Tokens at these positions that attend to one another, without a cache; for prepare() to fill.
  [[nodiscard]] static PositionContext of(const Positions& positions) {
    PositionContext context;
    context.query = context.new_key = positions;
    return context;
  }
};

// What a KV-cache may hold under an encoding, and so which keys transform_key is given.
enum class CachePolicy : std::uint8_t {
  transformed_keys,  // the new keys, once and for all; the cache holds them as transformed
  raw_keys,          // all keys, again in every pass; the cache holds them as projected
};

// How a model knows where a token stands. One scheme is one final class in one file. Position may
// enter at any of these points; a scheme overrides those it uses. Positions are explicit integers
// everywhere, never an index in the array.
class PositionalEncoding {
 public:
  virtual ~PositionalEncoding() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  // Prepares what the layers will need: rotations, a score bias.
  virtual void prepare(PositionContext& /*context*/, const Pass& /*pass*/) const {}
  // Embed-add: what becomes of token embeddings [batch, time, model] at these positions.
  [[nodiscard]] virtual EmbeddingTerm embedding_term(const Positions& /*positions*/,
                                                     const Pass& /*pass*/) const {
    return {};
  }
  // The same, done: x [batch, time, model] -> the same shape.
  [[nodiscard]] Var embed(const Var& x, const Positions& positions, const Pass& pass) const;
  // Query and key transform: x [batch, time, heads * head_dim] -> the same shape. Which keys those
  // are depends on cache_policy().
  [[nodiscard]] virtual Var transform_query(const Var& x, std::int64_t /*heads*/,
                                            const PositionContext& /*context*/) const {
    return x;
  }
  [[nodiscard]] virtual Var transform_key(const Var& x, std::int64_t /*heads*/,
                                          const PositionContext& /*context*/) const {
    return x;
  }

  // Whether anything is added to scores; kinds of attention without scores refuse such a scheme.
  [[nodiscard]] virtual bool acts_on_scores() const { return depends_on_content(); }
  // Terms that depend on content; a scheme that has one takes the composed attention instead of the
  // fused kernel.
  [[nodiscard]] virtual bool depends_on_content() const { return false; }
  // Added to the scaled scores [batch, heads, query, key], or null. query [batch, query, heads *
  // head_dim] and key [batch, key, kv_heads * head_dim], all that are attended to, as transformed;
  // `scores` are those without it; `keep` [1 or batch, 1 or heads, query, key] is 1 where the mask
  // keeps a key, else 0.
  [[nodiscard]] virtual Var content_bias(const Var& /*query*/, const Var& /*key*/,
                                         const Var& /*scores*/, const Array& /*keep*/,
                                         int /*layer*/, const PositionContext& /*context*/,
                                         const Pass& /*pass*/) const {
    return {};
  }
  // Added to the heads' outputs [batch, query, heads * value_dim], or null; weights [batch, heads,
  // query, key] are those of the values, after dropout.
  [[nodiscard]] virtual Var value_term(const Var& /*weights*/, int /*layer*/,
                                       const PositionContext& /*context*/,
                                       const Pass& /*pass*/) const {
    return {};
  }

  [[nodiscard]] virtual CachePolicy cache_policy() const { return CachePolicy::transformed_keys; }
  // The longest text, in tokens, that a KV-cache holds right; 0: any. Beyond it prepare() throws
  // where a cache has tokens already, and a text has to be read again as a whole.
  [[nodiscard]] virtual std::int64_t cache_limit() const { return 0; }
  // Positions from this on throw; 0: none do.
  [[nodiscard]] virtual std::int64_t position_limit() const { return 0; }
  // Whether positions enter at all; if not, what order there is comes from the mask.
  [[nodiscard]] virtual bool reads_positions() const { return true; }
  // Whether scores depend on positions through key - query alone.
  [[nodiscard]] virtual bool is_shift_invariant() const { return true; }
  // Whether the trained length enters the computation: a model trained on longer texts is then
  // another one, beyond the trained length at least.
  [[nodiscard]] virtual bool depends_on_trained_length() const { return false; }
};

struct PositionalConfig {
  std::int64_t model = 128;
  std::int64_t heads = 4;
  std::int64_t head_dim = 32;
  std::int64_t block_size = 64;  // trained length: positions in training are below it
  bool causal = true;
  std::int64_t layers = 4;     // for schemes with parameters of each layer
  std::int64_t kv_heads = 0;   // heads of keys and values; 0: heads
  std::int64_t value_dim = 0;  // width of a head's values; 0: head_dim
  double score_scale = 0;      // factor on the scores; 0: 1/sqrt(head_dim)
  double extension = 2;        // how far a scheme that stretches positions stretches them
};

// Makes a registered scheme with its parameters below `scope`. Throws ConfigError for an unknown
// name, with the nearest ones, for a width that the scheme cannot serve, and where a scheme for
// causal models alone is asked to serve another.
[[nodiscard]] std::unique_ptr<PositionalEncoding> make_positional_encoding(
    std::string_view name, const Scope& scope, const PositionalConfig& config,
    const InitScheme& init);

struct EncodingInfo {
  std::string name;
  std::string description;
  bool causal_only = false;  // makes no sense of keys ahead of the query
};
[[nodiscard]] std::vector<EncodingInfo> list_encodings();

}  // namespace attune
