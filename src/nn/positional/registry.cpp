#include <algorithm>

#include "attune/core/error.h"
#include "attune/core/text.h"
#include "nn/positional/schemes.h"

namespace attune {
namespace {

struct Scheme {
  const char* name;
  const char* description;
  positional::Maker make;
  bool causal_only = false;
};

constexpr Scheme kSchemes[] = {
    {"none", "nothing is added; under a causal mask order can still be inferred",
     positional::make_none},
    {"learned", "a learned vector a position, added to the tokens (Radford 2018)",
     positional::make_learned},
    {"sinusoidal", "fixed sines and cosines, added to sqrt(width) times the tokens (Vaswani 2017)",
     positional::make_sinusoidal},
    {"rope", "queries and keys rotated by their position (Su 2021), half-split pairs",
     positional::make_rope},
    {"rope-interleaved", "rope whose pairs are neighbouring features, as in the paper (Su 2021)",
     positional::make_rope_interleaved},
    {"rope-partial", "rope on the first quarter of a head's features (Black 2022)",
     positional::make_rope_partial},
    {"rope-pi", "rope at positions divided by --pos-scale, interpolation (Chen 2023)",
     positional::make_rope_pi},
    {"rope-ntk", "rope whose slow pairs turn slower by --pos-scale (NTK-aware, Peng 2023)",
     positional::make_rope_ntk},
    {"rope-dynamic-ntk",
     "rope-ntk that sets in beyond --block-size and grows with the text, read again whole there "
     "(Peng 2023)",
     positional::make_rope_dynamic_ntk},
    {"xpos", "rope whose pairs decay with distance (Sun 2023), causal models alone",
     positional::make_xpos, true},
    {"alibi", "scores lowered linearly with distance, a fixed slope a head (Press 2022)",
     positional::make_alibi},
    {"t5", "a learned bias a head and bucket of distances (Raffel 2020)", positional::make_t5},
    {"kerple", "scores lowered by a learned logarithm of distance a head (Chi 2022)",
     positional::make_kerple},
    {"kerple-power", "scores lowered by a learned power of distance a head (Chi 2022)",
     positional::make_kerple_power},
    {"fire", "a small network maps distance over length to a bias a head (Li 2024)",
     positional::make_fire},
    {"shaw",
     "a learned vector a distance up to 16, for keys and for values of each layer (Shaw 2018)",
     positional::make_shaw},
    {"transformer-xl", "content and position terms of projected sinusoids of distance (Dai 2019)",
     positional::make_transformer_xl},
    {"cope", "positions counted by gates on content (Golovneva 2024), causal models alone",
     positional::make_cope, true},
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_positional_encoding(std::string_view name,
                                                             const Scope& scope,
                                                             const PositionalConfig& config,
                                                             const InitScheme& init) {
  std::vector<std::string> names;
  for (const Scheme& scheme : kSchemes) {
    names.emplace_back(scheme.name);
    if (name != scheme.name) continue;
    if (scheme.causal_only && !config.causal) {
      throw ConfigError("--pos " + std::string(name) +
                        ": counts distances back from the query, so needs --mask causal");
    }
    return scheme.make(scope, config, init);
  }
  throw ConfigError("--pos: '" + std::string(name) + "' is unknown" + did_you_mean(name, names));
}

std::vector<EncodingInfo> list_encodings() {
  std::vector<EncodingInfo> list;
  for (const Scheme& scheme : kSchemes)
    list.push_back({scheme.name, scheme.description, scheme.causal_only});
  return list;
}

}  // namespace attune
