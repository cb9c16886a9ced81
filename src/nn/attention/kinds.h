#pragma once

#include <memory>

#include "attune/nn/self_attention.h"

// The makers of the registered kinds of attention; each is defined in the file of its kind.
namespace attune::attention_kind {

using Maker = std::unique_ptr<SelfAttention> (*)(const Scope&, const AttentionConfig&,
                                                 const PositionalEncoding&, const InitScheme&,
                                                 int layer);

std::unique_ptr<SelfAttention> make_dot_product(const Scope&, const AttentionConfig&,
                                                const PositionalEncoding&, const InitScheme&,
                                                int layer);
std::unique_ptr<SelfAttention> make_linear(const Scope&, const AttentionConfig&,
                                           const PositionalEncoding&, const InitScheme&, int layer);
std::unique_ptr<SelfAttention> make_random_feature(const Scope&, const AttentionConfig&,
                                                   const PositionalEncoding&, const InitScheme&,
                                                   int layer);
std::unique_ptr<SelfAttention> make_differential(const Scope&, const AttentionConfig&,
                                                 const PositionalEncoding&, const InitScheme&,
                                                 int layer);
std::unique_ptr<SelfAttention> make_mixture(const Scope&, const AttentionConfig&,
                                            const PositionalEncoding&, const InitScheme&,
                                            int layer);
std::unique_ptr<SelfAttention> make_top_k(const Scope&, const AttentionConfig&,
                                          const PositionalEncoding&, const InitScheme&, int layer);

}  // namespace attune::attention_kind
