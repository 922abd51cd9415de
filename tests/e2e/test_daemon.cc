// The product's daemon with an agent that a test dictates, and trials that follow each other fast.
//
//   ebb_test_daemon harmful KNOB=VALUE[,KNOB=VALUE] EBBD-ARGUMENTS...
//   ebb_test_daemon noop EBBD-ARGUMENTS...
//
// "harmful" proposes the same setting again and again; "noop" proposes the incumbent itself. Only
// what would keep the same proposal from being tried again is switched off; every test, margin and
// trip wire of the guard is the product's.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "engine/daemon/run_daemon.h"
#include "fmt/format.h"

namespace ebb::engine {
namespace {

using Moves = std::vector<std::pair<std::string, int64_t>>;

// Proposes the incumbent with some knobs moved.
class DictatedAgent final : public agents::Agent {
 public:
  DictatedAgent(std::string name, Moves moves) : name_(std::move(name)), moves_(std::move(moves)) {}

  std::string_view name() const override { return name_; }
  std::optional<agents::Proposal> Propose(const agents::ProposalContext& context) override {
    agents::Proposal proposal;
    proposal.candidate = context.incumbent;
    for (const auto& [knob, value] : moves_) {
      const auto position = context.space.Find(knob);
      if (!position) return std::nullopt;
      proposal.candidate.values[*position] = value;
    }
    proposal.reason = fmt::format("the test's {} proposal", name_);
    return proposal;
  }
  void Learn(const agents::Transition&) override {}
  std::string hold_reason() const override { return "a knob of the test does not exist"; }
  std::string Save() const override { return {}; }
  absl::Status Load(std::string_view) override { return absl::OkStatus(); }

 private:
  const std::string name_;
  const Moves moves_;
};

// Exits when the text is no list of moves: a test's own mistake.
Moves ParseMoves(const std::string& text) {
  Moves moves;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t equals = text.find('=', begin);
    int64_t value = 0;
    if (equals >= end || std::from_chars(text.data() + equals + 1, text.data() + end, value).ptr !=
                             text.data() + end) {
      fmt::print(stderr, "ebb_test_daemon: '{}' is no list of KNOB=VALUE\n", text);
      std::exit(2);
    }
    moves.emplace_back(text.substr(begin, equals - begin), value);
    begin = end + 1;
  }
  return moves;
}

int Main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const bool harmful = name == "harmful" && argc > 2;
  if (!harmful && name != "noop") {
    fmt::print(stderr, "usage: ebb_test_daemon harmful KNOB=VALUE,... | noop, then ebbd's\n");
    return 2;
  }
  const Moves moves = harmful ? ParseMoves(argv[2]) : Moves();
  const int taken = harmful ? 2 : 1;
  argv[taken] = argv[0];

  DaemonParts parts;
  parts.make_agent = [&](std::string_view,
                         uint64_t) -> absl::StatusOr<std::unique_ptr<agents::Agent>> {
    return std::make_unique<DictatedAgent>(name, moves);
  };
  parts.loop.envelope.tabu_windows = 0;
  parts.loop.envelope.trials_per_hour_max = 1'000'000;
  parts.loop.envelope.allow_identical = true;
  parts.loop.nulls_before_back_off = 1'000'000;
  parts.loop.holdback_share = 0;
  return RunDaemon(argc - taken, argv + taken, parts);
}

}  // namespace
}  // namespace ebb::engine

int main(int argc, char** argv) {
  try {
    return ebb::engine::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ebb_test_daemon: %s\n", error.what());
    return 1;
  }
}
