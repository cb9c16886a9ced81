#include "attune/nn/masks.h"

#include <fmt/format.h>

#include "attune/core/error.h"
#include "attune/core/text.h"

namespace attune {
namespace {

Mask dilated(const MaskSizes& sizes) {
  return Mask::sparse({.window = sizes.window, .dilation = sizes.dilation});
}
Mask global(const MaskSizes& sizes) {
  return Mask::sparse({.window = sizes.window, .globals = sizes.global_tokens});
}
Mask big_bird(const MaskSizes& sizes) {
  return Mask::sparse({.window = sizes.window,
                       .globals = sizes.global_tokens,
                       .random = sizes.random_blocks,
                       .block = sizes.block});
}

struct Named {
  const char* name;
  const char* description;
  Mask (*make)(const MaskSizes&);
};
constexpr Named kMasks[] = {
    {"causal", "a token sees itself and what came before it",
     [](const MaskSizes&) { return Mask::causal(); }},
    {"none", "every token sees every token", [](const MaskSizes&) { return Mask::none(); }},
    {"window", "the nearest --window tokens on each side, itself included (Beltagy 2020)",
     [](const MaskSizes& sizes) { return Mask::window(sizes.window); }},
    {"dilated", "a window of --window tokens, --dilation apart (Beltagy 2020)", dilated},
    {"global",
     "a window, and --global-tokens first ones that see all and are seen by all "
     "(Beltagy 2020)",
     global},
    {"bigbird", "a window, global tokens, and --random-blocks drawn blocks (Zaheer 2020)",
     big_bird},
    {"prefix", "causal, but the first --prefix tokens see each other (Raffel 2020)",
     [](const MaskSizes& sizes) { return Mask::prefix(sizes.prefix); }},
    {"documents", "tokens up to and with the same --document-separator",
     [](const MaskSizes&) { return Mask::none(); }},
};

Mask make_part(std::string_view name, const MaskSizes& sizes) {
  std::vector<std::string> names;
  for (const Named& named : kMasks) {
    if (name == named.name) return named.make(sizes);
    names.emplace_back(named.name);
  }
  throw ConfigError(fmt::format("--mask: '{}' is unknown{} (known: {})", name,
                                did_you_mean(name, names), fmt::join(names, ", ")));
}

// Calls visit(part) for what stands between the '+' of a list.
template <class Visit>
void for_each_part(std::string_view names, Visit visit) {
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find('+', begin), names.size());
    visit(names.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace

Mask make_mask(std::string_view names, const MaskSizes& sizes) {
  Mask mask;
  try {
    for_each_part(names, [&](std::string_view name) { mask &= make_part(name, sizes); });
  } catch (const ValueError& error) {
    throw ConfigError(fmt::format("--mask {}: {}", names, error.what()));
  }
  return mask;
}

bool has_mask_part(std::string_view names, std::string_view part) {
  bool found = false;
  for_each_part(names, [&](std::string_view name) { found |= name == part; });
  return found;
}

std::vector<MaskInfo> list_masks() {
  std::vector<MaskInfo> list;
  for (const Named& named : kMasks) list.push_back({named.name, named.description});
  return list;
}

}  // namespace attune
