// The handlers behind the route table, one function a route. Only rest_api.cc and the handlers'
// own files include this.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/rest/message.h"
#include "api/rest/readers.h"
#include "api/rest/rest_api.h"

namespace ebb::rest {

// A request that has found its route.
struct Call {
  RestApi& api;
  const Request& request;
  std::vector<std::string> path;  // what stands in the pattern's braces, decoded, in order
  QueryReader query;
};

using Handler = Reply (*)(Call& call);

Response JsonResponse(std::string body, int status = 200);

// service_routes.cc
Reply GetRoot(Call& call);
Reply GetVersion(Call& call);
Reply GetLivez(Call& call);
Reply GetReadyz(Call& call);
Reply GetHealthz(Call& call);
Reply GetMetrics(Call& call);

// node_routes.cc
Reply GetNodes(Call& call);
Reply PostNode(Call& call);
Reply GetNode(Call& call);
Reply DeleteNode(Call& call);
Reply GetGoal(Call& call);
Reply PutGoal(Call& call);
Reply GetTuner(Call& call);
Reply PatchTuner(Call& call);
Reply PostRestore(Call& call);
Reply GetKnobs(Call& call);
Reply GetKnob(Call& call);
Reply PatchKnob(Call& call);

// recommendation_routes.cc
Reply GetRecommendations(Call& call);
Reply GetRecommendation(Call& call);
Reply PostDecision(Call& call);

// history_routes.cc
Reply GetChanges(Call& call);
Reply GetNodeChanges(Call& call);
Reply GetChange(Call& call);
Reply GetSeries(Call& call);

}  // namespace ebb::rest
