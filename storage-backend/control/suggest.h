// "Did you mean" for mistyped names in requests and configuration files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebb::storage {

// ": did you mean read_cache_bytes?" for the nearest of `known`, or "" when none is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace ebb::storage
