#include "storage-backend/control/suggest.h"

#include "base/nearest.h"
#include "fmt/format.h"

namespace ebb::storage {

std::string DidYouMean(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string_view nearest = NearestWord(name, known);
  return nearest.empty() ? "" : fmt::format(": did you mean {}?", nearest);
}

}  // namespace ebb::storage
