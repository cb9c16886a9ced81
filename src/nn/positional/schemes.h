#pragma once

#include <memory>

#include "attune/nn/positional_encoding.h"

// The makers of the registered schemes; each is defined in the file of its scheme.
namespace attune::positional {

using Maker = std::unique_ptr<PositionalEncoding> (*)(const Scope&, const PositionalConfig&,
                                                      const InitScheme&);

std::unique_ptr<PositionalEncoding> make_none(const Scope&, const PositionalConfig&,
                                              const InitScheme&);
std::unique_ptr<PositionalEncoding> make_learned(const Scope&, const PositionalConfig&,
                                                 const InitScheme&);
std::unique_ptr<PositionalEncoding> make_sinusoidal(const Scope&, const PositionalConfig&,
                                                    const InitScheme&);
std::unique_ptr<PositionalEncoding> make_rope(const Scope&, const PositionalConfig&,
                                              const InitScheme&);
std::unique_ptr<PositionalEncoding> make_alibi(const Scope&, const PositionalConfig&,
                                               const InitScheme&);
std::unique_ptr<PositionalEncoding> make_t5(const Scope&, const PositionalConfig&,
                                            const InitScheme&);

}  // namespace attune::positional
