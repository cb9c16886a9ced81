#include "nn/positional/schemes.h"

namespace attune::positional {
namespace {

// No positional encoding (NoPE; Haviv et al. 2022, Kazemnejad et al. 2023). A causal mask alone
// breaks the symmetry between tokens: row i averages over i + 1 keys. Without a mask the model sees
// a bag of tokens.
class None final : public PositionalEncoding {
 public:
  [[nodiscard]] std::string_view name() const override { return "none"; }
  [[nodiscard]] bool reads_positions() const override { return false; }
};

}  // namespace

std::unique_ptr<PositionalEncoding> make_none(const Scope&, const PositionalConfig&,
                                              const InitScheme&) {
  return std::make_unique<None>();
}

}  // namespace attune::positional
