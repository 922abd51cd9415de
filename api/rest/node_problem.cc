#include "api/rest/node_problem.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "fmt/format.h"

namespace ebb::rest {

Problem NodeProblem(engine::TunerService& service, const std::string& node,
                    const absl::Status& status) {
  if (!absl::IsNotFound(status)) return ProblemFromStatus(status);
  const std::vector<engine::NodeStatus> nodes = service.Nodes();
  std::vector<std::string_view> ids;
  for (const auto& known : nodes) ids.push_back(known.id);
  if (std::find(ids.begin(), ids.end(), node) != ids.end()) return ProblemFromStatus(status);
  if (ids.empty()) {
    return {404, "not-found", "No node is attached; attach one with POST /api/v1/nodes.", {}, {}};
  }
  const std::string_view near = NearestWord(node, ids);
  return {404,
          "not-found",
          near.empty()
              ? fmt::format("No such node is attached; attached: {}.", fmt::join(ids, ", "))
              : fmt::format("No such node is attached; did you mean '{}'?", near),
          {},
          {}};
}

}  // namespace ebb::rest
